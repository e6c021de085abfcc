"""A resolved recipe: what to compile, from which data, on which models, within which budget.

The records are plain values and validate nothing themselves. `ragc.recipe.models` defines the file's tables,
and `ragc.recipe.validate` makes a `Recipe` of them: "all" is expanded, ranges are checked, defaults are
filled in.
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


@dataclass(frozen=True, slots=True)
class StudySpec:
    """The location of a study; "" means the folders of this machine and this process.

    `storage` is the address of Optuna's storage, `store` that of the call store, `workers` that of a Ray
    cluster: HOST:PORT, or "ray" for the one in RAY_ADDRESS, or else a new local one. None of them contains a
    password: an address with one belongs in the environment variables `RAGC_STORAGE` and `RAGC_STORE`, which
    override the recipe; a PostgreSQL password may also be in PGPASSWORD. With `keep` False, prompts and
    replies are held in memory and the study's folder is removed at the end; addresses are not allowed then.
    """

    storage: str = ""
    store: str = ""
    workers: str = ""
    keep: bool = True


OWN_OPTIMIZER = "ragc"
"""The value of `search.optimizer` that selects ragc's own study."""

CALLERS_METRIC = "metric"
"""The id of a metric that is a function of the caller's, which only their Python has."""

FILLED, BOOTSTRAPPED, LABELLED, NEAREST, BALANCED, CROSS, HELPFUL = DEMO_KINDS = (
    "filled",
    "bootstrapped",
    "labelled",
    "nearest",
    "balanced",
    "cross-domain",
    "helpful",
)
"""Kinds of demonstrations.

    filled         bootstrapped ones, filled up with labelled ones
    bootstrapped   only these
    labelled       only these
    nearest        from the filled pool, those nearest to the question
    balanced       from the filled pool, balanced by class
    cross-domain   from questions of another domain
    helpful        from the filled pool, those that helped other questions in earlier trials
"""


@dataclass(frozen=True, slots=True)
class Search:
    """The search space.

    `knobs` are names in the order of declaration ("all" is expanded). `ranges` narrows some of them: (low,
    high) of a number, the options of a choice or switch. `demos` and `instructions` are maximums per
    predictor, in addition to the program's own; 0 leaves those. `programs` are compared with the recipe's
    own. `targets` are the names of the targets that may take a role, its own first. `objectives` are metric
    ids, prefixed with `-` where less is better; `pick` is the one that selects a program from the Pareto
    front. `calibrate` says whether searched thresholds are also fitted to recorded scores. `demo_kinds` are
    the kinds of demonstrations to choose from, some of `DEMO_KINDS`. `optimizer` is a name, or several that
    run one after another; `shares` are then their shares of the budget, () for equal ones. `batch` trials are
    drawn together, and at most `looks` go on together between two decisions. In each of
    `instruction_rounds` at most `instructions` candidates are written; with 0 they are proposed once.
    `prompt_tokens` bounds the prompts of candidates; 0 bounds nothing.
    """

    knobs: tuple[str, ...] = ()
    ranges: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    demos: int = 0
    instructions: int = 0
    trials: int = 30
    batch: int = 4
    objectives: tuple[str, ...] = ("em",)
    optimizer: str | tuple[str, ...] = OWN_OPTIMIZER
    pick: str = "em"
    programs: tuple[str, ...] = ()
    targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    calibrate: bool = True
    demo_kinds: tuple[str, ...] = (FILLED,)
    instruction_rounds: int = 0
    prompt_tokens: int = 0
    shares: tuple[float, ...] = ()
    looks: int = 2


@dataclass(frozen=True, slots=True)
class Data:
    """The source of questions and passages; "" where nothing is named.

    A split is a number of questions to draw, the path of a file, or None for the data set's own split of that
    name. An `hf:` address is allowed in place of a file, and as `dataset`. `fields` and `corpus_fields` map
    the columns of a question and of a passage in other file formats (`ragc.corpora.files.mapping`); `where`
    selects the questions with one of the given values at every path. `cross_domain` is a question file of
    another domain, JSONL, whose demonstrations may be shown, and `cross_domain_corpus` the corpus that its
    questions search; "" for the recipe's own sources.
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
    """One `[sources.NAME]` table. `corpus` is "" when the kind needs none or the data set has its own.

    `options` holds the settings of one kind (JSON values), `fields` the column map of the corpus if it
    differs from that of the data.
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


DEMOS, DEMO_SET, DEMO_KIND = DEMO_COLUMNS = ("demos", "demo_set", "demo_kind")
"""What a setting of a grid may say beside knobs: the number of demonstrations, their set and their kind."""


@dataclass(frozen=True, slots=True)
class GridSpec:
    """The settings that `ragc grid` evaluates.

    `baseline` has values of setting 0 by knob and by `DEMO_COLUMNS`, over the recipe's fixed ones. `settings`
    are others, by the same keys; what one leaves out is as in the baseline. `sample` more are drawn from the
    search space with the recipe's seed.
    """

    baseline: Mapping[str, Value] = field(default_factory=dict)
    settings: tuple[Mapping[str, Value], ...] = ()
    sample: int = 0


QUERY_KINDS = ("rewrite", "decompose", "disambiguate")
"""The kinds of query that a trajectory of RQ-RAG searches with."""

FORMS = ("tokens", "calls")
"""What a row of RQ-RAG's training data holds: a trajectory with control tokens, or one typed call."""


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """What `ragc data` makes of the train questions; the defaults are those of the papers.

    `pairs` bounds the pairs of PrefRAG, of which a share `true_share` has a chosen reply that says true.
    `query_kind` is one of `QUERY_KINDS`, or "auto"; `form` one of `FORMS`. `retention` is the share of
    RQ-RAG's trajectories that end in the gold answer as it is written. `balance` says whether SlimPLM's
    labels have as many unknown questions as known ones at most.
    """

    pairs: int = 4000
    true_share: float = 0.75
    query_kind: str = "auto"
    form: str = "tokens"
    retention: float = 0.0
    balance: bool = True


@dataclass(frozen=True, slots=True)
class Recipe:
    """A resolved recipe. Paths are stored as written, relative to `base`, which is ignored in comparisons.

    `concurrency` is the number of questions in flight; None means as many as the targets answer at once.
    `knobs` holds only the values that the recipe fixes. `report` is never empty; `assessing` holds the
    settings of graders. `prompts` are files by predictor, imported before the search; with `allow_loss`,
    which no file says, texts of theirs that no program would send are let go. `grid` is for `ragc grid`
    alone, `training_data` for `ragc data`.
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
    grid: GridSpec = field(default_factory=GridSpec)
    training_data: TrainingSpec = field(default_factory=TrainingSpec)
    base: Path = field(default=Path(), compare=False)
    allow_loss: bool = field(default=False, compare=False)

    @property
    def method(self) -> Method:
        """The record of the program."""
        return method(self.program, self.base)

    @property
    def methods(self) -> tuple[Method, ...]:
        """The records of the program and of those compared with it."""
        return (self.method, *(method(name) for name in self.search.programs))

    def path(self, text: str) -> Path:
        """The path `text` of this recipe, resolved against `base`."""
        return self.base / text

    def target_specs(self) -> dict[str, TargetSpec]:
        """The targets by name, ready to be built.

        Paths of embedded weights, and of folders that vLLM loads, are resolved against `base`.
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
        """The program's knobs: the recipe's values, with the declared defaults for the rest."""
        knobs: Knobs = self.method.knobs.of(self.fixed(self.method))
        return knobs

    def fixed(self, chosen: Method) -> dict[str, Value]:
        """The recipe's fixed values for knobs that the program `chosen` has."""
        own = {knob.name for knob in chosen.knobs.list_knobs()}
        return {name: value for name, value in self.knobs.items() if name in own}

    def space(self, chosen: Method | None = None) -> tuple[Knob, ...]:
        """The searched knobs of the recipe's program or of `chosen`, in the order of declaration.

        The recipe's ranges override the declared ones.
        """
        knobs, ranges = (chosen or self.method).knobs.list_knobs(), self.search.ranges
        return tuple(
            narrowed(knob, ranges.get(knob.name)) for knob in knobs if knob.name in self.search.knobs
        )

    def identity(self) -> str:
        """The text that identifies a study of this recipe: everything except what may change on resuming.

        Those are the budget, prices, the number of questions in flight, whether the study is kept, the grid,
        and what training data is made.
        """
        unpriced = {
            name: replace(spec, options={key: value for key, value in spec.options.items() if key != "price"})
            for name, spec in self.targets.items()
        }
        study = replace(self.study, keep=True)
        same = replace(self, budget=Budget(), concurrency=None, study=study, targets=unpriced)
        return replace(same, grid=GridSpec(), training_data=TrainingSpec()).to_toml()

    def to_toml(self) -> str:
        """The recipe as TOML with all defaults; loading it returns an equal recipe."""
        return write.recipe_text(self)


def narrowed(knob: Knob, limits: Sequence[Value] | None) -> Knob:
    """`knob` with the range `limits`: (low, high) of a number, else the options.

    A declared default outside the limits is replaced by the nearest value inside, or the first option.
    """
    if limits is None:
        return knob
    if knob.kind in ("switch", "choice"):
        default = knob.default if knob.default in limits else limits[0]
        return replace(knob, kind="choice", options=tuple(limits), default=default)
    number = int if knob.kind == "int" else float
    low, high = number(limits[0]), number(limits[1])
    return replace(knob, low=low, high=high, default=min(max(number(knob.default), low), high))
