"""The report of rows: a frontier of risk and regret by budget, with intervals over worlds.

Numbers are means over sources of the means over their seeds, so that every kind counts alike. Intervals are
95% of a bootstrap that draws sources, and within each its seeds. The error of what is expected is a root mean
square over sources of the means of their seeds. Few seeds leave much noise in it: even a search that is right
on average has an error. So it is there without that noise, too (`without_noise`).
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.benchmarks.search.choosing.runs import EXHAUSTIVE, RAGC
from experiments.benchmarks.search.choosing.worlds import Array
from ragc.optimizers.search.allocation import MARGIN

Rows = Sequence[Mapping[str, Any]]
World = tuple[str, int]

REPETITIONS = 1000
WORSE, BETTER = "0.15", "1"
"""The rules that the tables show: the default one, and none."""


@dataclass(frozen=True)
class Choices:
    """What one search chose at one budget by one rule: [regret, worse than the baseline, error] by world."""

    name: str
    by_world: Mapping[World, Array]

    @classmethod
    def of(cls, name: str, rows: Rows, rule: str) -> Choices:
        """The choices of `rows`, which are of one search and budget."""
        return cls(
            name,
            {
                (row["source"], row["seed"]): np.array([regret, float(gain < -MARGIN), error - row["luck"]])
                for row in rows
                if rule in row["picks"]
                for regret, gain, error in [row["picks"][rule]]
            },
        )

    def on(self, worlds: Sequence[World]) -> dict[str, Array]:
        """The values on `worlds` by source, shape (seeds, 3)."""
        out: dict[str, list[Array]] = defaultdict(list)
        for world in worlds:
            out[world[0]].append(self.by_world[world])
        return {source: np.array(values) for source, values in out.items()}


def interval(by_source: Mapping[str, Array], column: int = 0) -> tuple[float, float, float]:
    """Mean of a column over sources, and its interval."""
    values = [rows[:, column] for rows in by_source.values()]
    rng = np.random.default_rng(0)
    means = np.array([v[rng.integers(len(v), size=(REPETITIONS, len(v)))].mean(1) for v in values])
    # A source that is drawn twice has other seeds the second time.
    shape = (len(values), REPETITIONS)
    draws = means[rng.integers(len(values), size=shape), rng.integers(REPETITIONS, size=shape)].mean(0)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(np.mean([v.mean() for v in values])), float(low), float(high)


def without_noise(by_source: Mapping[str, Array], column: int = 2) -> str:
    """The root mean square over sources of their true means: what seeds add to its square is taken off.

    "-" where a source has one seed only.
    """
    values = [rows[:, column] for rows in by_source.values()]
    if min(map(len, values)) < 2:
        return "-"
    squares = [v.mean() ** 2 - v.var(ddof=1) / len(v) for v in values]
    return f"{np.sqrt(max(0.0, float(np.mean(squares)))):.3f}"


def groups(rows: Rows) -> dict[tuple[str, float], list[Choices]]:
    """The choices of every search and rule, by label of the run and budget."""
    cells: dict[tuple[str, float, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        cells[row.get("run", ""), row["budget"], row["search"]].append(row)
    out: dict[tuple[str, float], list[Choices]] = defaultdict(list)
    for (label, budget, search), group in sorted(cells.items()):
        rules = dict.fromkeys(rule for row in group for rule in row["picks"])
        shown = rules if search.startswith(RAGC) else [r for r in rules if r in (WORSE, BETTER)]
        for rule in shown:
            end = "" if rule == BETTER else f", risk {rule}"
            out[label, budget].append(Choices.of(f"{search}{end}", group, rule))
    return out


def over_budgets(rows: Rows) -> dict[str, list[Choices]]:
    """The means over all budgets of every search and rule on a world, by label of the run.

    Searches that lack a run which others with the label have are left out.
    """
    cells: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        cells[row.get("run", ""), row["search"]].append(row)
    most = {label: max(len(group) for (own, _), group in cells.items() if own == label) for label, _ in cells}
    out: dict[str, list[Choices]] = defaultdict(list)
    for (label, search), group in sorted(cells.items()):
        if len(group) < most[label] or search == EXHAUSTIVE:
            continue
        budgets = [[row for row in group if row["budget"] == b] for b in {row["budget"] for row in group}]
        for rule in dict.fromkeys(rule for row in group for rule in row["picks"]):
            each = [Choices.of(search, listed, rule).by_world for listed in budgets]
            means = {world: np.mean([one[world] for one in each], 0) for world in each[0]}
            out[label].append(Choices(f"{search}, risk {rule}", means))
    return out


def read_summaries(texts: Sequence[str], budgets: Collection[str] = ()) -> list[Choices]:
    """The means over `budgets`, all without any, by source of every search and rule in the CSV `texts` of
    `summary`.

    A source counts as one world. Of several runs of a search at one budget the last counts. Searches that
    lack a budget or a source which ragc has are left out.
    """
    cells: dict[tuple[str, str], dict[tuple[str, str], Array]] = defaultdict(dict)
    for row in (row for text in texts for row in csv.DictReader(StringIO(text))):
        numbers = np.array([float(row[name]) for name in ("regret", "worse", "error")])
        if not budgets or row["budget"] in budgets:
            cells[row["search"], row["risk"]][row["source"], row["budget"]] = numbers
    needed = cells[RAGC, WORSE].keys()
    return [
        Choices(
            f"{search}, risk {rule}",
            {
                (source, 0): np.mean([cell for (own, _), cell in held.items() if own == source], 0)
                for source, _ in held
            },
        )
        for (search, rule), held in sorted(cells.items())
        if held.keys() >= needed and search != EXHAUSTIVE
    ]


def at_no_more_risk(choices: Sequence[Choices]) -> list[str]:
    """The lead of ragc, by its default rule, over each peer by the same rule, and by the best of those with
    which the peer ends below the baseline no more often than ragc does.
    """
    lines = ["| ragc less | its risk | regret | worse by more than .01 |", "| --- | --- | --- | --- |"]
    by_name = {chosen.name: chosen.on(list(chosen.by_world)) for chosen in choices}
    means = {name: np.mean([v.mean(0) for v in held.values()], 0) for name, held in by_name.items()}
    mine = f"{RAGC}, risk {WORSE}"
    if mine not in by_name:
        return []
    for search in dict.fromkeys(name.partition(",")[0] for name in by_name if not name.startswith(RAGC)):
        rules = [name for name in by_name if name.partition(",")[0] == search]
        as_safe = [name for name in rules if means[name][1] <= means[mine][1]]
        best = min(as_safe, key=lambda name: means[name][0], default=None)
        for name in dict.fromkeys(filter(None, (best, f"{search}, risk {WORSE}"))):
            if name in by_name:
                gaps = {source: by_name[mine][source] - by_name[name][source] for source in by_name[mine]}
                cells = f"{_cell(interval(gaps))} | {_cell(interval(gaps, 1), percent=True)}"
                lines.append(f"| {mine} - {name} | {means[name][1]:.1%} | {cells} |")
    return lines if len(lines) > 2 else []


def frontier(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """The names of the points, (risk, regret), that no other is at or below in both, by risk."""
    best: list[str] = []
    for name in sorted(points, key=lambda n: points[n]):
        if not best or points[name][1] < points[best[-1]][1]:
            best.append(name)
    return best


def report(rows: Rows) -> str:
    """The tables of `rows`, as Markdown: of each final run its own."""
    lines: list[str] = []
    for (label, budget), choices in groups(rows).items():
        lines += _section(label, budget, choices)
    for label, choices in over_budgets(rows).items():
        if table := at_no_more_risk(choices):
            title = f"closed, run {label}" if label else "open"
            lines += [
                f"## All budgets, {title}: peers that end below the baseline no more often",
                "",
                *table,
                "",
            ]
    return "\n".join(lines)


def _section(label: str, budget: float, choices: Sequence[Choices]) -> list[str]:
    title = f"closed, run {label}" if label else "open"
    sources = {world[0] for c in choices for world in c.by_world}
    lines = [f"## {budget:.0%} of the answers, {title}: {len(sources)} kinds and tables", ""]
    head = "| search | runs | regret | worse by more than .01 | error, root mean square | without noise |"
    lines += [f"{head} frontier |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- |"]
    points, cells = dict[str, tuple[float, float]](), dict[str, list[str]]()
    for chosen in choices:
        by_source = chosen.on(list(chosen.by_world))
        values, worse = interval(by_source), interval(by_source, 1)
        error = float(np.sqrt(np.mean([rows[:, 2].mean() ** 2 for rows in by_source.values()])))
        part = f" on {len(by_source)}" if len(by_source) < len(sources) else ""
        if not part and not chosen.name.startswith("exhaustive"):
            points[chosen.name] = (worse[0], values[0])
        cells[chosen.name] = [
            f"{len(chosen.by_world)}{part}", _cell(values), _cell(worse, percent=True), f"{error:.3f}",
            without_noise(by_source),
        ]  # fmt: skip
    best = frontier(points)
    for name in sorted(cells, key=lambda n: float(cells[n][1].split()[0])):
        lines.append(f"| {name} | {' | '.join(cells[name])} | {'x' if name in best else ''} |")
    return [*lines, "", *_differences(choices), ""]


def _cell(values: tuple[float, float, float], *, percent: bool = False) -> str:
    if percent:
        return f"{values[0]:.1%} [{values[1]:.1%}, {values[2]:.1%}]"
    return f"{values[0]:.3f} [{values[1]:.3f}, {values[2]:.3f}]"


def _differences(choices: Sequence[Choices]) -> list[str]:
    """The lead of ragc over each peer, on the worlds that both searched, by the same rule."""
    lines = ["| ragc less | worlds | regret | worse by more than .01 |", "| --- | --- | --- | --- |"]
    by_name = {chosen.name: chosen for chosen in choices}
    ours = [name for name in by_name if name.startswith(RAGC)]
    for mine in ours:
        end = mine.partition(",")[1] + mine.partition(",")[2]
        for name, other in by_name.items():
            same_rule = name.partition(",")[1] + name.partition(",")[2] == end
            if name == mine or not same_rule or name.startswith("exhaustive"):
                continue
            worlds = [w for w in by_name[mine].by_world if w in other.by_world]
            if not worlds:
                continue
            first, second = by_name[mine].on(worlds), other.on(worlds)
            gaps = {source: first[source] - second[source] for source in first}
            cells = f"{_cell(interval(gaps))} | {_cell(interval(gaps, 1), percent=True)}"
            lines.append(f"| {mine} - {name} | {len(worlds)} | {cells} |")
    return lines if len(lines) > 2 else []


def summary(rows: Rows) -> str:
    """Means by run, source, budget, search and rule, as CSV."""
    cells: dict[tuple[Any, ...], list[Array]] = defaultdict(list)
    for row in rows:
        for rule, (regret, gain, error) in row["picks"].items():
            key = (row.get("run", ""), row["source"], row["budget"], row["search"], rule)
            cells[key].append(np.array([regret, gain < -MARGIN, error - row["luck"], row["seconds"]]))
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            "run",
            "source",
            "budget",
            "search",
            "risk",
            "runs",
            "regret",
            "deviation",
            "worse",
            "error",
            "seconds",
        ]
    )
    for key, values in sorted(cells.items()):
        table: NDArray[np.float64] = np.array(values)
        means, deviation = table.mean(0), float(table[:, 0].std())
        numbers = [means[0], deviation, *means[1:]]
        writer.writerow([*key, len(table), *(f"{number:.4g}" for number in numbers)])
    return out.getvalue()
