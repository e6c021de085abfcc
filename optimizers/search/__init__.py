"""A study: what is tried next, raced, kept and chosen."""
