"""Parts of somebody else's `program.json` that no prompt would use are refused, and not left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragc.cli.main import main
from tests.security.foreign import QUESTION, Recorded

ANSWERED = {"question": "What colour is the cup?", "passages": ["The cup is blue."], "answer": "blue"}


def edited(compiled: Path, change: Callable[[dict[str, Any]], object]) -> list[str]:
    """The command that asks the compiled program after `change` of its predictor, by somebody else."""
    path = compiled / "program.json"
    state = json.loads(path.read_text("utf-8"))
    change(state["predictors"]["answer"])
    path.write_text(json.dumps(state), "utf-8")
    return [
        "ask",
        str(compiled),
        QUESTION,
        "--base",
        str(compiled.parent.parent / "origin"),
        "--trust-targets",
    ]


def with_demos(*demos: dict[str, Any]) -> Callable[[dict[str, Any]], object]:
    """A change of the demonstrations to `demos`."""
    return lambda predictor: predictor.update(demos=list(demos))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda predictor: predictor.update(layout="fancy"),
            "has the layout 'fancy', and the prompts of this program have 'minimal', by its knob `layout`",
        ),
        (
            with_demos(ANSWERED, {"question": "What colour is the jug?"}),
            "Demonstration 2 of the predictor 'answer' of the compiled program at",
        ),
        (with_demos({**ANSWERED, "answer": None}), "has no output (answer), so no prompt would show it"),
        (with_demos({"answer": "blue"}), "has no input (question, passages), so no prompt would show it"),
    ],
)
def test_what_no_prompt_would_use_is_one_sentence(
    compiled: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[dict[str, Any]], object],
    message: str,
) -> None:
    assert main(edited(compiled, change)) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("ragc: ")
    assert message in error
    assert error.count("\n") == 1


def test_a_whole_demonstration_is_shown(compiled: Path, server: Recorded) -> None:
    assert main(edited(compiled, with_demos(ANSWERED))) == 0
    assert "What colour is the cup?" in server.seen[-1]
