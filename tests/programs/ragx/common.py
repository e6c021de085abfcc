"""RAG-X on scripted targets: what its tests share."""

from __future__ import annotations

from typing import Any

from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.programs.trace import Note
from ragc.records import Passage
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget
from tests.support.requests import last_output

QUESTION = "Who sang Hello with Adele in London?"
NAMES = {"items": [{"text": "Adele", "kind": "person"}, {"text": "Hello", "kind": "song"}]}


def passages(n: int, name: str = "w") -> list[Passage]:
    return [Passage(f"{name}{i}", f"{name} title {i}", f"{name} text {i}.") for i in range(n)]


def by_field(**replies: Any) -> SchemaReplies:
    """Replies by output field; a list gives one after the other."""
    defaults = {"domain": "music", "entities": NAMES, "choice": "both", "answer": "x"}
    return SchemaReplies(fields={**defaults, **replies})


def build_program(target: ScriptedTarget, sources: dict[str, Any] | None = None, **knobs: Any) -> RagProgram:
    default_sources = {"web": ListSource(passages(9)), "kg": ListSource(passages(2, "k"))}
    runtime = Runtime({"main": target}, default_sources if sources is None else sources)
    return method("ragx").build(runtime, {"wording": "brief", **knobs})


def list_requests(target: ScriptedTarget) -> list[str]:
    return [last_output(request) for request in target.requests]


def notes(prediction: Any) -> list[tuple[str, str]]:
    return [(event.about, event.outcome) for event in prediction.trace if isinstance(event, Note)]


def last(target: ScriptedTarget) -> str:
    return target.requests[-1].messages[-1].content
