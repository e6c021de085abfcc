"""Studies on several machines: what their processes share, and their workers."""
