"""Intervals, paired tests and families of comparisons."""
