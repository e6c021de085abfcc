"""Files that are downloaded once per user, verified and cached."""
