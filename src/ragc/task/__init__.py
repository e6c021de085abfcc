"""A recipe made ready to run: its data, targets, sources, prompts, prices and budget."""
