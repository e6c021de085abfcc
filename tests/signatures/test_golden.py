"""Golden prompts: what each signature sends, so that no change of wording goes unseen.

After a change that is meant: UPDATE_GOLDEN=1 python -m pytest tests/signatures/test_golden.py
"""

from __future__ import annotations

import importlib
import os
import pkgutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import dspy
import pydantic
import pytest

from ragc import signatures
from ragc.programs.calls.outputs import reply_schema
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import WORDINGS
from ragc.programs.runtime import Runtime
from ragc.signatures.answer import (
    FORMATS,
    ShortAnswer,
    apply_format,
    with_knowledge,
    with_question,
    with_reasoning,
)
from ragc.signatures.wording import description, worded
from ragc.testing import SchemaReplies, ScriptedTarget

GOLDEN = Path(__file__).with_name("golden")
MOST = {"brief": 1300, "full": 4200}
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
    for name, signature in list(by_name.items()):
        for own in (True, False):
            with suppress(TypeError):  # it has one pair of instructions
                other = with_knowledge(signature, own=own)
                if other is not signature:
                    by_name[f"{name}+{'own_knowledge' if own else 'no_knowledge'}"] = other
    by_name["answer.ShortAnswer+reasoned"] = with_reasoning(ShortAnswer)
    by_name["answer.ShortAnswer+both"] = with_question(ShortAnswer, "both")
    for name in FORMATS:
        by_name[f"answer.ShortAnswer+{name}"] = apply_format(ShortAnswer, name)
    return by_name


def example(name: str, annotation: Any) -> Any:
    if annotation is str:
        return f"<{name}>"
    return SchemaReplies().example(pydantic.TypeAdapter(annotation).json_schema())


def render_messages(signature: Any, wording: str) -> str:
    call = RagPredict(worded(signature, wording), Runtime({"main": ScriptedTarget([])}))
    inputs = {name: example(name, info.annotation) for name, info in signature.input_fields.items()}
    messages = call.messages(**inputs)
    return "\n".join(f"--- {message.role}\n{message.content}" for message in messages) + "\n"


SIGNATURES = collect_signatures()


@pytest.mark.parametrize("name", SIGNATURES)
def test_prompts_are_what_they_were(name: str) -> None:
    sizes = {wording: render_messages(SIGNATURES[name], wording) for wording in WORDINGS}
    file = GOLDEN / f"{name}.txt"
    prompt = "\n".join(f"=== {wording}\n{text}" for wording, text in sizes.items())
    if sizes["full"] == sizes["brief"]:
        prompt = sizes["full"]
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(prompt, "utf-8")
    assert file.exists(), f"{file.name} is missing; see the head of this file"
    assert prompt == file.read_text("utf-8")


def test_no_golden_prompt_is_left_behind() -> None:
    assert {file.stem for file in GOLDEN.glob("*.txt")} == set(SIGNATURES)


@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize("name", SIGNATURES)
def test_prompts_are_short_and_name_neither_us_nor_a_library_nor_a_paper(name: str, wording: str) -> None:
    prompt = render_messages(SIGNATURES[name], wording)
    for word in ("ragc", "dspy", "prefrag", "rag-x", "ragx", "ggatrieval", "rq-rag", "slimplm", "paper"):
        assert word not in prompt.lower()
    assert len(prompt) <= MOST[wording]


AGAINST_MEMORY = (
    "use only",
    "alone",
    "not from memory",
    "rather than from memory",
    "never fill",
    "says nothing",
)
FOR_MEMORY = ("what you know", "else from memory", "or from memory", "over your memory")


@pytest.mark.parametrize("wording", WORDINGS)
@pytest.mark.parametrize("name", [name for name in SIGNATURES if name.endswith("_knowledge")])
def test_a_prompt_on_own_knowledge_does_not_contradict_itself(name: str, wording: str) -> None:
    task = " ".join(worded(SIGNATURES[name], wording).instructions.lower().split())
    task = task.replace("understood alone", "")
    allows = any(words in task for words in FOR_MEMORY)
    forbids = any(words in task for words in AGAINST_MEMORY)
    assert (allows, forbids) == (not name.endswith("no_knowledge"), name.endswith("no_knowledge"))


ONE_TEXT = {name for name in SIGNATURES if name.startswith("judge.")}
"""Judges have one text, so that their verdicts compare."""


@pytest.mark.parametrize("name", sorted(SIGNATURES.keys() - ONE_TEXT))
def test_a_full_prompt_explains_every_field_and_is_the_longer_one(name: str) -> None:
    full, brief = (worded(SIGNATURES[name], wording) for wording in ("full", "brief"))
    for field, info in full.fields.items():
        assert description(field, info), field
    assert list(brief.fields) == list(full.fields)
    assert reply_schema(brief) == reply_schema(full)
    assert len(full.instructions) > len(brief.instructions)


@pytest.mark.parametrize("name", sorted(SIGNATURES.keys() - ONE_TEXT))
def test_a_brief_prompt_says_what_a_bare_name_does_not(name: str) -> None:
    plain = {"question", "passages", "passage", "document", "documents", "sentence", "query", "draft"}
    plain |= {"text", "answer", "query_time", "question_again"}
    brief = worded(SIGNATURES[name], "brief")
    for field, info in brief.fields.items():
        if field not in brief.input_fields or field not in plain:
            assert description(field, info), field


def reasons_and_verdicts() -> list[tuple[str, str, str]]:
    """Signatures whose reply holds both, with the field of each."""
    reasons = ("reason", "analysis", "explanation", "reasoning", "reading", "thought")
    verdicts = ("known", "status", "grade", "score", "action", "answer")
    variants = []
    for name, signature in SIGNATURES.items():
        outputs = list(signature.output_fields)
        pairs = [(r, v) for r in reasons for v in verdicts if r in outputs and v in outputs]
        variants += [(name, r, v) for r, v in pairs if (r, v) != ("explanation", "answer")]
    return variants


@pytest.mark.parametrize(("name", "reason", "verdict"), reasons_and_verdicts())
def test_the_reason_stands_before_the_verdict(name: str, reason: str, verdict: str) -> None:
    outputs = list(SIGNATURES[name].output_fields)
    assert outputs.index(reason) < outputs.index(verdict) or (reason, verdict) == ("explanation", "action")
