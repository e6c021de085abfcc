"""The record that describes one method: what to build, its knobs, and its requirements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from ragc.programs.knobs import Knobs, ReadingKnobs, Value
from ragc.targets.base import Capability, Role

if TYPE_CHECKING:
    from ragc.programs.base import RagProgram
    from ragc.programs.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Method:
    """A named way to answer a question.

    `also` are other ids of it. `program` is `module:Class`, imported on first use because it needs DSPy and
    listing does not. `roles` and `sources` are the target roles and source names that must be configured;
    `optional_roles` and `optional_sources` are roles and sources that some settings need, possibly the
    defaults. Demonstrations are collected from runs under `demo_knobs`, which keep prompts short. The values
    of `demo_shaping_knobs` (knobs that change the typed calls themselves, beside `answer_format`) come from
    the setting they are meant for; `narrow_demos` gives such a setting fewer calls. `writers` are the
    typed calls, made at most once a question, whose output `answer` is the program's answer; None means the
    only call of a program with one. `code` is a digest of the code of a user's own program, "" for ragc's.
    """

    id: str
    about: str
    paper: str
    program: str
    knobs: type[Knobs]
    roles: tuple[Role, ...] = ("main",)
    sources: tuple[str, ...] = ()
    optional_roles: tuple[Role, ...] = ()
    optional_sources: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    demo_knobs: Mapping[str, Value] = field(default_factory=dict)
    demo_shaping_knobs: tuple[str, ...] = ()
    narrow_demos: Callable[[Mapping[str, Value]], Mapping[str, Value]] | None = None
    writers: tuple[str, ...] | None = ("answer",)
    also: tuple[str, ...] = ()
    code: str = ""

    def build(self, runtime: Runtime, knobs: Knobs | Mapping[str, Any] | None = None) -> RagProgram:
        """Returns the program on `runtime` with `knobs` over the defaults.

        Raises UsageError when a role or source is missing or a knob is out of range.
        """
        runtime.require(self)
        chosen = knobs if isinstance(knobs, Knobs) else self.knobs.of(knobs or {})
        program: RagProgram = resolve_name(self.program)(runtime, chosen)
        program.method = self
        return program

    @property
    def call_shaping_knobs(self) -> tuple[str, ...]:
        """The knobs that change the typed calls: `demo_shaping_knobs` and those of the answer's wording."""
        has_format = any(knob.name == "answer_format" for knob in self.knobs.list_knobs())
        return (*self.demo_shaping_knobs, *(("answer_format",) if has_format else ()))

    @property
    def call_knobs(self) -> tuple[str, ...]:
        """The knobs that the number of a question's calls depends on."""
        names: tuple[str, ...] = resolve_name(self.program).call_knobs
        return names

    @property
    def reads_passages(self) -> bool:
        """Whether it answers from passages, and so has the knobs of `ReadingKnobs`."""
        return issubclass(self.knobs, ReadingKnobs)

    def demo_setting(self, base: Mapping[str, Value], knobs: Mapping[str, Value]) -> dict[str, Value]:
        """Returns the setting under which demonstrations for `knobs` are collected, over the values of
        `base`.
        """
        shape = {name: knobs[name] for name in self.call_shaping_knobs}
        setting = {**base, **self.demo_knobs, **shape}
        return dict(self.narrow_demos(setting)) if self.narrow_demos else setting

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object for `ragc list programs --json`."""
        return {
            "id": self.id,
            "also": list(self.also),
            "about": self.about,
            "paper": self.paper,
            "roles": list(self.roles),
            "sources": list(self.sources),
            "may_ask": list(self.optional_roles),
            "may_use": list(self.optional_sources),
            "reads_passages": self.reads_passages,
            "knobs": [knob.name for knob in self.knobs.list_knobs()],
        }
