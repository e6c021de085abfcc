"""A search in which requests fail: it goes on, finds the right winner, and shows what failed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragc.compiled.base import load
from ragc.errors import RequestRefused, TargetUnavailable
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, colour_of, identical, needs_demos
from tests.optimizers.search.test_failures import trials_of

FILTERED = RequestRefused("The content filter refused the prompt.", "filtered")
TOO_LONG = RequestRefused("The prompt has 9000 tokens, and the context 8192.", "too long")
FAILED = RequestRefused("The server refuses the parameter `top_k`.", "failed")
DOWN = TargetUnavailable("The server does not answer (HTTP 529).")
ERRORS = [FILTERED, TOO_LONG, FAILED, DOWN]
KINDS = {id(FILTERED): "filtered", id(TOO_LONG): "too long", id(FAILED): "failed", id(DOWN): "failed"}


def refusing(
    error: Exception, *parts: str, reply: Callable[[ChatRequest], Any] = needs_demos
) -> Callable[[ChatRequest], Any]:
    """Says what `reply` says, and refuses prompts whose last message asks about one of `parts`."""

    def answer(request: ChatRequest) -> Any:
        if any(f"thing {part}?" in request.messages[-1].content for part in parts):
            raise error
        return reply(request)

    return answer


@pytest.mark.parametrize("error", ERRORS, ids=KINDS.get)
def test_a_search_goes_on_and_finds_the_same_winner(error: Exception, run: Run, folder: Path) -> None:
    whole = run("whole", store=CallStore(None))
    # one train question, two of dev and one of test
    result = run(target=ScriptedTarget(refusing(error, "number3", "number16", "number30", "number50")))
    assert result.verdict == whole.verdict
    chosen, other = load(folder / "out"), load(folder / "whole")
    assert chosen.state.knobs == other.state.knobs
    kind = KINDS[id(error)]
    failures = result.failures
    assert dict(failures["dev"]["winner"].kinds) == {kind: 2}
    assert dict(failures["test"]["baseline"].kinds) == {kind: 1}
    assert all(trial["failures"]["kinds"] == {kind: 2} for trial in trials_of(folder / "out"))
    assert all(trial["counters"][kind.replace(" ", "_")] == 2 for trial in trials_of(folder / "out"))
    assert any(f"2 of 20 questions failed: 2 {kind} (ids " in line for line in result.failure_lines)
    assert not any("number3?" in repr(call.demos) for call in chosen.state.predictors.values())


def test_a_filtered_question_is_no_difference_to_a_second_run(run: Run, folder: Path) -> None:
    target = ScriptedTarget(refusing(DOWN, "number16"))
    run(target=target)
    again = ScriptedTarget(refusing(DOWN, "number16"))
    run("again", target=again)
    assert all("thing number16?" in request.messages[-1].content for request in again.requests)
    assert identical(folder / "out", folder / "again")


def test_a_candidate_whose_prompts_do_not_fit_loses(run: Run, folder: Path) -> None:
    """It would be the better one: it alone answers right."""

    def reply(request: ChatRequest) -> Any:
        if request.messages[-1].content.count("It was made in") > 3:
            raise TOO_LONG
        return {"answer": colour_of(request)}

    sets = ("search.demos=0", 'search.knobs=["top_k"]', "search.ranges.top_k=[2, 10]", "search.trials=8")
    run(sets=sets, target=ScriptedTarget(reply))
    assert int(load(folder / "out").state.knobs["top_k"]) <= 3
    tried = trials_of(folder / "out")
    long = [trial for trial in tried if trial["failures"]["n"]]
    assert long
    assert all(trial["candidate"]["knobs"]["top_k"] > 3 and not trial["values"][0] for trial in long)


def test_proposals_whose_requests_fail_are_skipped(run: Run, folder: Path) -> None:
    """Every second request of the teacher is refused; the rest is searched."""
    sent = 0

    def reply(request: ChatRequest) -> Any:
        nonlocal sent
        if "thing number" in request.messages[-1].content and "proposed" not in str(request.messages):
            try:
                return needs_demos(request)
            except IndexError:
                pass
        sent += 1
        if sent % 2:
            raise FILTERED
        return "Say the colour in one word." if request.schema is None else {"answer": "red"}

    run(sets=("search.instructions=3", "search.demos=0"), target=ScriptedTarget(reply))
    assert sent > 2
    assert (folder / "out").exists()
