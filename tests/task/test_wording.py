"""Compiled programs hold what they send in their wording, and small models get a hint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.compiled.base import FORMAT, load
from ragc.errors import ArtefactError
from ragc.exports.derive import runtime
from ragc.programs import method
from ragc.programs.knobs import WORDINGS
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, needs_demos
from tests.support.progress import Notes

PLAIN = ("search.knobs=[]", "search.demos=0", "search.trials=2", "data.dev=10", "data.test=6")
ASKED: dict[str, Any] = {"question": "Q?", "passages": ["a"]}


class Named(ScriptedTarget):
    """A scripted target of a model with a name."""

    def __init__(self, model: str) -> None:
        super().__init__(needs_demos)
        self.model = model


@pytest.mark.parametrize("wording", WORDINGS)
def test_a_compiled_program_sends_what_it_says_whatever_the_texts_are_by_then(
    wording: str, run: Run, folder: Path
) -> None:
    run(sets=(*PLAIN, f"knobs.wording={wording}"))
    file = folder / "out" / "program.json"
    state = json.loads(file.read_text("utf-8"))
    assert (state["format"], state["knobs"]["wording"]) == (FORMAT, wording)
    descriptions = state["predictors"]["answer"]["descriptions"]
    assert descriptions.keys() == ({"question", "passages", "answer"} if wording == "full" else {"answer"})
    sent = load(folder / "out").build(runtime(method("vanilla"), {})).answer.messages(**ASKED)[0].content
    assert all(text in sent for text in descriptions.values())
    older = {"question": "what was wanted then", "answer": "what was given then"}
    state["predictors"]["answer"] |= {"descriptions": older, "instructions": "Do as then."}
    file.write_text(json.dumps(state), "utf-8")
    call = load(folder / "out").build(runtime(method("vanilla"), {})).answer
    assert call.messages(**ASKED)[0].content == (
        "Do as then.\n\nYou are given:\n- Question: what was wanted then\n"
        'Reply with a JSON object:\n- "answer": what was given then'
    )


def test_a_program_with_other_fields_than_are_known_is_refused(run: Run, folder: Path) -> None:
    run(sets=PLAIN)
    file = folder / "out" / "program.json"
    state = json.loads(file.read_text("utf-8"))
    state["predictors"]["answer"]["inputs"] = ["question"]
    file.write_text(json.dumps(state), "utf-8")
    with pytest.raises(ArtefactError, match=r"'answer'.*passages; compile it again"):
        load(folder / "out").build(runtime(method("vanilla"), {}))


@pytest.mark.parametrize(
    ("model", "sets", "hinted"),
    [
        ("SmolLM2-135M-Instruct", (), True),
        ("SmolLM2-135M-Instruct", ('knobs.wording="brief"',), False),
        ("SmolLM2-135M-Instruct", ('search.knobs=["wording"]',), False),
        ("Qwen2.5-7B-Instruct", (), False),
        ("some-model", (), False),
    ],
)
def test_a_small_model_that_gets_long_prompts_is_hinted_at_once(
    model: str, sets: tuple[str, ...], hinted: bool, run: Run
) -> None:
    progress = Notes()
    run(sets=(*PLAIN, *sets), target=Named(model), progress=progress)
    hints = [note for note in progress.notes if "wording" in note]
    wanted = "has 135 million parameters and gets prompts in the wording"
    assert [wanted in hint and hint.endswith('wording = "brief".') for hint in hints] == [True] * hinted
