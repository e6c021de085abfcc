"""Reads files of questions and passages: rows, field maps, filters, splits."""
