"""Reads a compiled directory for a report: scores, differences, thresholds, cost, provenance.

`provenance.json` may come from elsewhere, so a value of another type than expected is left out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from ragc.core.redact import redact
from ragc.metrics.stats.groups import too_few
from ragc.metrics.stats.resample import after_looks
from ragc.reports.questions import metric_of
from ragc.reports.report import CostRow, Difference, ReportFact, Score, Threshold
from ragc.reports.values import amount, entries, mapping, number, text
from ragc.store.used_questions import TestUse

RUNS = {"baseline": "baseline", "winner": "compiled"}
"""The names of the two runs in provenance, and in reports."""

NOT_EQUAL = "Not shown to be better does not mean equal: more questions could show a smaller difference."
"""The caution that goes with a verdict that is open."""


def objectives_of(recipe: str) -> dict[str, bool]:
    """Returns the objectives in the text of a recipe, by metric: whether more is better. Resolves nothing."""
    try:
        held = tomllib.loads(recipe)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}
    names = entries(mapping(held.get("search")).get("objectives"))
    names = names or entries(mapping(held.get("metrics")).get("report"))[:1]
    return {name.removeprefix("-"): not name.startswith("-") for name in map(text, names) if name}


def scores_in(provenance: Mapping[str, Any]) -> Iterator[Score]:
    """Yields the scores of both programs on test and dev, by metric."""
    for split in ("test", "dev"):
        sides = {run: mapping(mapping(provenance.get(split)).get(key)) for key, run in RUNS.items()}
        for metric in dict.fromkeys(name for side in sides.values() for name in side):
            for run, side in sides.items():
                held = mapping(side.get(metric))
                mean, ends = number(held.get("mean")), _ends(held.get("ci"))
                if mean is not None and ends:
                    yield Score(run, split, metric, mean, *ends, int(amount(held.get("n"))))


def differences_in(
    provenance: Mapping[str, Any], metric: str, run: Mapping[str, Any] | None = None
) -> Iterator[Difference]:
    """Yields the differences on test; `metric` decides.

    They are adjusted for the looks at the test questions before, by `run.json`.
    """
    factor = looks_factor(run or {})
    listed = mapping(mapping(provenance.get("test")).get("differences"))
    for name, value in sorted(listed.items(), key=lambda item: item[0] != metric):
        held = mapping(value)
        adjusted = "p_adjusted" in held
        alone = held.get("ci_front", held.get("ci"))
        mean, ends = number(held.get("mean")), _ends(held.get("ci_simultaneous", alone))
        p = number(held.get("p_adjusted", held.get("p_front", held.get("p"))))
        if mean is None or ends is None or p is None:
            continue
        p, low, high = after_looks(factor, mean, p, ends)
        better = (mean > 0) == metric_of(name, ())[0]
        verdict = "not shown to be better" if p >= 0.05 else "better" if better else "worse"
        if too_few(int(amount(held["groups"])) if "groups" in held else None):
            verdict = "cannot tell"
        n = int(amount(held.get("n")))
        yield Difference(
            name,
            "test",
            RUNS["baseline"],
            RUNS["winner"],
            mean,
            low,
            high,
            p,
            n,
            adjusted,
            name == metric,
            verdict,
        )


def _ends(value: Any) -> tuple[float, float] | None:
    ends = [number(end) for end in entries(value)]
    return (ends[0], ends[1]) if len(ends) == 2 and ends[0] is not None and ends[1] is not None else None


def look_in(run: Mapping[str, Any]) -> str:
    """Returns the sentence on the look at the test questions in `run.json`; "" without one."""
    look = _look_in(run)
    if look is None:
        return ""
    if look.number == 1 and not look.again:
        return "Nobody had used these test questions before."
    return look.sentence


def looks_factor(run: Mapping[str, Any]) -> int:
    """Returns the factor of p for the looks at the test questions before that in `run.json`."""
    look = _look_in(run)
    return look.adjustment if look else 1


def _look_in(run: Mapping[str, Any]) -> TestUse | None:
    """Returns the look at the test questions in `run.json`."""
    held = mapping(run.get("look"))
    count = number(held.get("number"))
    if count is None:
        return None
    return TestUse(
        int(count),
        int(amount(held.get("questions"))),
        int(amount(held.get("seen"))),
        again=held.get("again") is True,
    )


def thresholds_in(search: Any) -> Iterator[Threshold]:
    """Yields the fitted thresholds of a search."""
    for value in entries(mapping(search).get("calibration")):
        held = mapping(value)
        points, means = ([number(v) for v in entries(held.get(name))] for name in ("points", "means"))
        curve = [(x, y) for x, y in zip(points, means, strict=False) if x is not None and y is not None]
        yield Threshold(
            text(held.get("program")),
            text(held.get("knob")),
            text(held.get("metric")),
            tuple(x for x, _ in curve),
            tuple(y for _, y in curve),
            number(held.get("present")),
            number(held.get("threshold")),
            number(held.get("before")),
            number(held.get("in_sample")),
            number(held.get("validated")),
            int(amount(held.get("n"))),
            int(amount(held.get("reached"))),
            held.get("exact") is True,
            text(held.get("left_out")),
        )


def costs_in(provenance: Mapping[str, Any], run: Mapping[str, Any]) -> Iterator[CostRow]:
    """Yields the cost of the compile: all calls, and what this machine sent in its last run."""
    counters = {k: v for k, v in mapping(provenance.get("counters")).items() if number(v)}
    if counters:
        yield CostRow("whole compile, replayed calls included", counters)
    measured = {k: v for k in ("sent", "replayed", "seconds") if (v := number(run.get(k))) is not None}
    if measured:
        yield CostRow("last run on this machine", measured)


def facts_in(
    provenance: Mapping[str, Any], run: Mapping[str, Any], recipe: str, prompts: Mapping[str, str]
) -> Iterator[ReportFact]:
    """Yields the origin of the figures: data, sources, models, versions, the recipe and the prompts."""
    for name, value in mapping(provenance.get("data")).items():
        held = mapping(value)
        yield ReportFact(
            "data", name, f"{amount(held.get('n')):,} questions, {text(held.get('fingerprint'))[:16]}"
        )
    for name, value in mapping(provenance.get("sources")).items():
        held = mapping(value)
        yield ReportFact("sources", name, f"{text(held.get('kind'))}, {text(held.get('fingerprint'))[:16]}")
    for name, value in mapping(provenance.get("targets")).items():
        yield ReportFact("models", name, redact(text(mapping(value).get("name"))))
    for name, value in mapping(provenance.get("versions")).items():
        yield ReportFact("versions", name, text(value))
    if "seed" in provenance:
        yield ReportFact("run", "seed", text(provenance["seed"]))
    for name in ("finished", "machine"):
        if run.get(name):
            yield ReportFact("run", name, text(run[name]))
    if recipe:
        yield ReportFact("recipe", "recipe.toml", redact(recipe))
    for name, prompt in prompts.items():
        yield ReportFact("prompts", name, prompt)
