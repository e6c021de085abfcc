"""A recipe prepared to run: its data, targets, sources, prompts, prices and budget."""
