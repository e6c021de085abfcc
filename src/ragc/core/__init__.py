"""Helpers for every package: event loop, counters, digests, paths, limits, text output."""
