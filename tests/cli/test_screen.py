"""What is shown fits: no line is longer than the terminal, no word and no interval is broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ragc.cli.screen import grid, wrap

INTERVAL = "0.123 [-0.456, +0.789]"


@given(text=st.text(st.sampled_from("日本語のテキスト、"), min_size=1, max_size=300))
def test_a_text_without_blanks_in_wide_characters_fits_too(text: str) -> None:
    lines = wrap(text, 80)
    assert all(cell_len(line) <= 80 for line in lines)
    assert "".join(line.strip() for line in lines) == text


@pytest.mark.parametrize("width", [60, 80, 120])
@given(rows=st.integers(1, 6), columns=st.integers(2, 8))
def test_a_table_fits_and_every_cell_is_on_one_line(width: int, rows: int, columns: int) -> None:
    head = tuple(f"column {column}" for column in range(columns))
    body = [tuple(f"{INTERVAL[:-1]}{row}{column}]" for column in range(columns)) for row in range(rows)]
    body = [(f"metric{row}", *cells[1:]) for row, cells in enumerate(body)]
    lines = list(grid([head, *body], width))
    assert all(cell_len(line) <= width for line in lines)
    text = "\n".join(lines)
    assert all(cell in text for cells in body for cell in cells)
