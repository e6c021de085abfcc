"""Random prompts and inputs for the tests of a format, and prompts of every type of input."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ragc.exports.write import format_of
from ragc.programs import METHODS
from ragc.prompts.model import CompiledPrompt, ExportedProgram

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
