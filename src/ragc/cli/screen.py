"""Output for people: terminal control characters escaped, lines wrapped, tables without wrapped cells.

Replies, passages, questions, file names and recipes are untrusted text. While a command runs, the standard
streams are `EscapedStream`, so that no caller has to escape. The bar of `ragc.core.progress` bypasses them
and escapes its texts itself.

On a terminal its width is used (or `COLUMNS`); elsewhere lines are not wrapped, for other programs to read.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TextIO, TypeVar

from ragc.core.text import visible

P = ParamSpec("P")
T = TypeVar("T")

DEFAULT_WIDTH = 120
"""The width of a table without a terminal and without `COLUMNS`."""

LEAST = 40
"""The narrowest supported terminal."""

_GAP = "  "


class EscapedStream:
    """Wraps the text stream `stream`: escapes control characters, and what the encoding cannot represent."""

    def __init__(self, stream: Any) -> None:
        self.plain_stream = stream

    def write(self, text: str) -> int:
        """Writes `text`; characters that the stream's encoding lacks are escaped too."""
        stream = self.plain_stream
        shown = visible(text)
        try:
            shown.encode(stream.encoding or "utf-8")
        except UnicodeEncodeError:
            shown = "".join(char if char.isascii() else json.dumps(char)[1:-1] for char in shown)
        stream.write(shown)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes each of `lines`."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain_stream, name)


def escape_output(command: Callable[P, T]) -> Callable[P, T]:
    """Wraps standard output and standard error in `EscapedStream` while `command` runs."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = (stream and EscapedStream(stream) for stream in streams)
        try:
            return command(*args, **kwargs)
        finally:
            sys.stdout, sys.stderr = streams

    return run


_results: list[TextIO] = []


@contextmanager
def results_alone() -> Iterator[None]:
    """Leads what a user's own code prints to standard error, so that standard output holds results alone."""
    _results.append(sys.stdout)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        sys.stdout = _results.pop()


def results() -> TextIO:
    """Returns the stream of results: standard output, whatever `sys.stdout` is at the moment."""
    return _results[-1] if _results else sys.stdout


def width(stream: TextIO | None = None) -> int:
    """Returns the columns of the terminal `stream`, standard output by default; DEFAULT_WIDTH for none."""
    return max(LEAST, shutil.get_terminal_size((80 if is_terminal(stream) else DEFAULT_WIDTH, 24)).columns)


def is_terminal(stream: TextIO | None = None) -> bool:
    """Returns whether `stream`, standard output by default, is a terminal."""
    return (stream or sys.stdout).isatty()


def show(lines: Iterable[str], stream: TextIO | None = None, *, hang: int = 4) -> None:
    """Writes `lines`, wrapped if `stream` is a terminal; continuation lines are indented by `hang` more."""
    out = stream or sys.stdout
    if is_terminal(out):
        columns = width(out)
        lines = (part for line in lines for part in wrap(line, columns, hang=hang))
    out.writelines(f"{line}\n" for line in lines)


def wrap(line: str, columns: int, *, hang: int = 4) -> list[str]:
    """Returns `line` in lines of at most `columns` columns, broken at blanks.

    Continuation lines are indented like the first, plus `hang`. A word longer than a line is not broken, so
    that a path can be copied, unless it has wide characters, which count as separate words.
    """
    from rich.cells import cell_len

    if cell_len(line) <= columns:
        return [line]
    body = line.lstrip(" ")
    indent = " " * min(len(line) - len(body) + hang, columns // 2)
    lines, now = [], line[: len(line) - len(body)]
    for blanks, word in re.findall(r"([ \t]*)([^ \t]+)", body):
        for number, piece in enumerate(_pieces(word, columns - cell_len(indent))):
            joint = "" if number else blanks
            if now.strip() and cell_len(now + joint + piece) > columns:
                lines.append(now.rstrip())
                now, joint = indent, ""
            now += joint + piece
    return [*lines, now]


def _pieces(word: str, columns: int) -> list[str]:
    from rich.cells import cell_len, chop_cells

    wide = cell_len(word) > len(word)
    return chop_cells(word, max(2, columns)) if wide and cell_len(word) > columns else [word]


def grid(rows: Sequence[Sequence[str]], columns: int) -> Iterator[str]:
    """Yields the lines of a table in `columns` columns: the header, then one line per row.

    Columns that do not fit follow in a further table, which repeats the first column. The cells of a column
    that is wider than a line are cut, ending in `…`.
    """
    sizes = [_size(row[column] for row in rows) for column in range(len(rows[0]))]
    first = min(sizes[0], columns // 2)
    groups = _groups(sizes, columns - first, len(sizes))
    groups = _groups(sizes, columns - first, -(-(len(sizes) - 1) // len(groups)))
    for number, group in enumerate(groups):
        if number:
            yield ""
        limits = [first, *(min(sizes[column], columns - first - len(_GAP)) for column in group)]
        for at, row in enumerate(rows):
            cells = (_cell(row[column], size) for column, size in zip((0, *group), limits, strict=True))
            yield _GAP.join(cells).rstrip()
            if at == 0:
                yield _GAP.join("-" * size for size in limits)


def _groups(sizes: Sequence[int], columns: int, most: int) -> list[list[int]]:
    """Returns the columns after the first in groups that fit `columns`, at most `most` per group."""
    groups: list[list[int]] = [[]]
    for column in range(1, len(sizes)):
        taken = sum(len(_GAP) + sizes[other] for other in (*groups[-1], column))
        if groups[-1] and (taken > columns or len(groups[-1]) == most):
            groups.append([])
        groups[-1].append(column)
    return groups


def records(rows: Sequence[Sequence[str]], columns: int) -> Iterator[str]:
    """Yields rows of long texts, the header first: each row as its first cell, then a line for each other
    one.
    """
    names = rows[0][1:]
    size = _size(names)
    for row in rows[1:]:
        yield row[0]
        for name, text in zip(names, row[1:], strict=True):
            yield from wrap(f"  {_cell(name, min(size, columns // 3))}  {text}", columns, hang=size + 2)


def _size(texts: Iterable[str]) -> int:
    from rich.cells import cell_len

    return max(map(cell_len, texts), default=0)


def _cell(text: str, size: int) -> str:
    """Returns `text` padded or cut to exactly `size` columns."""
    from rich.cells import cell_len, set_cell_size

    return (
        text + " " * (size - cell_len(text))
        if cell_len(text) <= size
        else set_cell_size(text, size - 1) + "…"
    )
