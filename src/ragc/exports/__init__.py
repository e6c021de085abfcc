"""Exports: compiled prompts in the formats of other systems. This version writes none yet."""
