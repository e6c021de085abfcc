"""Embedders: texts as vectors."""
