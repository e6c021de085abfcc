"""Reports on runs: reading rows, and comparing two runs question by question."""
