"""The recipe: one pydantic model per table, which the rest of ragc reads as it is.

A field's type defines its valid values. Its description is one line with unit, range and default, for the
JSON Schema and the documentation. `ragc.recipe.rules` checks the kind and the `options` of tables of
`targets.*` and `sources.*`, and across tables, and fills in what follows from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import tomli_w
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    WithJsonSchema,
)

from ragc.core.tables import (
    ONCE,
    TAG,
    Above,
    Choice,
    Flag,
    FromZero,
    Json,
    PlacedTable,
    Positive,
    Share,
    Table,
    Whole,
    Words,
    by,
)
from ragc.core.user_code import REFERENCE
from ragc.corpora.files.field_maps import PassageFields, QuestionFields
from ragc.metrics import get, is_added
from ragc.metrics.base import Objective
from ragc.metrics.settings import GraderSettings
from ragc.programs import NAMES, Method, method
from ragc.programs.knobs import Knob, Knobs, Value
from ragc.recipe.values import (
    CROSS,
    DATASETS,
    DEMO_KINDS,
    FILLED,
    OPTIMIZERS,
    OWN_OPTIMIZER,
    RISK,
    check_dataset,
    check_metric,
    check_objective,
    check_program,
)
from ragc.targets.base import ROLES
from ragc.targets.options import EFFORTS, TargetSpec

if TYPE_CHECKING:
    from ragc.metrics.limits import CostLimit

_STORAGE = r"^(postgresql|mysql|mariadb)(\+\w+)?://\S+$"
_WORKERS = r"^(ray|[\w.-]+:[0-9]{1,5})$"
_PATH = "File (relative paths lead from the recipe's folder) or an address hf:."
_METRICS = (
    "ids of ragc list metrics, with a number for @k, such as recall@5, or a function of your own in a module "
    "beside the recipe, such as my_metrics:score"
)


def _form(value: object) -> str:
    """Returns the form of a value that may be a text or something else."""
    return f"{TAG}text" if isinstance(value, str) else f"{TAG}other"


def fits(pattern: str, what: str) -> AfterValidator:
    """Returns a validator of texts that fit the `pattern`; `what` says what they must be."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"must be {what}")
        return text

    return AfterValidator(check)


def one_of(names: Iterable[str], pattern: str) -> WithJsonSchema:
    """Returns the schema of a text that is one of the `names` or fits the `pattern`."""
    return WithJsonSchema({"anyOf": [{"enum": [*names]}, {"type": "string", "pattern": pattern}]})


File = Words


def _lines(value: object) -> object:
    """Returns a list of paths as one text, a path a line."""
    return (
        "\n".join(value)
        if isinstance(value, list) and value and all(isinstance(v, str) for v in value)
        else value
    )


Corpus = Annotated[
    Words,
    BeforeValidator(_lines),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Metric = Annotated[Words, by(check_metric, is_added)]
Goal = Annotated[Words, by(check_objective, lambda name: is_added(name.removeprefix("-")))]
Program = Annotated[Words, by(check_program), one_of(NAMES, f"^{REFERENCE}$")]
Dataset = Annotated[Words, by(check_dataset), one_of((name for name in DATASETS if ":" not in name), "^hf:.")]
Names = Annotated[tuple[Words, ...], ONCE]
Split = (
    Annotated[
        Annotated[Words, Tag(f"{TAG}text")] | Annotated[Whole, Tag(f"{TAG}other")], Discriminator(_form)
    ]
    | None
)
Limit = Positive | None
Listed = Field(min_length=1)
_Axes = dict[str, Annotated[list[Any], Listed]]
Product = Annotated[
    Annotated[_Axes, Tag(f"{TAG}table")] | Annotated[tuple[_Axes, ...], Tag(f"{TAG}list")],
    Discriminator(lambda value: f"{TAG}table" if isinstance(value, Mapping) else f"{TAG}list"),
]


class CostLimits(Table):
    """The table `[search.limits]`: what a program may cost on a question. A limit that is left out does not
    apply.
    """

    tokens: Above | None = Field(default=None, description="Tokens at most, in the mean. Above 0.")
    lm_calls: Above | None = Field(default=None, description="Calls of models at most, in the mean. Above 0.")
    searches: Above | None = Field(default=None, description="Searches at most, in the mean. Above 0.")
    latency: Above | None = Field(
        default=None,
        description="Seconds from question to answer at most, in the mean. A replayed request counts as long "
        "as it took when it was sent. Above 0.",
    )
    latency_p95: Above | None = Field(
        default=None, description="Seconds at most for 95 of 100 questions, counted alike. Above 0."
    )
    usd_per_1000: Above | None = Field(
        default=None, description="US dollars for 1,000 questions at most, in the mean. Above 0."
    )

    @property
    def limits(self) -> tuple[CostLimit, ...]:
        """The limits that apply."""
        from ragc.metrics.limits import CostLimit

        return tuple(CostLimit(name, most) for name, most in self if most is not None)


class PickRule(Table):
    """The table `search.pick`: of programs about as good, the one that is best in another metric."""

    objective: str = Field(default="", description="Objective that decides. By default the first.")
    within: FromZero = Field(
        description="How much a program may be expected to be below the best, in units of the objective.",
        examples=[0.02],
    )
    then: Metric = Field(description="Metric that decides among those, such as tokens.", examples=["tokens"])


Pick = Annotated[
    Annotated[PickRule, Tag(f"{TAG}other")] | Annotated[str, Tag(f"{TAG}text")],
    Discriminator(_form),
    WithJsonSchema({"anyOf": [{"type": "string"}, PickRule.model_json_schema()]}),
]


class Search(Table):
    """The table `[search]`: what the compiler may vary, to what end, and how long."""

    knobs: Annotated[
        Names,
        BeforeValidator(lambda value: (value,) if value == "all" else value),
        WithJsonSchema({"anyOf": [{"const": "all"}, {"type": "array", "items": {"type": "string"}}]}),
    ] = Field(
        default=(), description='Knobs to vary: their names, or "all" for all that are searched by default.'
    )
    ranges: dict[str, Any] = Field(
        default_factory=dict,
        description="Own ranges by knob: [low, high] of a number, else its values. It is then searched.",
    )
    demos: Whole = Field(default=0, description="Demonstrations a predictor shows at most. From 0.")
    instructions: Whole = Field(
        default=0, description="Instructions that are proposed for each predictor at most. From 0."
    )
    instruction_rounds: Whole = Field(
        default=0,
        description="Rounds in which instructions evolve by reflection on failures; each writes at most "
        "search.instructions. 0: they are proposed once, before the trials.",
    )
    prompt_tokens: Whole = Field(
        default=0,
        description="Tokens of a prompt at most: instructions, demonstrations, inputs. 0 bounds nothing.",
    )
    trials: Positive = Field(default=30, description="Trials of the search. From 1.")
    batch: Positive = Field(default=4, description="Trials that are drawn together. From 1.")
    looks: Positive = Field(
        default=2,
        description="Trials at most, of a batch at most, that answer more questions before it is decided "
        "again who goes on. More take less time, fewer choose better. From 1.",
    )
    objectives: Annotated[tuple[Goal, ...], ONCE, Listed] = Field(
        default=(),
        description=f"What is optimized: {_METRICS}, with - before one where less is better. "
        "By default the first metric of metrics.report.",
    )
    optimizer: Annotated[str, Choice(OPTIMIZERS)] = Field(
        default=OWN_OPTIMIZER, description="Optimizer: ragc's own, or MIPROv2, GEPA or random search."
    )
    pick: Pick = Field(
        default="",
        description="Objective that decides among programs. By default the first. Or a table such as "
        '{ within = 0.02, then = "tokens" }: of the programs that are expected to be at most .02 below the '
        "best in it, the one with the fewest tokens; `objective` names another than the first.",
    )
    front: Annotated[Whole, Field(le=10)] = Field(
        default=0,
        description="Programs of the Pareto front at most, the winner among them, that answer the test "
        "questions and are written to `front/`. They need several objectives. 0 to 10; 0 tests the winner "
        "alone.",
    )
    limits: CostLimits = Field(
        default_factory=CostLimits, description="What a program may cost; a search keeps to it."
    )
    risk: Share = Field(
        default=RISK,
        description="Greatest probability, 0 to 1, of being more than .01 worse than the baseline that a "
        "winner may have. Less is safer, more chooses better settings on average; 1 allows everything.",
    )
    programs: Annotated[tuple[Annotated[str, Choice(NAMES)], ...], ONCE] = Field(
        default=(), description="Further programs that are compared with the recipe's own."
    )
    targets: dict[str, Annotated[Names, Listed]] = Field(
        default_factory=dict,
        json_schema_extra={"propertyNames": {"enum": [*ROLES]}},
        description="Names of targets that may play each role, the role's own among them.",
    )
    efforts: dict[str, Annotated[tuple[Annotated[str, Choice(EFFORTS)], ...], ONCE, Listed]] = Field(
        default_factory=dict,
        description="Further efforts (`reasoning_effort`) of the target of each role. Each becomes a target "
        "NAME-EFFORT that may play it.",
    )
    calibrate: Flag = Field(
        default=True, description="Whether searched thresholds are also fitted to recorded scores."
    )
    demo_kinds: Annotated[tuple[Annotated[str, Choice(DEMO_KINDS)], ...], ONCE, Listed] = Field(
        default=(FILLED,),
        description="Kinds of demonstrations to choose from: filled (bootstrapped, then labelled), "
        "bootstrapped, labelled, nearest (to the question), balanced (by class) or "
        "cross-domain.",
    )

    @property
    def pick_name(self) -> str:
        """The objective that decides; "" in a table as written, where it is the first."""
        return self.pick if isinstance(self.pick, str) else self.pick.objective

    @property
    def pick_metrics(self) -> tuple[str, ...]:
        """The objective that decides, and the metric of a table `pick`."""
        return (self.pick_name,) if isinstance(self.pick, str) else (self.pick_name, self.pick.then)


@dataclass(frozen=True, slots=True)
class SelectionRule:
    """The rule that chooses among trials with `objectives`: the best in `pick` within the `limits`.

    A trial with a probability above `risk` of being more than the margin worse than the baseline is chosen
    only where no other may be. Of trials that are expected to be at most `within` below the best, in units of
    `pick`, the one that is best in `then` is chosen; None for the best itself.
    """

    objectives: tuple[Objective, ...]
    pick: Objective
    risk: float = RISK
    limits: tuple[CostLimit, ...] = ()
    within: float = 0.0
    then: Objective | None = None

    @classmethod
    def of(cls, search: Search, objectives: Sequence[Objective]) -> SelectionRule:
        """Returns the rule of the table `search`, whose objectives are read as `objectives`."""
        pick = next(one for one in objectives if one.name == search.pick_name)
        within, then = 0.0, None
        if not isinstance(search.pick, str):
            metric = get(search.pick.then, load=True)
            within, then = search.pick.within, Objective(metric, 1 if metric.higher_is_better else -1)
        return cls(tuple(objectives), pick, search.risk, search.limits.limits, within, then)

    @classmethod
    def by(cls, objective: Objective) -> SelectionRule:
        """Returns the rule of a search with one `objective` and nothing else."""
        return cls((objective,), objective)


class Data(Table):
    """The table `[data]`: where questions and passages come from."""

    dataset: Dataset = Field(
        default="jsonl",
        description="Data set: an id of ragc list datasets, or an address hf:ORG/NAME. By default jsonl.",
    )
    questions: File = Field(
        default="",
        description="Questions that the splits are drawn from; fewer than 60 without sizes or named splits "
        f"are cross-validated. {_PATH}",
    )
    corpus: Corpus = Field(
        default="",
        description="Passages for every source that names no corpus: a file of rows or a document, a folder, "
        f"a pattern such as docs/*.md, or a list of them. {_PATH}",
    )
    train: Split = Field(default=None, description="Train questions: how many to draw (from 0), or a file.")
    dev: Split = Field(
        default=None, description="Dev questions, which compare programs: how many to draw, or a file."
    )
    test: Split = Field(
        default=None, description="Test questions, which prove the winner: how many to draw, or a file."
    )
    fields: QuestionFields = Field(default_factory=QuestionFields, description="Map of the question files.")
    corpus_fields: PassageFields = Field(
        default_factory=PassageFields, description="Map of the corpus files."
    )
    where: dict[str, Any] = Field(
        default_factory=dict,
        description="Filter on questions: a value, or a list of values, for every dotted path.",
    )
    cross_domain: File = Field(
        default="", description=f"Questions of another domain, for demonstrations of that kind. {_PATH}"
    )
    cross_domain_corpus: Corpus = Field(
        default="",
        description=f"Passages that these are searched in; by default the recipe's sources. {_PATH}",
    )


class SourceSpec(Table):
    """A table `[sources.NAME]`: what every kind has.

    `corpus` is "" when the kind needs none or the data set has its own. In a `Recipe`, `options` are JSON
    values as they were written.
    """

    kind: str = ""
    corpus: Corpus = Field(default="", description=f"Passages to search; by default data.corpus. {_PATH}")
    fields: PassageFields = Field(
        default_factory=PassageFields, description="Map of the corpus; by default data.corpus_fields."
    )
    options: Json = Field(default_factory=dict, description="What only this kind understands.")


class MetricsTable(GraderSettings):
    """The table `[metrics]`: what is reported, and how graders find out what some metrics read."""

    report: Annotated[tuple[Metric, ...], ONCE, Listed] = Field(
        default=("em", "f1"), description=f"Metrics to report, at least one: {_METRICS}."
    )


class Budget(Table):
    """The table `[budget]`: hard limits of a study. A limit that is left out does not apply."""

    lm_calls: Limit = Field(default=None, description="Requests to language models at most. From 1.")
    tokens: Limit = Field(default=None, description="Tokens of prompts and replies at most. From 1.")
    usd: Above | None = Field(default=None, description="US dollars at most. Above 0.")
    minutes: Above | None = Field(default=None, description="Minutes at most. Above 0.")
    trials: Limit = Field(default=None, description="Trials at most. From 1.")


class StudySpec(Table):
    """The table `[study]`: where the state of a study is.

    "" is this machine's folder. No address contains a password: one with a password belongs in the
    environment variable `RAGC_STORAGE`, which overrides the recipe; that of PostgreSQL may also be in
    PGPASSWORD.
    """

    storage: Annotated[str, fits(_STORAGE, "an address such as postgresql+psycopg://HOST/DATABASE")] = Field(
        default="",
        json_schema_extra={"pattern": _STORAGE},
        description="Database for Optuna's storage. A password goes into RAGC_STORAGE. By default a file.",
    )
    workers: Annotated[str, fits(_WORKERS, '"ray" or the address of a Ray cluster, such as "host:6379"')] = (
        Field(
            default="",
            json_schema_extra={"pattern": _WORKERS},
            description='Ray cluster that answers the questions of trials: "HOST:PORT", or "ray" for one '
            "here.",
        )
    )


class GridSpec(Table):
    """The table `[grid]`: what `ragc grid` evaluates on the dev questions, the baseline first."""

    baseline: Json = Field(
        default_factory=dict,
        description="Values of setting 0 by knob, demos, demo_set and demo_kind, over those of [knobs].",
    )
    settings: tuple[Json, ...] = Field(
        default=(),
        description="Settings one by one, by the same keys. What one leaves out is as in the baseline.",
    )
    product: Product = Field(
        default=(),
        description="Lists of values by the same keys; every combination is a setting. A table or several.",
    )
    sample: Whole = Field(
        default=0, description="Settings drawn with the seed from what [search] varies, in addition. From 0."
    )


class TrainingSpec(Table):
    """The table `[training_data]`: what `ragc data` makes of the train questions."""

    pairs: Positive = Field(default=4000, description="Pairs of prefrag-dpo at most, one a question. From 1.")
    true_share: Share = Field(
        default=0.75,
        description="Share of those pairs whose chosen reply says true: passages of the preferred source add "
        "something. 0 to 1.",
    )
    query_kind: Annotated[str, Choice(("auto", "rewrite", "decompose", "disambiguate"))] = Field(
        default="auto",
        description="What rqrag-sft searches with: rewrite, decompose or disambiguate; auto goes by the data "
        "set, else by the number of gold passages.",
    )
    form: Annotated[str, Choice(("tokens", "calls"))] = Field(
        default="tokens",
        description="What the rows of rqrag-sft hold: a whole trajectory with control tokens (tokens), for a "
        "base that has them and a program of your own; or one typed call of rqrag each (calls), for ragc.",
    )
    retention: Share = Field(
        default=0.0,
        description="Share of trajectories of rqrag-sft that end in the gold answer as the data set words "
        "it, not as the teacher does. 0 to 1.",
    )
    balance: Flag = Field(
        default=True,
        description="Whether slimplm-labels leaves out unknown questions where no known one came before.",
    )


class Recipe(PlacedTable):
    """A recipe of ragc: what to compile, from what data, on which models, within which budget."""

    program: Program = Field(
        description="Program to compile: an id of ragc list programs, or a class of your own in a module "
        "beside the recipe, such as my_module:MyProgram.",
        examples=["vanilla"],
    )
    seed: Annotated[Whole, Field(le=2**32 - 1)] = Field(
        default=0, description="Seed of every random choice. From 0 to 4294967295."
    )
    concurrency: Limit = Field(
        default=None,
        description="Questions in flight at once. From 1; by default what the targets answer at once.",
    )
    knobs: dict[str, Any] = Field(
        default_factory=dict, description="Knobs with fixed values; see ragc list knobs PROGRAM."
    )
    search: Search = Field(default_factory=Search, description="What the compiler may vary.")
    prompts: dict[str, File] = Field(
        default_factory=dict, description="Prompt files by predictor, which are read before the search."
    )
    data: Data = Field(default_factory=Data, description="Questions and passages.")
    sources: dict[str, SourceSpec] = Field(
        default_factory=dict, description="What the program searches, by name."
    )
    targets: dict[str, TargetSpec] = Field(
        default_factory=dict,
        description="Language models by role: main, proxy, judge or teacher; or by name.",
    )
    metrics: MetricsTable = Field(default_factory=MetricsTable, description="What is reported.")
    budget: Budget = Field(default_factory=Budget, description="Hard limits of the study.")
    study: StudySpec = Field(default_factory=StudySpec, description="Where the study is and who runs it.")
    grid: GridSpec = Field(default_factory=GridSpec, description="What `ragc grid` evaluates.")
    training_data: TrainingSpec = Field(
        default_factory=TrainingSpec, description="What `ragc data` makes of the train questions."
    )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipe) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def method(self) -> Method:
        """The record of the program."""
        return method(self.program, self.base)

    @property
    def methods(self) -> tuple[Method, ...]:
        """The records of the program and of those compared with it."""
        return (self.method, *(method(name) for name in self.search.programs))

    def path(self, text: str) -> Path:
        """Returns the path `text` of this recipe, resolved against `base`."""
        return self.base / text

    def target_specs(self) -> dict[str, TargetSpec]:
        """Returns the targets by name, ready to be built: paths lead from `base`."""
        return {name: spec.at(self.base) for name, spec in self.targets.items()}

    def settings(self) -> Knobs:
        """Returns the program's knobs: the recipe's values, with the declared defaults for the rest."""
        return cast(Knobs, self.method.knobs.of(self.fixed(self.method)))

    def fixed(self, chosen: Method) -> dict[str, Value]:
        """Returns the recipe's fixed values for knobs that the program `chosen` has."""
        names = [knob.name for knob in chosen.knobs.list_knobs()]
        return {name: self.knobs[name] for name in names if name in self.knobs}

    def space(self, chosen: Method | None = None) -> tuple[Knob, ...]:
        """Returns the searched knobs of the recipe's program or of `chosen`, in the order of declaration.

        The recipe's ranges override the declared ones.
        """
        knobs, ranges = (chosen or self.method).knobs.list_knobs(), self.search.ranges
        return tuple(
            narrowed(knob, ranges.get(knob.name)) for knob in knobs if knob.name in self.search.knobs
        )

    @property
    def searches_nothing(self) -> bool:
        """Whether no knob, demonstration, instruction, target or program is searched."""
        search = self.search
        varied = search.demos or search.instructions or search.targets or self.methods[1:]
        return not varied and not any(map(self.space, self.methods))

    @property
    def needs_train(self) -> bool:
        """Whether what is searched is made of train questions."""
        search = self.search
        return bool(
            (search.demos and set(search.demo_kinds) - {CROSS})
            or search.instructions
            or search.optimizer != OWN_OPTIMIZER
        )

    def identity(self) -> str:
        """Returns the text that identifies a study of this recipe: everything except what may change on
        resuming.

        Those are the budget, prices, the number of questions in flight, the grid, and what training data is
        made.
        """
        unpriced = {
            name: spec.replace(options={key: value for key, value in spec.options.items() if key != "price"})
            for name, spec in self.targets.items()
        }
        kept = self.replace(budget=Budget(), concurrency=None, targets=unpriced, grid=GridSpec())
        return kept.replace(training_data=TrainingSpec()).to_toml()

    def to_toml(self) -> str:
        """Returns the recipe as TOML with all defaults; loading it returns an equal recipe.

        Equal recipes give the same text: tables of names are sorted.
        """
        return tomli_w.dumps(plain(self))


def plain(value: Any) -> Any:
    """Returns `value`, a table of a recipe or a part of one, as JSON holds it, without empty parts."""
    if isinstance(value, PassageFields):
        return value.explicit
    if isinstance(value, Table):
        return {key: held for key, inner in value if (held := plain(inner)) not in (None, "", {}, [])}
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in sorted(value.items())}
    return [plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def narrowed(knob: Knob, limits: Sequence[Value] | None) -> Knob:
    """Returns `knob` with the range `limits`: (low, high) of a number, else the options.

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
