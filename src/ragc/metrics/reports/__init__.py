"""Runs read from rows, and compared question by question."""
