"""DSPy's own code, run on a task: through the call store and the ledger, muted, and ended with the search."""
