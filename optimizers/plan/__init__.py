"""The dry run: what a compile takes at most."""
