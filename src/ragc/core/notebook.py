"""Small HTML tables for notebooks, which display the `_repr_html_` of an object.

Every text is escaped and cut short, secrets are masked. Colours and fonts are the notebook's, so that a table
fits light and dark themes; there is no script, no class and nothing to fetch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from ragc.core.redact import shorten

MAX_CELL_CHARS = 160
"""Maximum length of a cell in characters."""

LONGEST = 600
"""Maximum length of a headline or note in characters."""

MOST = 50
"""Maximum number of rows shown; the rest is counted."""

_CELL = "padding:.15em .7em .15em 0;vertical-align:top;border:0;background:none;"
_RULE = "border-bottom:1px solid;"


def table(
    headline: str, head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()
) -> str:
    """Returns `headline` in bold, a table with the columns `head`, and `notes` below it, one a line.

    The first column is aligned to the left and names its row, the others to the right if they hold numbers.
    A table without rows is left out, and so are empty notes.
    """
    listed = [tuple(row) for row in rows]
    parts = [f"<strong>{_text(headline, LONGEST)}</strong>"]
    if listed:
        right = [_is_number(cell for row in listed for cell in row[n : n + 1]) for n in range(len(head))]
        cells = "".join(_cell("th", name, right[n], _RULE, "col") for n, name in enumerate(head))
        body = "".join(
            "<tr>"
            + "".join(
                _cell("td" if n else "th", cell, right[n], "", "" if n else "row")
                for n, cell in enumerate(row)
            )
            + "</tr>"
            for row in listed[:MOST]
        )
        parts.append(
            '<table style="border-collapse:collapse;margin:.4em 0;background:none;">'
            f"<thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
        )
        if len(listed) > MOST:
            parts.append(f"<div>and {len(listed) - MOST:,} more</div>")
    parts += [f"<div>{_text(note, LONGEST)}</div>" for note in notes if note]
    return f'<div style="overflow-x:auto;">{"".join(parts)}</div>'


def _cell(tag: str, text: str, right: bool, style: str, scope: str) -> str:
    side = "right" if right else "left"
    weight = "font-weight:normal;" if scope == "row" else ""
    named = f' scope="{scope}"' if scope else ""
    shown = _text(text, MAX_CELL_CHARS)
    return f'<{tag}{named} style="{_CELL}{style}{weight}text-align:{side};">{shown}</{tag}>'


def _text(text: str, most: int) -> str:
    whole = " ".join(str(text).split())
    short = shorten(whole, most)
    return escape(f"{short}." if whole.endswith(".") and not short.endswith("…") else short)


def _is_number(cells: Iterable[str]) -> bool:
    """Returns whether every cell is a number, a share or an interval; "" and - count as one."""
    return all(not cell or cell[:1] in "0123456789+-.[$" for cell in cells)
