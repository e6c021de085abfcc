"""The record that describes one method: what to build, its knobs, and its requirements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from ragc.programs.knobs import Knobs, ReadingKnobs
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
    defaults. `code` is a digest of the code of a user's own program, "" for ragc's.
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
    def reads_passages(self) -> bool:
        """Whether it answers from passages, and so has the knobs of `ReadingKnobs`."""
        return issubclass(self.knobs, ReadingKnobs)

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
