"""A recipe as resolved: what to compile, from what data, on which models, within which budget.

The records are plain values and check nothing themselves. `ragc.recipe.models` says what a file may hold, and
`ragc.recipe.validate` makes a `Recipe` of it: "all" is spelt out, ranges are checked, defaults are filled in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragc.metrics.base import GraderSettings
from ragc.programs import Method, method
from ragc.programs.knobs import Knob, Knobs, Value
from ragc.recipe import write
from ragc.targets.base import TargetSpec

STORE_ENV, STORAGE_ENV = "RAGC_STORE", "RAGC_STORAGE"
"""Variables of the environment that hold whole addresses, with a password where one is needed."""


@dataclass(frozen=True, slots=True)
class StudySpec:
    """Where a study is; "" for the folders of this machine and for this process.

    `storage` is the address of Optuna's storage, `store` that of the call store, `workers` that of a Ray
    cluster, HOST:PORT, or "ray": the one in RAY_ADDRESS, else one that is started here. None of them holds a
    password: an address with one goes into the environment, `RAGC_STORAGE` and `RAGC_STORE`, which stand
    before what the recipe says; a PostgreSQL password may also stand in PGPASSWORD. `keep` False holds
    prompts and replies in memory and removes the study's folder at the end: no address goes with it.
    """

    storage: str = ""
    store: str = ""
    workers: str = ""
    keep: bool = True


FILLED, BOOTSTRAPPED, LABELLED, NEAREST, BALANCED, CROSS = DEMO_KINDS = (
    "filled",
    "bootstrapped",
    "labelled",
    "nearest",
    "balanced",
    "cross-domain",
)
"""Kinds of demonstrations: bootstrapped ones filled up with labelled ones, each of the two alone, of the
filled pool those nearest to the question, those balanced by class, and those of another domain."""


@dataclass(frozen=True, slots=True)
class Search:
    """What the compiler may vary.

    `knobs` are names in the order of declaration ("all" is already spelt out). `ranges` narrows some of
    them: (low, high) of a number, the options of a choice or switch. `demos` and `instructions` are the
    most per predictor, beside what the program has; 0 keeps that. `programs` are compared with the recipe's
    own. `targets` are the names that a role may be played by, its own first. `objectives` are metric ids,
    with `-` before those where less is better; `pick` is the one that decides among equals of the front.
    `calibrate` says whether searched thresholds are also fitted to recorded scores.
    `demo_kinds` are the kinds of demonstrations to choose from, some of `DEMO_KINDS`.
    """

    knobs: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    demos: int = 0
    instructions: int = 0
    trials: int = 30
    batch: int = 4
    objectives: tuple[str, ...] = ("em",)
    optimizer: str = "ragc"
    pick: str = "em"
    programs: tuple[str, ...] = ()
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    calibrate: bool = True
    demo_kinds: tuple[str, ...] = (FILLED,)


@dataclass(frozen=True, slots=True)
class Data:
    """Where questions and passages come from; "" where nothing is named.

    A split is a number of questions to draw, the path of a file, or None: not named, so whatever the
    data set itself calls by that name. Where a file can stand, an address `hf:` can too, and as `dataset`.
    `fields` and `corpus_fields` say where a file of another shape holds the fields of a question and of a
    passage (`ragc.corpora.files.mapping`); `where` keeps the questions with one of the values at every path.
    `cross_domain` is a question file of another domain, JSONL, whose demonstrations may be shown, and
    `cross_domain_corpus` what its questions are searched in; "" for the recipe's own sources.
    """

    dataset: str = "jsonl"
    questions: str = ""
    corpus: str = ""
    train: int | str | None = None
    dev: int | str | None = None
    test: int | str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    corpus_fields: Mapping[str, str] = field(default_factory=dict)
    where: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    cross_domain: str = ""
    cross_domain_corpus: str = ""


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One `[sources.NAME]` table. `corpus` is "" when the kind needs none or the data set brings its own.

    `options` holds what only one kind understands (JSON values), `fields` the map of the corpus where it is
    not that of the data.
    """

    kind: str
    corpus: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Budget:
    """Hard limits of a study; None is no limit."""

    lm_calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    minutes: float | None = None
    trials: int | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe as resolved. Paths are kept as written and lead from `base`, which is no part of equality.

    `concurrency` is the number of questions in flight, None: what the targets answer at once. `knobs`
    holds only what the recipe fixes. `report` is never empty; `assessing` says how the
    findings are made that some metrics read. `prompts` are files by predictor, imported before the search.
    """

    program: str
    seed: int = 0
    concurrency: int | None = None
    knobs: Mapping[str, Value] = field(default_factory=dict)
    search: Search = field(default_factory=Search)
    data: Data = field(default_factory=Data)
    sources: Mapping[str, SourceSpec] = field(default_factory=dict)
    targets: Mapping[str, TargetSpec] = field(default_factory=dict)
    report: tuple[str, ...] = ("em", "f1")
    assessing: GraderSettings = field(default_factory=GraderSettings)
    budget: Budget = field(default_factory=Budget)
    study: StudySpec = field(default_factory=StudySpec)
    prompts: Mapping[str, str] = field(default_factory=dict)
    base: Path = field(default=Path(), compare=False)

    @property
    def method(self) -> Method:
        """The record of the program."""
        return method(self.program)

    @property
    def methods(self) -> tuple[Method, ...]:
        """The records of the program and of those that are compared with it."""
        return tuple(method(name) for name in (self.program, *self.search.programs))

    def path(self, text: str) -> Path:
        """Where the path `text` of this recipe leads."""
        return self.base / text

    def target_specs(self) -> dict[str, TargetSpec]:
        """The targets by name, ready to be built.

        The weights of embedded ones, and folders that vLLM is to load, lead from here, not from
        `base`.
        """
        return {
            name: replace(spec, model=str(self.path(spec.model)))
            if spec.model and (spec.kind == "embedded" or self._loads_folder(spec))
            else spec
            for name, spec in self.targets.items()
        }

    def _loads_folder(self, spec: TargetSpec) -> bool:
        loads = spec.options.get("serve") or spec.options.get("offline")
        return bool(loads) and self.path(spec.model).is_dir()

    def settings(self) -> Knobs:
        """The program's knobs: what is fixed here over the declared defaults."""
        knobs: Knobs = self.method.knobs.of(self.fixed(self.method))
        return knobs

    def fixed(self, chosen: Method) -> dict[str, Value]:
        """What the recipe fixes of the knobs that the program `chosen` has."""
        own = {knob.name for knob in chosen.knobs.list_knobs()}
        return {name: value for name, value in self.knobs.items() if name in own}

    def space(self, chosen: Method | None = None) -> tuple[Knob, ...]:
        """The knobs to vary of the recipe's program or of `chosen`, in the order of declaration.

        The recipe's ranges stand over the declared ones.
        """
        knobs, ranges = (chosen or self.method).knobs.list_knobs(), self.search.ranges
        return tuple(
            narrowed(knob, ranges.get(knob.name)) for knob in knobs if knob.name in self.search.knobs
        )

    def identity(self) -> str:
        """The text that a study of this recipe goes by: all but what may change when the study goes on.

        That are the budget, the number of questions in flight, and whether the study is kept.
        """
        study = replace(self.study, keep=True)
        return replace(self, budget=Budget(), concurrency=None, study=study).to_toml()

    def to_toml(self) -> str:
        """The recipe as TOML with every default spelt out; loading it gives an equal recipe."""
        return write.recipe_text(self)


def narrowed(knob: Knob, limits: Sequence[Value] | None) -> Knob:
    """`knob` with `limits` for its range: (low, high) of a number, else the options.

    A declared default outside the limits gives way to the nearest value inside, or the first option.
    """
    if limits is None:
        return knob
    if knob.kind in ("switch", "choice"):
        default = knob.default if knob.default in limits else limits[0]
        return replace(knob, kind="choice", options=tuple(limits), default=default)
    number = int if knob.kind == "int" else float
    low, high = number(limits[0]), number(limits[1])
    return replace(knob, low=low, high=high, default=min(max(number(knob.default), low), high))
