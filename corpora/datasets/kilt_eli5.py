"""KILT's ELI5: questions that ask for an explanation, read like the other data sets of KILT."""

from __future__ import annotations

from ragc.corpora.datasets.kilt import ELI5 as CARD
from ragc.corpora.datasets.kilt import read

__all__ = ["CARD", "read"]
