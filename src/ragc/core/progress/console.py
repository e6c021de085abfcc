"""Lines for a terminal: wrapped at blanks, drawn by rich with control characters escaped."""

from __future__ import annotations

import re
import sys
from typing import Any

from ragc.core.text import visible


def rich_console(**options: Any) -> Any:
    """Returns a rich console that escapes control characters and does not interpret markup."""
    from rich.console import Console
    from rich.text import Text

    stream = sys.stderr if options.pop("stderr", False) else sys.stdout
    # a live display unwraps only one level
    options.setdefault("file", getattr(stream, "rich_proxied_file", stream))

    class Plain(Console):
        """A console that prints texts literally."""

        def render_str(self, text: str, **more: Any) -> Text:
            """Returns `text` as rich's Text, with control characters escaped."""
            return super().render_str(visible(text), **more)

    return Plain(markup=False, emoji=False, **options)


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
