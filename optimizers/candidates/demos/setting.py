"""The knobs of the program that collects the demonstrations of a candidate.

They are the baseline's, and of the candidate's those that change its typed calls: whether there is one, or
what it takes in and gives. Passages are short, and so are demonstrations. Candidates with the same typed
calls share a pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragc.errors import UsageError
from ragc.programs import Method
from ragc.programs.base import RagProgram
from ragc.programs.knobs import Value
from ragc.programs.runtime import Runtime

PASSAGES: Mapping[str, int] = {"chunk_size": 100, "context_tokens": 200}
"""The most tokens of one passage, and of all passages of a call, while demonstrations are collected."""

_WORDING = ("layout", "wording")
"""Knobs that say how a prompt is put; a demonstration is put as the prompt that shows it."""


def calls_shape(program: RagProgram, *, names_only: bool = False) -> dict[str, Any]:
    """Returns what identifies the typed calls of `program`: their fields with types, and what outputs say."""
    shape: dict[str, Any] = {}
    for name, predictor in program.named_predictors():
        fields = predictor.signature.fields.items()
        outputs = predictor.signature.output_fields
        shape[name] = not names_only and {
            field: (str(about.annotation), field in outputs and str(about.json_schema_extra))
            for field, about in fields
        }
    return shape


def shaping(
    method: Method, runtime: Runtime, base: Mapping[str, Value], knobs: Mapping[str, Value]
) -> dict[str, Value]:
    """Returns those of `knobs` that, alone over `base`, change the typed calls of `method`.

    A number counts where a call comes or goes. So does a knob that `base` cannot have alone.
    """
    baseline = method.build(runtime, base)
    found: dict[str, Value] = {}
    for name, value in knobs.items():
        if value == base.get(name) or name in _WORDING:
            continue
        number = method.knobs.knob(name).kind in ("int", "float")
        try:
            program = method.build(runtime, {**base, name: value})
        except UsageError:
            found[name] = value
            continue
        if calls_shape(program, names_only=number) != calls_shape(baseline, names_only=number):
            found[name] = value
    return found


def demo_setting(
    method: Method, runtime: Runtime, base: Mapping[str, Value], knobs: Mapping[str, Value]
) -> dict[str, Value]:
    """Returns the knobs under which the demonstrations of a candidate with `knobs` are collected."""
    setting = {**base, **shaping(method, runtime, base, knobs)}
    for name, most in PASSAGES.items():
        if name in setting:
            setting[name] = min(int(setting[name]) or most, most)
    try:
        method.build(runtime, setting)
    except UsageError:
        return dict(knobs)
    return setting
