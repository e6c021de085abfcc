"""Knobs: the numbers and switches of a program, declared once with range, default and source.

A method's knobs are one frozen dataclass. Each field is declared with `integer`, `real`, `switch` or
`choice`; study, command line and docs are generated from the declaration. Knobs that several methods share
are declared here, so that they mean the same everywhere. This module does not use Optuna and imports no LM
library, so listing knobs is quick.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from ragc.errors import UnknownName, UsageError

Value = bool | int | float | str

NAME = "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
"""What a name may be that a recipe gives to a source or target."""


@dataclass(frozen=True, slots=True)
class When:
    """The condition under which a knob matters.

    Another knob is one of `values`, is above `greater_than`, or is none of `excluded`, whichever is given,
    and matters itself; or one of the `otherwise` holds.
    """

    knob: str
    values: tuple[Value, ...] = ()
    greater_than: float | None = None
    otherwise: tuple[When, ...] = ()
    excluded: tuple[Value, ...] = ()

    @property
    def alternatives(self) -> tuple[When, ...]:
        """Returns the condition itself and its alternatives, of which one must hold."""
        return (self, *(one for other in self.otherwise for one in other.alternatives))

    @property
    def knobs(self) -> tuple[str, ...]:
        """Returns the knobs that the condition reads."""
        return tuple(dict.fromkeys(one.knob for one in self.alternatives))

    def holds(self, value: Value) -> bool:
        """Returns whether the other knob's `value` meets the condition, without its alternatives."""
        if self.greater_than is not None:
            return not isinstance(value, str) and value > self.greater_than
        return value not in self.excluded if self.excluded else value in self.values

    def to_json(self) -> dict[str, Any]:
        """Returns `{"knob": ..., "is": [...]}`, or with `above` or `is not`; `or` lists the alternatives."""
        own: dict[str, Any] = {"is not": list(self.excluded)} if self.excluded else {"is": list(self.values)}
        if self.greater_than is not None:
            own = {"above": self.greater_than}
        others = [one.to_json() for one in self.otherwise]
        return {"knob": self.knob} | own | ({"or": others} if others else {})


@dataclass(frozen=True, slots=True)
class Knob:
    """One declared knob.

    `low` and `high` are inclusive bounds of an `int` or `float` knob, `step` its grid (None: continuous).
    `options` lists the values of a `choice`; a `switch` has False and True. `when` is the condition under
    which the knob matters; None means always. `searched` says whether `knobs = "all"` includes it. `paper`
    says where the default is from. `threshold` says that the number is only compared with a score that runs
    record (`ragc.programs.trace`). `named` says that a `choice` is a name of the recipe's: any other one may
    be set too, and is not searched. `also` are values of a `choice` that may be set and are not searched.
    `added` says that the knob came later: at its default a program is written without it, as programs of
    earlier versions are.
    """

    name: str
    kind: Literal["int", "float", "switch", "choice"]
    default: Value
    about: str
    low: float | None = None
    high: float | None = None
    step: float | None = None
    options: tuple[Value, ...] = ()
    when: When | None = None
    searched: bool = True
    paper: str = ""
    threshold: bool = False
    named: bool = False
    also: tuple[Value, ...] = ()
    added: bool = False

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and greatest value of a number; infinite where none is declared, and for others."""
        return (-math.inf if self.low is None else self.low, math.inf if self.high is None else self.high)

    def check(self, value: object) -> Value:
        """Returns `value` as this knob's type; raises UsageError with the range."""
        if self.kind in ("switch", "choice"):
            options = (False, True) if self.kind == "switch" else (*self.options, *self.also)
            for option in options:
                if type(option) is type(value) and option == value:
                    return option
            if self.named and isinstance(value, str) and re.fullmatch(NAME, value):
                return value
            raise UsageError(f"knob {self.name} must be one of {list(options)}, found {value!r}")
        number_type = int if self.kind == "int" else float
        if not isinstance(value, int | float) or isinstance(value, bool) or not _is(number_type, value):
            raise UsageError(
                f"knob {self.name} must be {'an integer' if number_type is int else 'a number'}, "
                f"found {repr(value)[:60]}"
            )
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise UsageError(
                f"knob {self.name} must be between {self.low:g} and {self.high:g}, found {repr(value)[:60]}"
            )
        return number_type(value)

    def to_json(self) -> dict[str, Any]:
        """Returns a JSON object with `id`, for `ragc list knobs --json`."""
        out = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        out["id"] = out.pop("name")
        if not self.also:
            del out["also"]
        del out["added"]
        out["options"] = [False, True] if self.kind == "switch" else list(self.options)
        out["when"] = None if self.when is None else self.when.to_json()
        return out


def _is(number_type: type[int] | type[float], value: float) -> bool:
    """Returns whether `value` is finite and equal to a number of `number_type`."""
    try:
        return math.isfinite(value) and number_type(value) == value
    except OverflowError:
        return False


def integer(default: int, low: int, high: int, about: str, *, step: int = 1, **more: Any) -> Any:
    """Returns a field holding an integer in [low, high]."""
    return _field(Knob("", "int", default, about, low=low, high=high, step=step, **more))


def real(
    default: float, low: float, high: float, about: str, *, step: float | None = None, **more: Any
) -> Any:
    """Returns a field holding a number in [low, high]."""
    return _field(Knob("", "float", float(default), about, low=low, high=high, step=step, **more))


def switch(default: bool, about: str, **more: Any) -> Any:
    """Returns a field that is on or off."""
    return _field(Knob("", "switch", default, about, **more))


def choice(default: Value, options: tuple[Value, ...], about: str, **more: Any) -> Any:
    """Returns a field holding one of `options`."""
    return _field(Knob("", "choice", default, about, options=options, **more))


def redeclare(knobs: type[Knobs], name: str, **changes: Any) -> Any:
    """Declares the knob `name` of `knobs` again, with `changes` to its declaration."""
    return _field(dataclasses.replace(knobs.knob(name), **changes))


def _field(knob: Knob) -> Any:
    return dataclasses.field(default=knob.default, metadata={"knob": knob})


class Knobs:
    """Base of every method's knobs: a frozen dataclass whose fields are all declared knobs."""

    @classmethod
    def list_knobs(cls) -> tuple[Knob, ...]:
        """Returns all knobs in the order of declaration."""
        return _declared(cls)  # type: ignore[arg-type]  # mypy takes a type for unhashable here

    @classmethod
    def list_by_condition(cls) -> tuple[Knob, ...]:
        """Returns all knobs, each after those that its condition reads, else in the order of declaration."""
        ordered: dict[str, Knob] = {}

        def add(knob: Knob) -> None:
            for name in knob.when.knobs if knob.when else ():
                if name not in ordered:
                    add(cls.knob(name))
            ordered.setdefault(knob.name, knob)

        for knob in cls.list_knobs():
            add(knob)
        return tuple(ordered.values())

    @classmethod
    def knob(cls, name: str) -> Knob:
        """Returns the knob called `name`; raises UnknownName."""
        for knob in cls.list_knobs():
            if knob.name == name:
                return knob
        raise UnknownName("knob", name, [k.name for k in cls.list_knobs()])

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Any:
        """Returns an instance with `values` over the defaults; raises UnknownName or UsageError."""
        return cls(**{name: cls.knob(name).check(value) for name, value in values.items()})

    def __post_init__(self) -> None:
        for knob in type(self).list_knobs():
            object.__setattr__(self, knob.name, knob.check(getattr(self, knob.name)))

    @classmethod
    def settle(cls, values: dict[str, Value], free: Container[str]) -> dict[str, Value]:
        """Returns consistent `values`: in a conflict one of the knobs in `free` is changed if possible."""
        return values

    def to_json(self, keep: Container[str] = ()) -> dict[str, Value]:
        """Returns every knob with its value; an `added` one at its default only if it is in `keep`."""
        return {
            knob.name: value
            for knob in type(self).list_knobs()
            if (value := getattr(self, knob.name)) != knob.default or not knob.added or knob.name in keep
        }

    def active(self) -> Iterator[Knob]:
        """Yields the knobs that matter under the present values of the others."""
        for knob in type(self).list_knobs():
            if self.matters(knob, self.to_json()):
                yield knob

    @classmethod
    def matters(cls, knob: Knob, values: Mapping[str, Value]) -> bool:
        """Returns whether the condition of `knob` holds under `values`, and those it depends on."""
        if knob.when is None:
            return True
        return any(
            one.holds(values[one.knob]) and cls.matters(cls.knob(one.knob), values)
            for one in knob.when.alternatives
        )


@cache
def _declared(knobs: Any) -> tuple[Knob, ...]:
    return tuple(dataclasses.replace(f.metadata["knob"], name=f.name) for f in dataclasses.fields(knobs))


LAYOUTS = ("minimal", "json", "chat", "xml")
ADAPTER = "adapter"
"""The layout of a user's module under a DSPy adapter that is none of the other layouts."""

WORDINGS = ("full", "brief")
WORDED = ("short", "list", "yesno", "choice", "long")
"""How any program may word its answer."""

CITING = (*WORDED, "cited", "cited_list")
"""How a program may that answers from numbered passages."""


@dataclass(frozen=True)
class AnswerKnobs(Knobs):
    """How the answering call is worded and sampled."""

    cot: bool = switch(False, "reason step by step before answering", paper="RAG-X base setting")
    answer_format: str = choice(
        "short",
        WORDED,
        "few words, every answer that may be right, yes or no, the letter of an option, or a paragraph, "
        "`cited` or `cited_list` where passages are numbered",
        searched=False,
        paper="as the data sets of all five papers ask",
    )
    temperature: float = real(0.0, 0.0, 1.0, "sampling temperature; 0 is greedy", step=0.1, paper="RAG-X")
    top_p: float = real(
        1.0,
        0.6,
        1.0,
        "nucleus sampling mass",
        step=0.1,
        when=When("temperature", greater_than=0.0),
        paper="RAG-X",
    )
    icl_n: int = integer(
        16, 0, 16, "at most this many demonstrations are shown", searched=False, paper="RAG-X"
    )
    layout: str = choice(
        "minimal",
        LAYOUTS,
        "how the prompt is laid out: DSPy's JSON, Chat or XML adapter, or a short one of our own",
    )
    wording: str = choice(
        "full",
        WORDINGS,
        "what a prompt says: all that a model of billions of parameters can use, or the few sentences that "
        "one of under a billion follows",
    )
    history: str = choice(
        "last",
        ("last", "rewrite"),
        "what is answered where a question has earlier turns: the last one as it is, or made a question that "
        "stands alone by a typed call before the program",
        searched=False,
        added=True,
        paper="none",
    )


@dataclass(frozen=True)
class ReadingKnobs(Knobs):
    """How any program that reads passages cuts and shows them, so that programs are comparable.

    A method whose paper has another default redeclares the field with it. `RagProgram` applies these knobs:
    `cut_source`, `reading` and `shrink_to_fit`.
    """

    query_pos: str = choice(
        "before", ("before", "after", "both"), "where the question comes relative to the passages",
        paper="RAG-X code; its paper found `after` better",
    )  # fmt: skip
    own_knowledge: bool = switch(
        False, "answer from passages and from what the model knows; else from passages alone",
        when=When("answer_format", WORDED), paper="SlimPLM, Table 9",
    )  # fmt: skip
    chunk_size: int = integer(200, 50, 1000, "longest chunk in tokens", step=50, paper="RAG-X base setting")
    overlap: float = real(0.0, 0.0, 0.5, "share of a chunk repeated in the next", step=0.1, paper="RAG-X")
    context_tokens: int = integer(
        0, 0, 100_000, "most tokens of passages that one call reads; 0: as many as the model's context holds",
        step=500, searched=False, paper="none; SlimPLM caps its prompt at 3000",
    )  # fmt: skip


@dataclass(frozen=True)
class CitingKnobs(ReadingKnobs, AnswerKnobs):
    """How a program answers that may cite numbered passages."""

    answer_format: str = redeclare(AnswerKnobs, "answer_format", options=CITING)


@dataclass(frozen=True)
class PassageKnobs(CitingKnobs):
    """How passages are cut, found and shown. Field order is the order of listings."""

    top_k: int = integer(3, 1, 20, "passages shown", paper="RAG-X base setting")
    noise_n: int = integer(0, 0, 10, "unrelated passages added on purpose", paper="RAG-X")
    noise_pos: str = choice(
        "end",
        ("end", "random"),
        "where the unrelated passages are put",
        when=When("noise_n", greater_than=0),
        paper="RAG-X",
    )


@dataclass(frozen=True)
class PrefRagSettings(Knobs):
    """What PrefRAG gave to itself and to every baseline (section 4.3), for classes with these knobs."""

    chunk_size: int = redeclare(ReadingKnobs, "chunk_size", default=500, paper="PrefRAG cuts at 512")
    overlap: float = redeclare(ReadingKnobs, "overlap", paper="PrefRAG")
    temperature: float = redeclare(AnswerKnobs, "temperature", default=0.1, paper="PrefRAG")
    top_p: float = redeclare(AnswerKnobs, "top_p", default=0.9, paper="PrefRAG")


@dataclass(frozen=True)
class EncoderKnobs(Knobs):
    """How methods rank texts whose papers use an encoder of their own."""

    encoder: str = choice(
        "auto",
        ("auto", "bm25"),
        "what says how alike texts are: the embedder of a dense, hybrid or reranked source, BM25 where none "
        "has one; or always BM25",
        searched=False,
        paper="SlimPLM ranks with E5, SKR with SimCSE",
    )
