"""FLOWS: the control flow of every method, step by step; `ragc.exports.graph.Step` says what each tells."""

from __future__ import annotations

from collections.abc import Mapping

from ragc.exports.flows_graded import GRADED
from ragc.exports.flows_rounds import ROUNDS
from ragc.exports.flows_routed import ROUTED
from ragc.exports.graph import END, START, Step

_LOCAL, _WEB = "search local", "search web"
_NOISE = ("noise_n", "noise_pos")


def _reader(top: str = "top_k", more: tuple[str, ...] = _NOISE) -> tuple[Step, ...]:
    """One search of the source `local`, one answer."""
    return (
        Step(START, _LOCAL, "the question", knobs=(top,)),
        Step(
            _LOCAL,
            "answer",
            "the passages, and unrelated ones as noise" if more else "the passages",
            knobs=more,
        ),
        Step("answer", END, "answer"),
    )


_CLOSED = (Step(START, "answer", "the question"), Step("answer", END, "answer"))

_GATED = (
    Step(_LOCAL, "answer", "the passages, and unrelated ones as noise", knobs=_NOISE),
    Step("answer", END, "answer"),
    Step("closed", END, "answer"),
)

_SIMPLE: dict[str, tuple[Step, ...]] = {
    "no_retrieval": _CLOSED,
    "cot": _CLOSED,
    "vanilla": _reader(),
    "chain_of_note": _reader(),
    "vanilla_sources": (
        Step(START, _LOCAL, "the question", "sources_used is local or both", ("sources_used", "k_local")),
        Step(START, _WEB, "the question", "sources_used is web or both", ("sources_used", "k_web")),
        Step(_LOCAL, "answer", "its passages, first"),
        Step(_WEB, "answer", "its passages, after those of local"),
        Step("answer", END, "answer"),
    ),
    "iter_retgen": (
        Step(START, _LOCAL, "the question", knobs=("rounds", "top_k", "pool")),
        Step(
            _LOCAL,
            "answer",
            "the best passages, ordered by the question after the first round",
            knobs=("rerank", "top_k", *_NOISE),
        ),
        Step(
            "answer",
            _LOCAL,
            "the question, then what was answered, with its reasoning",
            "fewer rounds than asked for are done",
            ("rounds", "cot"),
        ),
        Step("answer", END, "answer", "all rounds are done, or the reply cannot be read"),
    ),
    "skr": (
        Step(
            START,
            _LOCAL,
            "the question",
            "the labelled train questions most like it say that passages help, or there are none",
            ("skr_k", "skr_rule", "top_k"),
        ),
        Step(START, "closed", "the question", "they say that passages do not help", ("skr_k", "skr_rule")),
        *_GATED,
    ),
    "self_eval": (
        Step(START, "gate", "the question"),
        Step("gate", _LOCAL, "the question", "need is true, or the reply cannot be read", ("top_k",)),
        Step("gate", "closed", "the question", "need is false"),
        *_GATED,
    ),
}

FLOWS: Mapping[str, tuple[Step, ...]] = {**_SIMPLE, **ROUNDS, **ROUTED, **GRADED}
"""The steps of every method by id, those of all settings of its knobs."""
