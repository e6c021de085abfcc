"""Web search and pages."""
