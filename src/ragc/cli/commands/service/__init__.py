"""The commands that run until they are ended: `ragc serve` and `ragc mcp`."""
