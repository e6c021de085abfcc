"""Programs: one file per method and baseline, and the table that lists them all.

Importing this package is quick: DSPy is imported only when a method is built.
"""

from __future__ import annotations

from ragc.errors import UnknownName
from ragc.programs.method import Method
from ragc.programs.shared_knobs import AnswerKnobs, PassageKnobs

METHODS: tuple[Method, ...] = (
    Method(
        "no_retrieval",
        "the model answers from what it knows, in one call",
        "baseline of all five papers",
        "ragc.programs.no_retrieval:NoRetrieval",
        AnswerKnobs,
        demo_shape=("cot",),
    ),
    Method(
        "vanilla",
        "retrieve once, answer once from the passages",
        "baseline of all five papers; knobs of RAG-X",
        "ragc.programs.vanilla:Vanilla",
        PassageKnobs,
        sources=("local",),
        demo_knobs={"top_k": 1, "noise_n": 0, "chunk_size": 100},
        demo_shape=("cot",),
    ),
)


def method(id: str) -> Method:
    """The method called `id`; raises UnknownName with the nearest one."""
    for entry in METHODS:
        if entry.id == id:
            return entry
    raise UnknownName("program", id, [entry.id for entry in METHODS])


__all__ = ["METHODS", "Method", "method"]
