"""Programs in the first format, which say nothing of wording or descriptions, send what they sent.

`compiled_1` holds five that were compiled, and what they then sent, before prompts came in two sizes. Nothing
of it may be recorded anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dspy
import pytest

from ragc.errors import ArtefactError
from ragc.exports.derive import runtime
from ragc.optimizers.results.compiled import CompiledProgram, load
from ragc.optimizers.results.compiled_1 import Match
from ragc.programs import method
from ragc.programs.calls.predict import RagPredict
from ragc.programs.ggatrieval.alignment import to_candidate
from ragc.programs.knobs import LAYOUTS
from ragc.programs.runtime import Runtime
from ragc.programs.trace import UnreadableReply
from ragc.records import Passage
from ragc.store.call_store import CallStore
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget

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


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_first_format_still_answers(name: str, tmp_path: Path) -> None:
    target = ScriptedTarget(SchemaReplies(fields={"answer": "red", "action": "finish"}))
    entry = method(name)
    source = ListSource([Passage(f"p{i}", f"Thing {i}", f"Thing {i} is red.") for i in range(9)])
    roles: dict[str, Any] = dict.fromkeys((*entry.roles, *entry.optional_roles), target)
    sources = dict.fromkeys((*entry.sources, *entry.optional_sources), source)
    ground = Runtime(roles, sources, store=CallStore(None))
    program = loaded(tmp_path, name, "minimal").build(ground)
    prediction = program(question="What colour is thing 3?")
    assert prediction.answer == "red"
    assert not [event for event in prediction.trace if isinstance(event, UnreadableReply)]


def test_a_comparison_of_the_first_format_is_shown_lists(tmp_path: Path) -> None:
    fields = {"answer": "", "action": "search", "action_input": ["first", "second", "third"]}
    target = ScriptedTarget(SchemaReplies(fields=fields))
    source = ListSource([Passage(f"p{i}", f"Thing {i}", f"Thing {i} is red.") for i in range(9)])
    sources = dict.fromkeys(("local", "web"), source)
    loaded(tmp_path, "prefrag", "minimal").build(Runtime({"main": target}, sources))(question="What is red?")
    compared = next(r for r in target.requests if r.schema and "status" in r.schema["properties"])
    known, _, new = compared.messages[-1].content.partition("New:\n[1] Thing 0")
    assert "Known:\n[1] Thing 0" in known
    assert "[2] Thing 1" in new


def test_the_verdicts_of_the_first_format_count() -> None:
    passage = Passage("p", "Triton", "Triton was first seen by William Lassell.")
    matches = [Match(component=1, segment="William Lassell"), Match(component=2, segment="Triton")]
    reply = {"aligned": matches, "reflected": [2], "synonyms": []}
    candidate = to_candidate(dspy.Prediction(**reply), ["Who", "Triton"], passage, "Who saw Triton?")
    assert candidate.share == 0.5


def test_a_field_that_nobody_knows_any_more_is_named(tmp_path: Path) -> None:
    first = loaded(tmp_path, "prefrag", "minimal")
    state = json.loads((tmp_path / "program.json").read_text("utf-8"))
    schema = state["predictors"]["compare"]["output_schema"]
    schema["properties"]["mood"], schema["required"] = {"type": "string"}, [*schema["required"], "mood"]
    (tmp_path / "program.json").write_text(json.dumps(state), "utf-8")
    first.build(runtime(method("prefrag"), {}))
    with pytest.raises(ArtefactError, match=r"'compare'.*mood; compile it again"):
        load(tmp_path).build(runtime(method("prefrag"), {}))
