"""Experiments: recipes whose results are claims, each with a way to check it, and the log of them."""
