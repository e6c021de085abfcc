"""Compiled programs: written, trusted, opened, scored."""
