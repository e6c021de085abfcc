"""Random prompts and inputs for the tests of a format, and prompts of every type of input."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st

from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import METHODS, method
from ragc.programs.knobs import LAYOUTS, WORDINGS
from ragc.prompts.model import CompiledPrompt, ExportedProgram
from tests.exports.common import build_program, capture_messages, inputs_for, with_demos
from tests.prompts.test_render import typed

Rendered = list[tuple[str, str]]
"""Role and content of each message."""

Reader = Callable[[bytes, Mapping[str, Any]], Rendered]
"""What the consumer makes of a file and inputs."""

IDS = tuple(entry.id for entry in METHODS)

# These report how they are used, to servers of their own, unless they are told not to.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("DO_NOT_TRACK", "true")


def consumer(name: str) -> Any:
    """The module `name`, or a skip of the test module that asks for it; what it warns of is not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is not installed: pip install 'ragc[exports]'")


def agree(format: str, read: Reader, data: Any, ids: Sequence[str] = IDS) -> None:
    """Draw a program, demonstrations, one prompt of it and inputs; `read` must give what is sent."""
    entry = method(data.draw(st.sampled_from(ids)))
    layout, wording = data.draw(st.sampled_from(LAYOUTS)), data.draw(st.sampled_from(WORDINGS))
    program = with_demos(build_program(entry, layout=layout, wording=wording, icl_n=3), data)
    out = derive_export(program)
    prompt = data.draw(st.sampled_from(out.prompts), "prompt")
    inputs = data.draw(inputs_for(prompt))
    file = file_of(format, replace(out, prompts=(prompt,)), prompt)
    assert read(file, inputs) == [tuple(m) for m in capture_messages(program, prompt.name, inputs)]


def agree_typed(format: str, read: Reader, data: Any, layout: str) -> None:
    """Draw inputs of every type; `read` must give what a call with them would send."""
    call, prompt = typed(layout)
    inputs = data.draw(inputs_for(prompt))
    file = file_of(format, export_alone(prompt), prompt)
    assert read(file, inputs) == [tuple(m) for m in call.messages(**inputs)]


def file_of(format: str, program: ExportedProgram, prompt: CompiledPrompt) -> bytes:
    """The file of `prompt` in `format`."""
    chosen = format_of(format)
    file = chosen.files(program)[f"{prompt.name}{chosen.suffix}"]
    assert file.endswith(b"\n")
    assert b"\r" not in file
    return file


def export_alone(prompt: CompiledPrompt) -> ExportedProgram:
    """A program of one prompt."""
    return ExportedProgram("typed", "", "f" * 64, {}, (prompt,), single=True)


def facts_for_callers(program: ExportedProgram, prompt: CompiledPrompt) -> dict[str, Any]:
    """What a file says of `prompt` beside its messages, for whoever sends it and reads the reply."""
    return {
        "program": program.fingerprint,
        "note": program.note,
        "parameters": prompt.parameters(),
        "input_schema": prompt.input_schema,
        "output_schema": prompt.output_schema,
    }


def stable(format: str) -> None:
    """Programs made alike give the same bytes."""
    one, other = (format_of(format).files(derive_export(build_program(method("react")))) for _ in range(2))
    assert one == other
