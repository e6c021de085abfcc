"""Prompts as data: written by exports, read by `[prompts]`."""
