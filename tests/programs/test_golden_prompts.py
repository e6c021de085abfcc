"""Golden prompts of programs: what each call of each method sends, in both wordings and under every knob.

A file holds the prompts of a method in one wording and the default layout: the default ones, then those that
one switch or choice changes: formats of the answer, reasoning, the place of the question, kinds of judgement.
After a change that is meant: UPDATE_GOLDEN=1 python -m pytest tests/programs/test_golden_prompts.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragc.errors import UsageError
from ragc.exports.derive import runtime
from ragc.programs import METHODS, Method
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import LAYOUTS, WORDINGS

GOLDEN = Path(__file__).with_name("golden")
CASES = [(entry, wording) for entry in METHODS for wording in WORDINGS]


def values_of(call: RagPredict) -> dict[str, Any]:
    """The plainest value of each input."""
    plain: dict[str, Any] = {}
    for name, info in call.signature.input_fields.items():
        many = str(info.annotation).startswith("list")
        plain[name] = [f"<{name} 1>", f"<{name} 2>"] if many else 5 if info.annotation is int else f"<{name}>"
    return plain


def prompts_of(entry: Method, **knobs: Any) -> dict[str, str]:
    """What each call of a method sends, by predictor."""
    program = entry.build(runtime(entry, {}), knobs)
    return {
        name: "\n".join(f"--- {m.role}\n{m.content}" for m in call.messages(**values_of(call)))
        for name, call in program.named_predictors()
    }


def variants(entry: Method, wording: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Every setting of one switch or choice, and what calls then send, the default setting first."""
    yield "", prompts_of(entry, wording=wording)
    for knob in entry.knobs.list_knobs():
        options = (False, True) if knob.kind == "switch" else knob.options
        for value in options if knob.name not in ("wording", "layout") else ():
            if value != knob.default:
                try:
                    yield (
                        f"{knob.name} = {value}",
                        prompts_of(entry, **{"wording": wording, knob.name: value}),
                    )
                except UsageError:  # a setting that another knob, or a source, has to go with
                    continue


def golden_text(entry: Method, wording: str) -> str:
    """All prompts that differ, each where it first comes."""
    sections, known = [], set()
    for setting, prompts in variants(entry, wording):
        for name, prompt in prompts.items():
            if (name, prompt) not in known:
                known.add((name, prompt))
                sections.append(f"=== {name}{f', {setting}' if setting else ''}\n{prompt}\n")
    return "\n".join(sections)


@pytest.mark.parametrize(("entry", "wording"), CASES, ids=[f"{e.id}-{w}" for e, w in CASES])
def test_programs_send_what_they_sent(entry: Method, wording: str) -> None:
    file, text = GOLDEN / f"{entry.id}.{wording}.txt", golden_text(entry, wording)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
    assert file.exists(), f"{file.name} is missing; see the head of this file"
    assert text == file.read_text("utf-8")


def test_no_golden_prompt_of_a_program_is_left_behind() -> None:
    assert {file.name for file in GOLDEN.glob("*")} == {f"{e.id}.{w}.txt" for e, w in CASES}


@pytest.mark.parametrize("entry", METHODS, ids=lambda entry: entry.id)
def test_every_layout_shows_every_text_of_the_wording(entry: Method) -> None:
    for wording in WORDINGS:
        for layout in LAYOUTS:
            program = entry.build(runtime(entry, {}), {"wording": wording, "layout": layout})
            for name, call in program.named_predictors():
                system = call.messages(**values_of(call))[0].content
                flat = " ".join(system.split())
                assert " ".join(call.signature.instructions.split()) in flat, name
                for info in call.signature.fields.values():
                    desc = info.json_schema_extra["desc"]
                    assert desc.startswith("${") or desc in system, name
