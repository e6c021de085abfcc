"""Instructions: proposed, filtered, grounded in data."""
