"""Files that are fetched once a user, checked and kept."""
