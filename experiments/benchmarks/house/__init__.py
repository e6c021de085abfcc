"""Counts that say how easy the code is to live in: its size, the files a question passes, circles of parts.

    PYTHONPATH=src python -m experiments.benchmarks.house [--json]

Product code is `src corpora optimizers programs signatures`; a file that a link leads to counts once.
"""
