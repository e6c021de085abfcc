"""Questions with earlier turns: the knob `history`, the call before the program, and turns in data sets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc import recipe as recipes
from ragc.errors import DataError, UsageError
from ragc.optimizers.plan.estimate import estimate
from ragc.programs import METHODS, Method
from ragc.programs.trace import Call
from ragc.records import Question, read_turns
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget
from tests.contracts.test_programs import FOUND, QUESTION, build_program
from tests.optimizers.colours import begun, colour_of, written

TURNS = [
    {"role": "user", "content": "What colour is thing number7?"},
    {"role": "assistant", "content": "Blue."},
]
ASKED = "And number8?"


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
def test_any_program_rewrites_the_last_turn_where_the_knob_says_so(entry: Method) -> None:
    plain, rewriting = (build_program(entry, ListSource(FOUND), **knobs)[0] for knobs in ({}, REWRITE))
    calls = [event for event in plain(question=QUESTION, history=TURNS).trace if isinstance(event, Call)]
    assert "standalone" not in [call.name for call in calls]
    prediction = rewriting(question=QUESTION, history=TURNS)
    calls = [event for event in prediction.trace if isinstance(event, Call)]
    assert calls[0].name == "standalone"
    assert prediction.counters["lm_calls"] == len(calls) + prediction.counters["repairs"]
    alone = rewriting(question=QUESTION)
    assert "standalone" not in [event.name for event in alone.trace if isinstance(event, Call)]


REWRITE: dict[str, Any] = {"history": "rewrite"}


def conversations(folder: Path) -> None:
    """Gives every question of the colours a turn before it, and leaves its own words open."""
    path = folder / "questions.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for row in rows:
        row["history"] = [{"role": "user", "content": row["question"]}, {"role": "assistant", "content": "?"}]
        row["question"] = "Say it again, please: what colour?"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def reads_turns(request: ChatRequest) -> dict[str, str]:
    prompt = request.messages[-1].content
    if "standalone" in request.messages[0].content:
        return {"standalone": prompt.partition("user: ")[2].partition("?")[0] + "?"}
    return {"answer": colour_of(request) if "thing number" in prompt.partition("Say it again")[0] else "no"}


def test_a_search_chooses_whether_last_turns_are_rewritten(tmp_path: Path) -> None:
    folder = written(tmp_path)
    conversations(folder)

    def answer(request: ChatRequest) -> dict[str, str]:
        try:
            return reads_turns(request)
        except IndexError:  # no thing is named in the prompt
            return {"answer": "no"}

    sets = ("search.demos=0", 'search.knobs=["history"]', "search.trials=2")
    result = begun(folder)(sets=sets, target=ScriptedTarget(answer))
    assert result.program.state.knobs["history"] == "rewrite"
    assert result.verdict.startswith("better")
    most = estimate(recipes.load(folder / "recipe.toml", sets))
    assert most["phases"]["trials"]["lm_calls_about"] > most["phases"]["baseline"]["lm_calls_about"]


def test_questions_with_the_same_words_after_other_turns_are_other_questions() -> None:
    first, other = (
        Question(f"q{n}", ASKED, (), extra={"history": [{"role": "user", "content": f"About thing {n}."}]})
        for n in range(2)
    )
    assert first.whole_text != other.whole_text
    assert Question("q", ASKED, ()).whole_text == ASKED


@pytest.mark.parametrize(
    "turns", ["text", [1], [["user", "x"]], [{"role": "tool", "content": "x"}], [{"role": "user"}]]
)
def test_turns_that_are_none_are_named(tmp_path: Path, turns: object) -> None:
    with pytest.raises(UsageError, match="`history` is a list of turns"):
        read_turns(turns)
    folder = written(tmp_path)
    path = folder / "questions.jsonl"
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows[3]["history"] = turns
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with pytest.raises(DataError, match="line 4: `history` is a list of turns"):
        estimate(recipes.load(folder / "recipe.toml"))
