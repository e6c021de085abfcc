"""One Python file without dependencies."""
