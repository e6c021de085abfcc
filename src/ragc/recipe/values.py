"""The names that recipes choose among, and the checks of those that are no fixed list."""

from __future__ import annotations

from ragc import corpora, metrics
from ragc.core.user_code import is_reference
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

DATASETS = (*(entry.id for entry in corpora.DATASETS), *datasets.FILES)
"""The ids of data sets, and the form of an address."""

OPTIMIZERS = (OWN_OPTIMIZER, "mipro", "gepa", "random")


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
    if (signed := check_metric(name.removeprefix("-"))) != name:
        better = "less" if signed.startswith("-") else "more"
        raise UsageError(f"{better} of {signed.removeprefix('-')} is better: write {signed!r}")


def check_program(name: str) -> None:
    """Raises UnknownName for a name that is neither a program of ragc nor a class of the user's own."""
    if name not in NAMES and not (":" in name and is_reference(name)):
        raise UnknownName("program", name, NAMES)


def check_dataset(name: str) -> None:
    """Raises UsageError for a name that is neither a data set nor a valid address of one."""
    if is_address(name):
        from ragc.corpora.files import hub

        hub.parse(name)
    elif name not in DATASETS:
        raise UnknownName("data set", name, DATASETS)
