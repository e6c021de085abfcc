"""Export formats, one file or folder each, and their shared helpers."""
