"""Instruction candidates: proposed, filtered, and grounded in data."""
