"""The tables of a recipe: one pydantic model per table, declared here alone.

`RecipeTables` is the whole file as written; its tables are the records that the rest of ragc reads, gathered
in a `Recipe` (`ragc.recipe.base`). The model of a table of `targets.*` or `sources.*` follows from its
`kind`, whose record declares the `options`. A field's type defines its valid values. Its description
is one line with unit, range and default, for the JSON Schema and the documentation. `ragc.recipe.validate`
makes the `Recipe` and checks across tables; `ragc.recipe.values` has the types of single keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from ragc.core.validation import (
    Choice,
    JsonTable,
    Key,
    Kinds,
    Model,
    Names,
    Number,
    Switch,
    Tables,
    Text,
    Whole,
)
from ragc.corpora import SOURCES
from ragc.corpora.files.field_maps import PassageFields, QuestionFields
from ragc.errors import UsageError
from ragc.metrics import is_added
from ragc.metrics.settings import GraderSettings
from ragc.recipe.values import (
    DEMO_KINDS,
    FILLED,
    OPTIMIZERS,
    OWN_OPTIMIZER,
    PROGRAMS,
    RISK,
    DatasetName,
    PickOption,
    PickRule,
    ProgramName,
    SplitSize,
    check_demo_kind,
    check_metric,
    check_objective,
    check_program,
    is_added_objective,
)
from ragc.targets import TARGETS
from ragc.targets.options import EFFORTS, TargetSpec, check_effort

if TYPE_CHECKING:
    from ragc.metrics.limits import CostLimit

_MAX_SEED = 2**32 - 1
_QUERY_KINDS = ("auto", "rewrite", "decompose", "disambiguate")
"""The kinds of query that a trajectory of RQ-RAG searches with."""
_FORMS = ("tokens", "calls")
"""What a row of RQ-RAG's training data holds: a trajectory with control tokens, or one typed call."""

Words = Annotated[str, Text()]
Path = Annotated[str, Text()]
Split = Annotated[int | str | None, SplitSize()]
Count = Annotated[int, Whole(0)]
Positive = Annotated[int, Whole(1)]
Limit = Annotated[int | None, Whole(1)]
Amount = Annotated[float | None, Number(above=0, largest=1e301)]
Flag = Annotated[bool, Switch()]
Table = Mapping[str, Any]
"""A table whose keys are checked elsewhere: knobs against programs, filters by their own reader."""

_PATH = "File (relative paths lead from the recipe's folder) or an address hf:."
_METRICS = (
    "ids of ragc list metrics, with a number for @k, such as recall@5, or a function of your own in a module "
    "beside the recipe, such as my_metrics:score"
)


class CostLimits(Model):
    """The table `[search.limits]`: what a program may cost on a question. A limit that is left out does not
    apply.
    """

    tokens: Amount = Field(default=None, description="Tokens at most, in the mean. Above 0.")
    lm_calls: Amount = Field(default=None, description="Calls of models at most, in the mean. Above 0.")
    searches: Amount = Field(default=None, description="Searches at most, in the mean. Above 0.")
    latency: Amount = Field(
        default=None,
        description="Seconds from question to answer at most, in the mean. A replayed request counts as long "
        "as it took when it was sent. Above 0.",
    )
    latency_p95: Amount = Field(
        default=None, description="Seconds at most for 95 of 100 questions, counted alike. Above 0."
    )
    usd_per_1000: Amount = Field(
        default=None, description="US dollars for 1,000 questions at most, in the mean. Above 0."
    )

    @property
    def limits(self) -> tuple[CostLimit, ...]:
        """The limits that apply."""
        from ragc.metrics.limits import CostLimit

        return tuple(CostLimit(name, most) for name, most in self if most is not None)


class Search(Model):
    """The table `[search]`: what the compiler may vary, to what end, and how long."""

    knobs: Annotated[tuple[str, ...], Names('"all" or a list of knob names', empty=True, word="all")] = Field(
        default=(), description='Knobs to vary: their names, or "all" for all that are searched by default.'
    )
    ranges: Table = Field(
        default_factory=dict,
        description="Own ranges by knob: [low, high] of a number, else its values. It is then searched.",
    )
    demos: Count = Field(default=0, description="Demonstrations a predictor shows at most. From 0.")
    instructions: Count = Field(
        default=0, description="Instructions that are proposed for each predictor at most. From 0."
    )
    instruction_rounds: Count = Field(
        default=0,
        description="Rounds in which instructions evolve by reflection on failures; each writes at most "
        "search.instructions. 0: they are proposed once, before the trials.",
    )
    prompt_tokens: Count = Field(
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
    objectives: Annotated[tuple[str, ...], Names(check=check_objective, added=is_added_objective)] = Field(
        default=(),
        description=f"What is optimized: {_METRICS}, with - before one where less is better. "
        "By default the first metric of metrics.report.",
    )
    optimizer: Annotated[str, Choice("optimizer", OPTIMIZERS)] = Field(
        default=OWN_OPTIMIZER, description="Optimizer: ragc's own, or MIPROv2, GEPA or random search."
    )
    pick: Annotated[str | PickRule, PickOption()] = Field(
        default="",
        description="Objective that decides among programs. By default the first. Or a table such as "
        '{ within = 0.02, then = "tokens" }: of the programs that are expected to be at most .02 below the '
        "best in it, the one with the fewest tokens; `objective` names another than the first.",
    )
    front: Annotated[int, Whole(0, 10)] = Field(
        default=0,
        description="Programs of the Pareto front at most, the winner among them, that answer the test "
        "questions and are written to `front/`. They need several objectives. 0 to 10; 0 tests the winner "
        "alone.",
    )
    limits: CostLimits = Field(
        default_factory=CostLimits, description="What a program may cost; a search keeps to it."
    )
    risk: Annotated[float, Number(low=0, high=1)] = Field(
        default=RISK,
        description="Greatest probability, 0 to 1, of being more than .01 worse than the baseline that a "
        "winner may have. Less is safer, more chooses better settings on average; 1 allows everything.",
    )
    programs: Annotated[
        tuple[str, ...],
        Names(empty=True, check=check_program, items={"type": "string", "enum": list(PROGRAMS)}),
    ] = Field(default=(), description="Further programs that are compared with the recipe's own.")
    targets: Mapping[str, Annotated[tuple[str, ...], Names("a list of names of [targets.NAME]")]] = Field(
        default_factory=dict,
        description="Names of targets that may play each role, the role's own among them.",
    )
    efforts: Mapping[
        str,
        Annotated[
            tuple[str, ...],
            Names("a list of efforts", check=check_effort, items={"type": "string", "enum": list(EFFORTS)}),
        ],
    ] = Field(
        default_factory=dict,
        description="Further efforts (`reasoning_effort`) of the target of each role. Each becomes a target "
        "NAME-EFFORT that may play it.",
    )
    calibrate: Flag = Field(
        default=True, description="Whether searched thresholds are also fitted to recorded scores."
    )
    demo_kinds: Annotated[
        tuple[str, ...],
        Names(check=check_demo_kind, items={"type": "string", "enum": list(DEMO_KINDS)}),
    ] = Field(
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


class Data(Model):
    """The table `[data]`: where questions and passages come from."""

    dataset: Annotated[str, DatasetName()] = Field(
        default="jsonl",
        description="Data set: an id of ragc list datasets, or an address hf:ORG/NAME. By default jsonl.",
    )
    questions: Path = Field(
        default="",
        description="Questions that the splits are drawn from; fewer than 60 without sizes or named splits "
        f"are cross-validated. {_PATH}",
    )
    corpus: Path = Field(default="", description=f"Passages for every source that names no corpus. {_PATH}")
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
    where: Table = Field(
        default_factory=dict,
        description="Filter on questions: a value, or a list of values, for every dotted path.",
    )
    cross_domain: Path = Field(
        default="", description=f"Questions of another domain, for demonstrations of that kind. {_PATH}"
    )
    cross_domain_corpus: Path = Field(
        default="",
        description=f"Passages that these are searched in; by default the recipe's sources. {_PATH}",
    )


class SourceSpec(Model):
    """A table `[sources.NAME]`: what every kind has.

    `corpus` is "" when the kind needs none or the data set has its own. In a `Recipe`, `options` are JSON
    values as they were written.
    """

    unknown_hint = " What one kind understands goes into an `options` table."

    corpus: Path = Field(default="", description=f"Passages to search; by default data.corpus. {_PATH}")
    fields: PassageFields = Field(
        default_factory=PassageFields, description="Map of the corpus; by default data.corpus_fields."
    )
    kind: str = ""
    options: Annotated[Table, JsonTable()] = Field(default_factory=dict)


Source = Annotated[SourceSpec, Kinds(SOURCES, SourceSpec)]
Target = Annotated[TargetSpec, Kinds(TARGETS, TargetSpec)]


class MetricsTable(GraderSettings):
    """The table `[metrics]`: what is reported, and how graders find out what some metrics read."""

    report: Annotated[tuple[str, ...], Names(check=check_metric, added=is_added)] = Field(
        default=("em", "f1"), description=f"Metrics to report, at least one: {_METRICS}."
    )

    first = "report"


class Budget(Model):
    """The table `[budget]`: hard limits of a study. A limit that is left out does not apply."""

    lm_calls: Limit = Field(default=None, description="Requests to language models at most. From 1.")
    tokens: Limit = Field(default=None, description="Tokens of prompts and replies at most. From 1.")
    usd: Amount = Field(default=None, description="US dollars at most. Above 0.")
    minutes: Amount = Field(default=None, description="Minutes at most. Above 0.")
    trials: Limit = Field(default=None, description="Trials at most. From 1.")


class StudySpec(Model):
    """The table `[study]`: where the state of a study is.

    "" is this machine's folder. No address contains a password: one with a password belongs in the
    environment variable `RAGC_STORAGE`, which overrides the recipe; that of PostgreSQL may also be in
    PGPASSWORD.
    """

    storage: Annotated[
        str,
        Text(
            expected="an address such as postgresql+psycopg://HOST/DATABASE",
            pattern=r"^(postgresql|mysql|mariadb)(\+\w+)?://\S+$",
        ),
    ] = Field(
        default="",
        description="Database for Optuna's storage. A password goes into RAGC_STORAGE. By default a file.",
    )


class GridSpec(Model):
    """The table `[grid]`: what `ragc grid` evaluates on the dev questions, the baseline first."""

    baseline: Annotated[Table, JsonTable()] = Field(
        default_factory=dict,
        description="Values of setting 0 by knob, demos, demo_set and demo_kind, over those of [knobs].",
    )
    settings: Annotated[tuple[Table, ...], Tables()] = Field(
        default=(),
        description="Settings one by one, by the same keys. What one leaves out is as in the baseline.",
    )
    product: Annotated[tuple[Table, ...], Tables(single=True)] = Field(
        default=(),
        description="Lists of values by the same keys; every combination is a setting. A table or several.",
    )
    sample: Count = Field(
        default=0, description="Settings drawn with the seed from what [search] varies, in addition. From 0."
    )


class TrainingSpec(Model):
    """The table `[training_data]`: what `ragc data` makes of the train questions."""

    pairs: Positive = Field(default=4000, description="Pairs of prefrag-dpo at most, one a question. From 1.")
    true_share: Annotated[float, Number(low=0, high=1)] = Field(
        default=0.75,
        description="Share of those pairs whose chosen reply says true: passages of the preferred source add "
        "something. 0 to 1.",
    )
    query_kind: Annotated[str, Choice("kind of query", _QUERY_KINDS)] = Field(
        default="auto",
        description="What rqrag-sft searches with: rewrite, decompose or disambiguate; auto goes by the data "
        "set, else by the number of gold passages.",
    )
    form: Annotated[str, Choice("form of trajectories", _FORMS)] = Field(
        default="tokens",
        description="What the rows of rqrag-sft hold: a whole trajectory with control tokens (tokens), for a "
        "base that has them and a program of your own; or one typed call of rqrag each (calls), for ragc.",
    )
    retention: Annotated[float, Number(low=0, high=1)] = Field(
        default=0.0,
        description="Share of trajectories of rqrag-sft that end in the gold answer as the data set words "
        "it, not as the teacher does. 0 to 1.",
    )
    balance: Flag = Field(
        default=True,
        description="Whether slimplm-labels leaves out unknown questions where no known one came before.",
    )


class RecipeTables(Model):
    """A recipe of ragc: what to compile, from what data, on which models, within which budget."""

    program: Annotated[str, ProgramName()] = Field(
        description="Program to compile: an id of ragc list programs, or a class of your own in a module "
        "beside the recipe, such as my_module:MyProgram.",
        examples=["vanilla"],
    )
    seed: Annotated[int, Whole(0, _MAX_SEED)] = Field(
        default=0, description="Seed of every random choice. From 0 to 4294967295."
    )
    concurrency: Limit = Field(
        default=None,
        description="Questions in flight at once. From 1; by default what the targets answer at once.",
    )
    knobs: Table = Field(
        default_factory=dict, description="Knobs with fixed values; see ragc list knobs PROGRAM."
    )
    search: Search = Field(default_factory=Search, description="What the compiler may vary.")
    prompts: Mapping[str, Path] = Field(
        default_factory=dict, description="Prompt files by predictor, which are read before the search."
    )
    data: Data = Field(default_factory=Data, description="Questions and passages.")
    sources: Mapping[str, Source] = Field(
        default_factory=dict, description="What the program searches, by name."
    )
    targets: Mapping[str, Target] = Field(
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

    @classmethod
    def missing_key(cls, key: Key) -> UsageError:
        """Returns an error that asks for a program."""
        return UsageError('a recipe needs a program; add, for example, program = "vanilla"')
