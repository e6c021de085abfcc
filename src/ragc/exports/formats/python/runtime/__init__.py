"""Code that is copied into exported Python files as it stands; it needs only the standard library."""
