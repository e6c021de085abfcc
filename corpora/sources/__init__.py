"""Sources of passages, one file or folder a kind."""
