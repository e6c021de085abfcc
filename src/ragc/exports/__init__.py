"""Exports: compiled prompts in the formats of other systems."""
