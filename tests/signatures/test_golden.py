"""Golden prompts: what each signature sends, so that no change of wording goes unseen.

After a change that is meant: UPDATE_GOLDEN=1 python -m pytest tests/signatures/test_golden.py
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from pathlib import Path
from typing import Any

import dspy
import pydantic
import pytest

from ragc import signatures
from ragc.programs.calls.predict import RagPredict
from ragc.programs.calls.replies import reply_schema
from ragc.programs.runtime import Runtime
from ragc.signatures.answer import FORMATS, ShortAnswer, apply_format, with_question, with_reasoning
from ragc.testing import SchemaReplies, ScriptedTarget

GOLDEN = Path(__file__).with_name("golden")
MOST = 1100
"""Characters of a prompt with the plainest inputs: it says what it needs and no more."""


def collect_signatures() -> dict[str, Any]:
    """Every signature of ours by module and class, and the variants that knobs make of the reader."""
    by_name: dict[str, Any] = {}
    for info in pkgutil.iter_modules(signatures.__path__):
        module = importlib.import_module(f"ragc.signatures.{info.name}")
        for name, value in vars(module).items():
            mine = isinstance(value, type) and issubclass(value, dspy.Signature)
            if mine and value.__module__ == module.__name__:
                by_name[f"{info.name}.{name}"] = value
    by_name["answer.ShortAnswer+reasoned"] = with_reasoning(ShortAnswer)
    by_name["answer.ShortAnswer+both"] = with_question(ShortAnswer, "both")
    for name in FORMATS:
        by_name[f"answer.ShortAnswer+{name}"] = apply_format(ShortAnswer, name)
    del by_name["answer.ShortAnswer+short"]
    return by_name


def example(name: str, annotation: Any) -> Any:
    if annotation is str:
        return f"<{name}>"
    return SchemaReplies().example(pydantic.TypeAdapter(annotation).json_schema())


def render_messages(signature: Any) -> str:
    call = RagPredict(signature, Runtime({"main": ScriptedTarget([])}))
    inputs = {name: example(name, info.annotation) for name, info in signature.input_fields.items()}
    messages = call.messages(**inputs)
    return "\n".join(f"--- {message.role}\n{message.content}" for message in messages) + "\n"


SIGNATURES = collect_signatures()


@pytest.mark.parametrize("name", SIGNATURES)
def test_prompts_are_what_they_were(name: str) -> None:
    file, prompt = GOLDEN / f"{name}.txt", render_messages(SIGNATURES[name])
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(prompt, "utf-8")
    assert file.exists(), f"{file.name} is missing; see the head of this file"
    assert prompt == file.read_text("utf-8")


def test_no_golden_prompt_is_left_behind() -> None:
    assert {file.stem for file in GOLDEN.glob("*.txt")} == set(SIGNATURES)


@pytest.mark.parametrize("name", SIGNATURES)
def test_prompts_are_short_and_name_neither_us_nor_a_library_nor_a_paper(name: str) -> None:
    prompt = render_messages(SIGNATURES[name])
    for word in ("ragc", "dspy", "prefrag", "rag-x", "ragx", "ggatrieval", "rq-rag", "slimplm", "paper"):
        assert word not in prompt.lower()
    assert len(prompt) <= MOST


@pytest.mark.parametrize("name", SIGNATURES)
def test_replies_have_a_strict_schema_without_open_objects(name: str) -> None:
    def check(node: Any) -> None:
        if isinstance(node, dict):
            if node.get("type") == "object":
                assert node["additionalProperties"] is False
                assert node["required"] == list(node["properties"])
            for value in node.values():
                check(value)
        elif isinstance(node, list):
            for value in node:
                check(value)

    check(reply_schema(SIGNATURES[name]))
