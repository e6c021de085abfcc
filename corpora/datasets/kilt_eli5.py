"""KILT's ELI5: questions that ask for an explanation, read as the other sets of KILT are."""

from __future__ import annotations

from ragc.corpora.datasets.kilt import ELI5 as CARD
from ragc.corpora.datasets.kilt import read

__all__ = ["CARD", "read"]
