"""Curves as SVG: a panel for each data set and metric, our means with intervals, and the paper's figures.

The file holds no script and no address, so that it may be opened anywhere. Its texts are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from ragc.optimizers.grids.tables.result import Reproduction
from ragc.optimizers.grids.tables.table import TableRow

HEAD = "<!-- Written by ragc reproduce. -->"
COLUMNS = 3
WIDTH, HEIGHT = 320, 250
"""Pixels of a panel."""
LEFT, TOP, RIGHT, BOTTOM = 46, 34, 14, 46
"""Margins of a panel in pixels."""
INSET, APART = 12, 5
"""Pixels between the ends of the axis and its first and last points, and between the points of two series."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")
"""Okabe and Ito's, which readers with any colour vision can tell apart."""
_STYLE = "text{font:12px sans-serif;fill:#222}.t{font-weight:bold}.s{fill:#666}.g{stroke:#ddd}.p{fill:none}"


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a curve in the unit of the paper; `low` and `high` are the ends of our interval."""

    x: float
    y: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Panel:
    """The curves of one metric on one data set: ours and the paper's, by series."""

    title: str
    ours: dict[str, list[Point]]
    paper: dict[str, list[Point]]


def draw(result: Reproduction) -> str:
    """The curves of `result` as the text of an SVG file."""
    places = [row.at for row in result.table.rows if row.at is not None]
    words = [] if all(isinstance(at, int | float) for at in places) else list(dict.fromkeys(map(str, places)))
    panels = list(_panels(result, words))
    series = list(dict.fromkeys(name for panel in panels for name in (*panel.ours, *panel.paper)))
    columns = min(COLUMNS, len(panels)) or 1
    lines = -(-len(panels) // columns)
    width, height = columns * WIDTH, 52 + lines * HEIGHT + 18 * (len(series) + 1)
    xs = [float(at) for at in places if isinstance(at, int | float)] if not words else []
    axis = _Axis(words, min(xs, default=0.0), max(xs, default=1.0), sorted(set(xs)))
    body = [
        f'<text class="t" x="12" y="22">{escape(result.table.id)}: {escape(result.table.about)}</text>',
        f'<text class="s" x="12" y="40">{escape(_subtitle(result))}</text>',
    ]
    for number, panel in enumerate(panels):
        x, y = number % columns * WIDTH, 48 + number // columns * HEIGHT
        body.append(f'<g transform="translate({x},{y})">')
        body += _panel(panel, axis, series, result.table.axis)
        body.append("</g>")
    body += _legend(series, 48 + lines * HEIGHT)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(result.table.about, quote=True)}">'
    )
    return "\n".join(
        [
            head,
            HEAD,
            f"<style>{_STYLE}</style>",
            '<rect width="100%" height="100%" fill="#fff"/>',
            *body,
            "</svg>\n",
        ]
    )


def _subtitle(result: Reproduction) -> str:
    model = result.targets.get("main", "")
    return f"{model}, 95% intervals; hollow and dashed: {result.beside} in {result.table.paper}"


def _panels(result: Reproduction, words: Sequence[str]) -> Iterator[Panel]:
    for data, metric in result.table.columns:
        cells = [cell for cell in result.cells if cell.data == data]
        panel = Panel(f"{data}, {metric}", {}, {})
        for cell in cells:
            row = result.table.row(cell.row)
            figure = next(value for value in result.figures(cell) if value["metric"] == metric)
            if figure["ours"] is not None:
                point = Point(_at(row, words), figure["ours"], *figure["ci"])
                panel.ours.setdefault(row.series, []).append(point)
        for row in result.table.rows if cells else ():
            printed = result.table.expected(row, result.beside).get(data, {}).get(metric)
            if printed is not None:
                panel.paper.setdefault(row.series, []).append(
                    Point(_at(row, words), printed, printed, printed)
                )
        if panel.ours:
            yield panel


def _at(row: TableRow, words: Sequence[str]) -> float:
    return float(words.index(str(row.at))) if words else float(row.at or 0)


@dataclass(frozen=True, slots=True)
class _Axis:
    """The x-axis: `words` by their index, or numbers from `low` to `high` with the ticks `marks`."""

    words: Sequence[str]
    low: float
    high: float
    marks: Sequence[float]

    def x(self, value: float) -> float:
        low, high = (-0.5, len(self.words) - 0.5) if self.words else (self.low, self.high)
        share = (value - low) / (high - low) if high > low else 0.5
        return LEFT + INSET + share * (WIDTH - LEFT - RIGHT - 2 * INSET)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Where ticks are, and their texts."""
        if self.words:
            return [(self.x(at), word) for at, word in enumerate(self.words)]
        return [(self.x(mark), f"{mark:g}") for mark in self.marks]


def _panel(panel: Panel, axis: _Axis, series: Sequence[str], label: str) -> Iterator[str]:
    points = [point for curves in (panel.ours, panel.paper) for curve in curves.values() for point in curve]
    marks = _ticks(min(point.low for point in points), max(point.high for point in points))
    low, high = marks[0], marks[-1]

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    yield f'<text class="t" x="{LEFT}" y="{TOP - 10}">{escape(panel.title)}</text>'
    for value in marks:
        yield f'<line class="g" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        yield f'<text class="s" x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:g}</text>'
    turned = bool(axis.words) and max(map(len, axis.words)) > 8
    for x, text in axis.ticks:
        shown = text if len(text) <= 18 else f"{text[:17]}…"
        turn = f' transform="rotate(-20 {x:.1f} {HEIGHT - BOTTOM + 12})"' if turned else ""
        anchor = "end" if turned else "middle"
        yield (
            f'<text class="s" x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="{anchor}"{turn}>'
            f"{escape(shown)}</text>"
        )
    middle, below = (LEFT + WIDTH - RIGHT) / 2, HEIGHT + 2 if turned else HEIGHT - 10
    yield f'<text class="s" x="{middle}" y="{below}" text-anchor="middle">{escape(label)}</text>'
    for number, name in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        ours = sorted(panel.ours.get(name, []), key=lambda point: point.x)
        paper = sorted(panel.paper.get(name, []), key=lambda point: point.x)
        for start, end in pairwise(paper):
            yield _line(
                axis.x(start.x), y(start.y), axis.x(end.x), y(end.y), colour, ' stroke-dasharray="4 3"'
            )
        for point in paper:
            yield (
                f'<circle class="p" cx="{axis.x(point.x):.1f}" cy="{y(point.y):.1f}" r="4" '
                f'stroke="{colour}"><title>paper: {point.y:g}</title></circle>'
            )
        shift = (number - (len(series) - 1) / 2) * APART
        for start, end in pairwise(ours):
            yield _line(axis.x(start.x) + shift, y(start.y), axis.x(end.x) + shift, y(end.y), colour)
        for point in ours:
            x = axis.x(point.x) + shift
            yield _line(x, y(point.low), x, y(point.high), colour)
            yield (
                f'<circle cx="{x:.1f}" cy="{y(point.y):.1f}" r="3.5" fill="{colour}">'
                f"<title>{point.y:.1f} [{point.low:.1f}, {point.high:.1f}]</title></circle>"
            )


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers from below `low` to above `high`."""
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / 4))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= span / 4)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(n * step, 10) for n in range(first, max(last, first + 1) + 1)]


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="1.5"{more}/>'
    )


def _legend(series: Sequence[str], top: float) -> Iterator[str]:
    for number, name in enumerate(series):
        y = top + 18 * (number + 1)
        colour = COLOURS[number % len(COLOURS)]
        yield f'<circle cx="20" cy="{y - 4}" r="4" fill="{colour}"/>'
        yield f'<text x="32" y="{y}">{escape(name)}</text>'
