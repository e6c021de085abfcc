"""The demonstrations that rows show, from `experiments/tables/demos`: questions with answers, worded by us.

Papers that show examples use fixed texts, so that no question of the data set is spent on them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ragc.errors import ArtefactError
from ragc.programs.base import RagProgram, format_passage
from ragc.records import Passage

ANSWERING = "answer"
"""The name of the call that demonstrations are shown to."""
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TableDemonstration:
    """A question with its answer, the passages that the answer cites by number, and CRAG's domain."""

    question: str
    answer: str
    domain: str = ""
    passages: tuple[Passage, ...] = ()

    def fields(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the inputs `names` of a call, and the answer."""
        values: dict[str, Any] = {
            "question": self.question,
            "query_time": _UNKNOWN,
            "domain": self.domain or _UNKNOWN,
            "passages": [format_passage(passage) for passage in self.passages],
        }
        return {name: value for name, value in values.items() if name in names} | {"answer": self.answer}

    def to_json(self) -> dict[str, Any]:
        """JSON values only."""
        return asdict(self)


@cache
def load(name: str) -> tuple[TableDemonstration, ...]:
    """The demonstrations of the file called `name`. Raises ArtefactError with one sentence."""
    path = files("ragc.experiments") / "tables" / "demos" / f"{name}.toml"
    try:
        return tuple(_demonstration(entry) for entry in tomllib.loads(path.read_text("utf-8"))["demos"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ArtefactError(f"{name}.toml does not hold demonstrations: {error}; restore the file.") from None


def _demonstration(values: Mapping[str, Any]) -> TableDemonstration:
    passages = tuple(
        Passage(f"demo-{number}", passage["title"], passage["text"])
        for number, passage in enumerate(values.get("passages", ()), 1)
    )
    return TableDemonstration(**{**values, "passages": passages})


def show(program: RagProgram, demos: tuple[TableDemonstration, ...]) -> None:
    """Shows `demos` to the answering call of `program`."""
    call = dict(program.named_predictors())[ANSWERING]
    call.demos = [demo.fields(call.signature.input_fields) for demo in demos]
