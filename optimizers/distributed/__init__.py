"""Studies on several machines: their shared state, and their workers."""
