"""The values of single keys of recipes: programs, data sets, splits, optimizers, objectives, demonstrations.

Each class is a type for `Annotated`: it checks a value, and says in the JSON Schema what is valid.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from ragc import corpora, metrics
from ragc.core.user_code import REFERENCE, is_reference
from ragc.core.validation import Checked, Choice, Model, Number, Text, sentence, wrong
from ragc.corpora import datasets
from ragc.corpora.files.records import is_address
from ragc.errors import UnknownName, UsageError
from ragc.programs import NAMES

OWN_OPTIMIZER = "ragc"
"""The value of `search.optimizer` that selects ragc's own study."""

RISK = 0.15
"""The default of `search.risk`: the greatest probability of being worse than the baseline of a winner.

On generated grids .12 in place of .1, and .15 in place of .12, chose settings better by about .01 to .02 of
regret, and more often settings worse than the baseline: at .15 in 1.8% of runs (experiments/LOG.md).
"""

CALLERS_METRIC = "metric"
"""The id of a metric that is a function of the caller's, which only their Python has."""

FILLED, BOOTSTRAPPED, LABELLED, NEAREST, BALANCED, CROSS = DEMO_KINDS = (
    "filled",
    "bootstrapped",
    "labelled",
    "nearest",
    "balanced",
    "cross-domain",
)
"""Kinds of demonstrations.

    filled         bootstrapped ones, filled up with labelled ones
    bootstrapped   only these
    labelled       only these
    nearest        from the filled pool, those nearest to the question
    balanced       from the filled pool, balanced by class
    cross-domain   from questions of another domain
"""

DEMOS, DEMO_SET, DEMO_KIND = DEMO_COLUMNS = ("demos", "demo_set", "demo_kind")
"""What a setting of a grid may say beside knobs: the number of demonstrations, their set and their kind."""

OPTIMIZERS = (OWN_OPTIMIZER, "mipro", "gepa", "random")
PROGRAMS = NAMES


def check_metric(name: str) -> str:
    """Returns the metric `name` as an objective, prefixed with `-` where less is better.

    Raises UsageError for another.
    """
    metric = metrics.get(name, load=True)
    if name.endswith("@k"):
        raise UsageError(f"metric {name!r} needs a number for k, such as {name[:-1]}5")
    return name if metric.higher_is_better else f"-{name}"


def check_objective(name: str) -> None:
    """Raises UsageError for a name that is no metric, or whose sign is not that of the better direction."""
    signed = check_metric(name.removeprefix("-"))
    if signed != name:
        better = "less" if signed.startswith("-") else "more"
        raise UsageError(f"{better} of {signed.removeprefix('-')} is better: write {signed!r}")


def is_added_objective(name: str) -> bool:
    """Returns whether another package adds the metric of the objective `name`."""
    return metrics.is_added(name.removeprefix("-"))


class ProgramName(Choice):
    """The id of a program, or a class of the user's own as `my_module:MyProgram`."""

    def __init__(self) -> None:
        super().__init__("program", PROGRAMS)

    def accept(self, value: object) -> object:
        """Returns `value`, checked further; raises PydanticCustomError."""
        own = ":" in str(value) and is_reference(str(value))
        return value if own else super().accept(value)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"enum": list(PROGRAMS)}, {"type": "string", "pattern": f"^{REFERENCE}$"}]}


def check_program(name: str) -> None:
    """Raises UnknownName for a name that is no program of ragc."""
    if name not in PROGRAMS:
        raise UnknownName("program", name, PROGRAMS)


def check_demo_kind(name: str) -> None:
    """Raises UnknownName for a name that is no kind of demonstrations."""
    if name not in DEMO_KINDS:
        raise UnknownName("kind of demonstrations", name, DEMO_KINDS)


def _dataset_ids() -> list[str]:
    return [*(entry.id for entry in corpora.DATASETS), *datasets.FILES]


class DatasetName(Checked):
    """The id of a data set, or an address `hf:` of one."""

    expected = "a text that is not empty"

    def schema(self) -> CoreSchema:
        """Returns Pydantic's schema of the type."""
        return core_schema.str_schema(strict=True, pattern=r"\S")

    def accept(self, value: object) -> object:
        """Returns a known id, or a valid address."""
        ids = _dataset_ids()
        if is_address(str(value)):
            from ragc.corpora.files import hub

            try:
                hub.parse(str(value))
            except UsageError as error:
                raise sentence(error) from None
        elif value not in ids:
            raise sentence(UnknownName("data set", str(value), ids))
        return value

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        ids = [name for name in _dataset_ids() if not is_address(name)]
        return {"anyOf": [{"enum": ids}, {"type": "string", "pattern": "^hf:."}]}


class SplitSize:
    """A number of questions, 0 or more, or the path of a file."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"\S"}]}

    def _read(self, value: object) -> int | str:
        if isinstance(value, str):
            if not value.strip():
                raise wrong("a text that is not empty")
        elif not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise wrong("a number of questions, 0 or more, or the path of a file")
        return value


class ThenMetric(Checked):
    """The id of a metric."""

    expected = "a text that is not empty"

    def schema(self) -> CoreSchema:
        """Returns Pydantic's schema of the type."""
        return core_schema.str_schema(strict=True, pattern=r"\S")

    def accept(self, value: object) -> object:
        """Returns the id of a known metric."""
        try:
            check_metric(str(value))
        except UsageError as error:
            raise sentence(error) from None
        return value


class PickRule(Model):
    """The table `search.pick`: of programs about as good, the one that is best in another metric."""

    objective: Annotated[str, Text()] = Field(
        default="", description="Objective that decides. By default the first."
    )
    within: Annotated[float, Number(low=0)] = Field(
        description="How much a program may be expected to be below the best, in units of the objective.",
        examples=[0.02],
    )
    then: Annotated[str, ThenMetric()] = Field(
        description="Metric that decides among those, such as tokens.", examples=["tokens"]
    )


class PickOption:
    """The name of an objective, or a table `PickRule`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"anyOf": [{"type": "string"}, PickRule.model_json_schema()]}

    def _read(self, value: object, info: ValidationInfo) -> str | PickRule:
        if isinstance(value, PickRule):
            return value
        if isinstance(value, Mapping):
            return PickRule.model_validate(value, context=info.context)
        if not isinstance(value, str) or (value and not value.strip()):
            raise wrong('an objective, or a table { within = 0.02, then = "tokens" }')
        return value
