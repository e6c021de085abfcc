"""Rows and studies that reports are tested on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.rows import write_rows


def row(n: int, score: float, prediction: str | None = "blue", **more: Any) -> dict[str, Any]:
    """A row of `ragc eval --out` with a search, a threshold and a call."""
    question = f"What colour is thing number{n}?"
    trace = [
        {
            "at": [1],
            "search": "local",
            "query": question,
            "k": 2,
            "hits": [
                {"id": f"d{n}", "score": 1.5, "title": f"Thing {n}", "text": "It is blue."},
                {"id": "d0#1", "score": 0.5},
            ],
        },
        {"at": [2], "gate": "tau", "score": 0.4, "passed": False, "threshold": 0.5},
        {"at": [3, 1], "note": "choice", "outcome": "the first"},
        {
            "at": [4],
            "call": "answer",
            "role": "main",
            "inputs": {"question": question, "passages": ["It is blue."]},
            "outputs": {"answer": prediction},
            "prompt_tokens": 90,
            "completion_tokens": 2,
            "sent": {
                "messages": [
                    {"role": "system", "content": "Answer the question from the passages."},
                    {"role": "user", "content": f"It is blue. {question}"},
                ],
                "replies": [json.dumps({"answer": prediction})],
            },
        },
    ]
    return {
        "id": f"q{n}",
        "question": question,
        "answers": ["blue"],
        "prediction": prediction,
        "passages": [f"d{n}"],
        "gold_ids": [f"d{n}"],
        "scores": {"f1": score, "em": float(score == 1), "recall@5": 1.0},
        "counters": {"lm_calls": 1, "prompt_tokens": 90, "completion_tokens": 2, "tokens": 92, "searches": 1},
        "failure": "" if prediction is not None else "The reply is no JSON.",
        "trace": trace,
        **more,
    }


def two_runs(folder: Path, n: int = 12) -> tuple[Path, Path]:
    """A run with a third of `n` questions right, and a better one that lost one question."""
    before = [row(i, 1.0) if i % 3 == 0 else row(i, 0.0, "dark") for i in range(n)]
    after = [row(i, 1.0) if i else row(i, 0.25, None) for i in range(n)]
    return write_rows(folder / "before.jsonl", before), write_rows(folder / "after.jsonl", after)


HOSTILE = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>"
BREAKOUT = (
    "</script><!-- --><script>window.pwned = 3</script>\u2028\u2029]]>{{ 7 * 7 }}{% raw %}"
    "\ud800&amp;\x00\u202e"
)


def hostile_rows(passage: str) -> list[dict[str, Any]]:
    """Rows whose every text is an attack, and whose traces have the wrong types."""
    attack = row(
        1,
        0.5,
        HOSTILE,
        id=f"q<b>{HOSTILE}",
        question=f"{BREAKOUT} {HOSTILE}",
        answers=[HOSTILE, "javascript:window.pwned=4"],
        gold_ids=[HOSTILE, 3, None],
        passages=[HOSTILE, {"a": 1}],
    )
    call = attack["trace"][3]
    call |= {"call": HOSTILE, "role": HOSTILE, "outputs": {HOSTILE: BREAKOUT, "$": 0, "__proto__": {"x": 1}}}
    call["sent"] = {
        "messages": [{"role": HOSTILE, "content": passage}, {"role": "user", "content": BREAKOUT}, 7],
        "replies": [HOSTILE, 9, None],
    }
    attack["trace"][0] |= {"query": BREAKOUT, "hits": [{"id": HOSTILE, "title": HOSTILE, "text": passage}, 3]}
    wrong: list[Any] = [
        *attack["trace"],
        None,
        "text",
        7,
        [[[]]],
        {"call": None, "inputs": 3, "outputs": [1], "at": "x", "prompt_tokens": "many"},
        {"search": ["a"], "hits": 12, "k": {}},
        {"gate": "tau", "score": float("nan"), "passed": "yes", "threshold": float("inf")},
        {"note": {"deep": 1}, "outcome": 2**70},
        {"at": [1, 2, 3, 4, 5, 6, 7, 8, 9]},
    ]
    attack["trace"] = wrong
    bare = {"id": "__proto__", "scores": {"f1": 1, "constructor": None, HOSTILE: 0.5, "os:system": 1.0}}
    odd = row(2, 0.0, "", counters={"tokens": float("nan"), "x": "y", HOSTILE: 1}, trace="none", failure=3)
    return [attack, bare, odd]
