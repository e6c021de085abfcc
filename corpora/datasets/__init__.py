"""Data sets by name: one file each, with a card and a reader of the official format."""
