"""DSPy's optimizers on ragc's store, budget and splits."""
