"""Programs in the first format, which say nothing of wording or descriptions, send what they sent.

`compiled_1` holds five that were compiled, and what they then sent, before prompts came in two sizes. Nothing
of it may be recorded anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.exports.derive import runtime
from ragc.optimizers.results.compiled import CompiledProgram, load
from ragc.programs import method
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import LAYOUTS

COMPILED = Path(__file__).with_name("compiled_1")
PROGRAMS = ("prefrag", "ragx", "ggatrieval", "rqrag", "slimplm")


def loaded(folder: Path, name: str, layout: str) -> CompiledProgram:
    """The program called `name` as it was compiled, in another layout."""
    state = json.loads((COMPILED / name / "program.json").read_text("utf-8"))
    state["knobs"]["layout"] = layout
    for predictor in state["predictors"].values():
        predictor["layout"] = layout
    (folder / "program.json").write_text(json.dumps(state), "utf-8")
    (folder / "provenance.json").write_text("{}", "utf-8")
    (folder / "recipe.toml").write_text("", "utf-8")
    return load(folder)


def sent(call: RagPredict, inputs: dict[str, Any]) -> dict[str, Any]:
    """What `call` sends, as JSON."""
    request = call.request(**inputs)
    messages = [[message.role, message.content] for message in request.messages]
    return {"inputs": inputs, "messages": messages, "schema": request.schema}


def same(recorded: dict[str, Any], sends: dict[str, Any]) -> bool:
    """Whether both are the same text, the order of a schema's keys too."""
    return json.dumps(recorded) == json.dumps(sends)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_first_format_sends_what_it_sent(name: str, layout: str, tmp_path: Path) -> None:
    recorded = json.loads((COMPILED / name / f"{layout}.json").read_text("utf-8"))
    program = loaded(tmp_path, name, layout).build(runtime(method(name), {}))
    calls = dict(program.named_predictors())
    assert set(calls) == set(recorded)
    for predictor, call in calls.items():
        sends = sent(call, recorded[predictor]["inputs"])
        assert same(recorded[predictor], sends), predictor


