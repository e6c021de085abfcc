"""Statistics: intervals, paired tests, and multiple comparisons."""
