"""The dimensions of a search: the choices of each trial, and how much each choice matters for the score.

Importances are those of PED-ANOVA (Watanabe et al. 2023, arXiv:2304.10255) in Optuna's implementation: how
far the choices of the best trials differ from those of all. They describe the trials of one study, which the
sampler chose; they are no effects, and with few trials they are noise.
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

MIN_TRIALS = 8
"""Complete trials below which no importances are given."""

MIN_TRIALS_OF_VALUE = 3
"""Complete trials with a value below which the value is not compared with others."""


def varied(trials: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Returns the dimensions that have more than one value among the choices of `trials`, in order of
    appearance.
    """
    names = dict.fromkeys(name for params in trials for name in params)
    absent = object()
    return tuple(name for name in names if len({repr(params.get(name, absent)) for params in trials}) > 1)


def importances(
    trials: Sequence[Trial], metric: str, *, more_is_better: bool, own: optuna.Study | None = None
) -> tuple[Importance, ...]:
    """Returns the importances for `metric` among `trials`, greatest first; none below `MIN_TRIALS` ones.

    For the Optuna study `own`, if it is known, they are those shown by Optuna and its dashboard, which count
    a stopped trial with the value that Optuna was told. Else only complete trials count.
    """
    whole = [trial for trial in trials if trial.complete and metric in trial.values]
    if len(whole) < MIN_TRIALS or len({trial.values[metric] for trial in whole}) == 1:
        return ()
    studied = (
        own if own is not None and _count_scored(own) >= MIN_TRIALS else _study(whole, metric, more_is_better)
    )
    target = None
    if len(studied.directions) > 1:  # PED-ANOVA takes the least of a target for the best
        names = list(whole[0].values)
        position = names.index(metric)
        target = lambda trial: -trial.values[position]  # noqa: E731
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a choice was tried once only; the page says it of all
            shares = optuna.importance.get_param_importances(studied, target=target)
    except (ValueError, RuntimeError):  # no dimension with enough values
        return ()
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    return tuple(
        Importance(name.removeprefix("knob."), metric, float(share), _count_scored(studied))
        for name, share in ranked
    )


def _count_scored(study: optuna.Study) -> int:
    """Returns the number of trials in `study` with a value."""
    return len(study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,)))


def _study(trials: Sequence[Trial], metric: str, more_is_better: bool) -> optuna.Study:
    """Returns a study of `trials`, for those of an optimizer that stores none."""
    names = varied([trial.params for trial in trials])
    spaces = {name: _space([one.params[name] for one in trials if name in one.params]) for name in names}
    study = optuna.create_study(direction="maximize" if more_is_better else "minimize")
    for trial in trials:
        held = {name: _fit(trial.params[name], spaces[name]) for name in names if name in trial.params}
        study.add_trial(
            optuna.trial.create_trial(
                value=trial.values[metric],
                params=held,
                distributions={name: spaces[name] for name in held},
            )
        )
    return study


def slices(trials: Sequence[Trial], metric: str, *, more_is_better: bool) -> Iterator[Slice]:
    """Yields the complete trials by each value of each dimension that varies, in order of appearance.

    A dimension is left out unless two of its values have `MIN_TRIALS_OF_VALUE` trials each.
    """
    whole = [trial for trial in trials if trial.complete and metric in trial.values]
    for name in varied([trial.params for trial in whole]):
        by_value: dict[str, list[float]] = {}
        for trial in whole:
            by_value.setdefault(str(trial.params.get(name, "none")), []).append(trial.values[metric])
        if sum(len(scores) >= MIN_TRIALS_OF_VALUE for scores in by_value.values()) < 2:
            continue
        for value, scores in by_value.items():
            best = max(scores) if more_is_better else min(scores)
            yield Slice(name, value, metric, len(scores), sum(scores) / len(scores), best)


def _space(values: Sequence[Any]) -> BaseDistribution:
    """Returns a distribution over the `values` that were tried."""
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return IntDistribution(min(values), max(values))
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return FloatDistribution(float(min(values)), float(max(values)))
    return CategoricalDistribution(sorted({str(value) for value in values}))


def _fit(value: Any, space: BaseDistribution) -> Any:
    if isinstance(space, CategoricalDistribution):
        return str(value)
    return float(value) if isinstance(space, FloatDistribution) else value
