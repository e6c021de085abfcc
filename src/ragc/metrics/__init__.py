"""Metrics: how an answered question is scored, and whether a difference is significant.

One file per family; each ends in a tuple `METRICS`, and the tuple here joins them in the order of printed
tables. A family is imported when one of its metrics is named, and so are the graders of its findings. `stats`
has the intervals and tests. Importing this package imports neither numpy nor scipy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ragc.core.plugins import Registry
from ragc.core.user_code import is_reference
from ragc.errors import UnknownName, UsageError
from ragc.metrics.base import Grader, GraderKind, JudgeCall, Metric, Outcome, Unit
from ragc.records import Question

if TYPE_CHECKING:
    from ragc.metrics.settings import GraderSettings
    from ragc.store.calls import CallStore

__all__ = [
    "ADDED",
    "METRICS",
    "Metric",
    "Outcome",
    "Unit",
    "get",
    "grader_kinds",
    "is_added",
    "make_graders",
    "most_judge_calls",
    "need_answers",
    "score",
]

_FAMILIES = (
    "short_answer",
    "judge",
    "without_gold",
    "crag",
    "alce",
    "citations",
    "bioasq",
    "rouge",
    "retrieval",
    "upper_bound",
    "cost",
)
_USUAL = ("short_answer", "retrieval", "cost")
"""The families in which a metric is looked for first."""

METRICS: tuple[Metric, ...]
"""The metrics that are listed; all families are imported for it."""


def _guard(metric: Metric, subject: str) -> Metric:
    """Returns the metric of another package, whose errors and wrong scores are blamed on it."""
    from ragc.metrics.own import guard

    return guard(metric, subject)


ADDED: Registry[Metric] = Registry("ragc.metrics", "metric", Metric, {}, guard=_guard)
"""The metrics of other packages, which add them as entry points of the group `ragc.metrics`."""


def is_added(metric_id: str) -> bool:
    """Returns whether another package adds the metric; nothing is imported."""
    return _own(metric_id) is None and ADDED.is_known(metric_id)


def get(metric_id: str, *, load: bool = False) -> Metric:
    """Returns the metric of that id; `recall@5` is cut at the number given, `tokens@proxy` counts the proxy
    only, `upper_bound@f1` is the best F1 of all answers that a program chose among, and `my_metrics:score`
    is a function of the user's own.

    Rows of `METRICS` such as `recall@k` are for listing; scoring with them raises UsageError. A metric of
    another package is imported with `load`, and else known if it was. Raises UnknownName, with the nearest
    id, for an unknown id.
    """
    metric = _own(metric_id) or (ADDED.get(metric_id) if load and ADDED.is_known(metric_id) else None)
    if metric := metric or ADDED.loaded(metric_id):
        return metric
    if ":" in metric_id:
        raise UsageError(
            f"A metric of your own is written module:function, such as my_metrics:score, found {metric_id!r}."
        )
    listed = [metric.id for family in _FAMILIES for metric in _family(family)]
    raise UnknownName("metric", metric_id, (*listed, *ADDED.about()))


def _own(metric_id: str) -> Metric | None:
    """Returns the metric of ragc, or of a user's module, with that id."""
    if is_reference(metric_id):
        from ragc.metrics.own import own_metric

        return own_metric(metric_id)
    name, _, part = metric_id.partition("@")
    if part:
        from ragc.metrics import retrieval

        if name in retrieval.CUT and part.isascii() and part.isdigit() and part[0] != "0":
            return retrieval.at(name, int(part))
        from ragc.metrics import cost, upper_bound

        if name in cost.BY and part != cost.BY[name]:
            return cost.of(name, part)
        if name == upper_bound.NAME and (metric := _find(part)) and metric.text:
            return upper_bound.of(metric)
    return _find(metric_id)


@cache
def _find(metric_id: str) -> Metric | None:
    """Returns the metric with that id, listed or a column of one, with few families imported."""
    metrics = (metric for name in (*_USUAL, *_FAMILIES) for metric in _family(name))
    return next((metric for metric in metrics if metric.id == metric_id), None)


def _family(name: str, *, columns: bool = True) -> tuple[Metric, ...]:
    """Returns the metrics of a family, and the `columns` that are pooled for one."""
    module = import_module(f"{__name__}.{name}")
    return (*module.METRICS, *(getattr(module, "COLUMNS", ()) if columns else ()))


def need_answers(metric_ids: Iterable[str]) -> bool:
    """Returns whether any of the metrics compares with gold answers; functions of the user's own may."""
    from ragc.metrics import cost, retrieval
    from ragc.metrics.without_gold import NO_GOLD

    without = {metric.id.partition("@")[0] for metric in (*cost.METRICS, *retrieval.METRICS)} | NO_GOLD
    return any(metric_id.partition("@")[0] not in without for metric_id in metric_ids)


def score(metric_id: str, prediction: str | None, golds: Sequence[str]) -> float:
    """Returns the score of `prediction` against interchangeable gold answers, 0..1; None or no golds score 0.

    Raises UsageError for a metric that needs more than text, such as `recall@5` or `tokens`.
    """
    metric = get(metric_id, load=True)
    if not metric.text:
        listed = ", ".join(text.id for family in _FAMILIES for text in _family(family) if text.text)
        raise UsageError(f"Metric {metric_id!r} cannot be computed from text alone. These can: {listed}.")
    if isinstance(golds, str):
        raise UsageError("The gold answers must be a list of strings, but got one string. Pass [gold].")
    value = metric.score(Outcome(prediction, tuple(golds)))
    return 0.0 if value is None else value


def grader_kinds(families: Sequence[str]) -> tuple[GraderKind, ...]:
    """Returns the graders of ragc that make the findings of `families`."""
    if not families:
        return ()
    from ragc.metrics import citations, crag, judge, without_gold

    kinds = (*crag.GRADERS, *judge.GRADERS, *without_gold.GRADERS, *citations.GRADERS)
    by_family = {kind.family: kind for kind in kinds}
    return tuple(by_family[family] for family in families if family in by_family)


def make_graders(
    families: Sequence[str],
    settings: GraderSettings,
    ask: JudgeCall | None,
    *,
    store: CallStore | None = None,
) -> dict[str, Grader]:
    """Returns a grader for each of `families`.

    `ask` calls the judge, None without one; rules that need no judge never use it. `store` stores the
    verdicts of NLI models. Raises UsageError when a judge is needed and there is none, or a model or library
    is missing; UnknownName for an unknown option.
    """
    from ragc.metrics.entailment import make

    entailer = cache(lambda: make(settings.entailment, ask, store=store))
    return {kind.family: kind.build(settings, ask, entailer) for kind in grader_kinds(families)}


def most_judge_calls(families: Sequence[str], settings: GraderSettings, question: Question) -> float:
    """Returns the maximum number of typed calls of the judge for the findings of one answer to `question`.

    Infinite where it depends on the answer's length. `settings` decides which findings use the judge. One
    call takes a second request when its reply cannot be read.
    """
    return sum(kind.calls(settings, question) for kind in grader_kinds(families))


def __getattr__(name: str) -> Any:
    """Returns `METRICS`, in the order of the families."""
    if name == "METRICS":
        return tuple(metric for family in _FAMILIES for metric in _family(family, columns=False))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
