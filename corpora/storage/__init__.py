"""Corpora in memory or on disk, and the cache of indexes."""
