"""The dimensions of a search: what each trial chose, and how much each choice matters for the score.

Importances are those of PED-ANOVA (Watanabe et al. 2023, arXiv:2304.10255) as Optuna has it: how far the
choices of the best trials differ from those of all. They describe the trials of one study, which the sampler
chose; they are no effects, and with few trials they are noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from ragc.reports.report import Importance, Slice, Trial

FEWEST = 8
"""Trials below which no importances are given."""

FEWEST_OF_VALUE = 3
"""Complete trials with a value below which the value is not compared with others."""


def varied(trials: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The dimensions that have more than one value among the choices of `trials`, in order of appearance."""
    names = dict.fromkeys(name for params in trials for name in params)
    absent = object()
    return tuple(name for name in names if len({repr(params.get(name, absent)) for params in trials}) > 1)


def importances(trials: Sequence[Trial], metric: str, *, more_is_better: bool) -> tuple[Importance, ...]:
    """The importances for `metric` among `trials`, the greatest first; none with fewer than `FEWEST`.

    A stopped trial counts with its expected score, where there is one.
    """
    scored = [
        (trial.params, float(value))
        for trial in trials
        if (value := trial.values.get(metric) if trial.complete else trial.expected) is not None
    ]
    if len(scored) < FEWEST or len({value for _, value in scored}) == 1:
        return ()
    names = varied([params for params, _ in scored])
    spaces = {name: _space([params[name] for params, _ in scored if name in params]) for name in names}
    study = optuna.create_study(direction="maximize" if more_is_better else "minimize")
    for params, value in scored:
        held = {name: _fit(params[name], spaces[name]) for name in names if name in params}
        study.add_trial(
            optuna.trial.create_trial(
                value=value, params=held, distributions={name: spaces[name] for name in held}
            )
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a choice was tried once only; the page says it of all
            shares = optuna.importance.get_param_importances(study)
    except (ValueError, RuntimeError):  # no dimension with enough values
        return ()
    return tuple(Importance(name, metric, float(share), len(scored)) for name, share in shares.items())


def slices(trials: Sequence[Trial], metric: str, *, more_is_better: bool) -> Iterator[Slice]:
    """The complete trials by each value of each dimension that varies, in order of appearance.

    A dimension is left out unless two of its values have `FEWEST_OF_VALUE` trials each.
    """
    whole = [trial for trial in trials if trial.complete and metric in trial.values]
    for name in varied([trial.params for trial in whole]):
        by_value: dict[str, list[float]] = {}
        for trial in whole:
            by_value.setdefault(str(trial.params.get(name, "none")), []).append(trial.values[metric])
        if sum(len(scores) >= FEWEST_OF_VALUE for scores in by_value.values()) < 2:
            continue
        for value, scores in by_value.items():
            best = max(scores) if more_is_better else min(scores)
            yield Slice(name, value, metric, len(scores), sum(scores) / len(scores), best)


def _space(values: Sequence[Any]) -> BaseDistribution:
    """A distribution over the `values` that were tried."""
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return IntDistribution(min(values), max(values))
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return FloatDistribution(float(min(values)), float(max(values)))
    return CategoricalDistribution(sorted({str(value) for value in values}))


def _fit(value: Any, space: BaseDistribution) -> Any:
    if isinstance(space, CategoricalDistribution):
        return str(value)
    return float(value) if isinstance(space, FloatDistribution) else value
