"""Formats of other systems that hold any data set: BEIR's folders, AutoRAG's folders, Ragas' test sets."""
