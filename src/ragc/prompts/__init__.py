"""Prompts as data: what exports write and `[prompts]` reads."""
