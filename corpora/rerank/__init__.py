"""Rerankers: cross-encoders, embedders, BM25, a listwise model."""
