"""The record that describes one method: what to build, what may be tuned, what it needs."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ragc.programs.flow import Step
from ragc.programs.knobs import Knobs, Value
from ragc.targets.base import Capability, Role

if TYPE_CHECKING:
    from ragc.programs.base import RagProgram
    from ragc.programs.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Method:
    """A named way to answer a question.

    `program` is `module:Class`, imported on first use because it needs DSPy and listing does not.
    `roles` and `sources` are the target roles and source names that must be configured; `may_ask` and
    `may_use` are roles and sources that some settings need, the defaults perhaps among them.
    Demonstrations are collected from runs under `demo_knobs`, which keep prompts short, with the
    values of `demo_shape` (knobs that change the typed calls themselves, beside `answer_format`) taken
    from the setting they are meant for. `flow` is the control flow under
    all settings of the knobs; empty for a program whose calls have no order that is known.
    """

    id: str
    about: str
    paper: str
    program: str
    knobs: type[Knobs]
    roles: tuple[Role, ...] = ("main",)
    sources: tuple[str, ...] = ()
    may_ask: tuple[Role, ...] = ()
    may_use: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    demo_knobs: Mapping[str, Value] = field(default_factory=dict)
    demo_shape: tuple[str, ...] = ()
    flow: tuple[Step, ...] = ()

    def build(self, runtime: Runtime, knobs: Knobs | Mapping[str, Any] | None = None) -> RagProgram:
        """The program on `runtime` with `knobs` over the defaults.

        Raises UsageError when a role or source is missing or a knob is out of range.
        """
        runtime.require(self)
        module, _, name = self.program.partition(":")
        cls = getattr(importlib.import_module(module), name)
        chosen = knobs if isinstance(knobs, Knobs) else self.knobs.of(knobs or {})
        program: RagProgram = cls(runtime, chosen)
        program.method = self
        return program

    @property
    def shaping(self) -> tuple[str, ...]:
        """The knobs that change the typed calls themselves: `demo_shape` and how the answer is worded."""
        return (*self.demo_shape, "answer_format")

    def to_json(self) -> dict[str, Any]:
        """A JSON object for `ragc list programs --json`."""
        return {
            "id": self.id,
            "about": self.about,
            "paper": self.paper,
            "roles": list(self.roles),
            "sources": list(self.sources),
            "may_ask": list(self.may_ask),
            "may_use": list(self.may_use),
            "knobs": [knob.name for knob in self.knobs.declared()],
        }
