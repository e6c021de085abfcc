"""Chain-of-Note, through the public API, on scripted targets."""

from __future__ import annotations

from typing import Any

import pytest

from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.testing import ScriptedTarget
from tests.support.sources import numbered_source


def build_program(target: ScriptedTarget, **knobs: Any) -> RagProgram:
    return method("chain_of_note").build(
        Runtime({"main": target}, {"local": numbered_source("p", 20)}), knobs
    )


def notes(*items: tuple[int, str]) -> dict[str, Any]:
    return {
        "reading": {"notes": [{"passage": n, "note": "says", "kind": kind} for n, kind in items]},
        "answer": "x",
    }


def test_is_one_call_and_drops_notes_on_nothing() -> None:
    target = ScriptedTarget([notes((1, "answers"), (2, "irrelevant"), (2, "context"), (9, "answers"))])
    prediction = build_program(target)(question="Q?")
    assert (prediction.answer, prediction.counters["lm_calls"], prediction.counters["dropped"]) == ("x", 1, 2)
    assert [prediction.counters[f"notes_{kind}"] for kind in ("answers", "context", "irrelevant")] == [
        1,
        0,
        1,
    ]
    assert [p.id for p in prediction.passages] == ["p0", "p1", "p2", "p3", "p4"]


def test_no_more_notes_are_asked_for_or_read_than_passages() -> None:
    many = [(n, "answers") for n in (1, 2, 3, 4)]
    target = ScriptedTarget([notes(*many)])
    prediction = build_program(target, top_k=2, noise_n=1)(question="Q?")
    (request,) = target.requests
    assert request.schema is not None
    assert request.schema["$defs"]["Notes"]["properties"]["notes"]["maxItems"] == 3
    assert "at most 3" in request.messages[0].content
    assert (prediction.counters["notes_answers"], prediction.counters["repairs"]) == (3, 0)


@pytest.mark.parametrize("notes_first", [True, False])
def test_unknown_stands_beside_the_options_of_a_format(notes_first: bool) -> None:
    target = ScriptedTarget([notes() | {"answer": "unknown"}])
    prediction = build_program(target, answer_format="yesno", notes=notes_first)(question="Q?")
    (request,) = target.requests
    assert request.schema is not None
    assert request.schema["properties"]["answer"]["enum"] == ["yes", "no", "unknown"]
    assert prediction.answer == "unknown"
