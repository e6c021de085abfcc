"""Lucene, by pyserini's jar."""
