"""Keyword search with Lucene, from pyserini's jar."""
