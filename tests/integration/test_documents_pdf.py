"""A page that Chromium prints as PDF, read by `ragc new`: tables that others drew."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import ragc
from tests.integration import browser

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not browser.is_there(), reason=browser.MISSING),
]

PAGE = """<!doctype html><meta charset=utf-8><title>Prices</title><style>
.ruled { border-collapse: collapse } .ruled td, .ruled th { border: 1px solid; padding: 4px }
.open { border-collapse: collapse; border-top: 2px solid; border-bottom: 2px solid }
.open td, .open th { padding: 3px 14px } .open thead { border-bottom: 1px solid }
pre { border: 1px solid }
</style><h1>Prices of the year</h1><p>A paragraph of the page that stands before its first table.</p>
<table class=ruled><tr><th rowspan=2>Item<th colspan=2>Price</tr><tr><th>Summer<th>Winter</tr>
<tr><td>Tea, green and black, with a description that is so long that it does not fit into a line of its cell
<td>3.50<td>4.00</tr><tr><td>Coffee | filter<td>2.80<td></tr></table><p>Between the tables.</p>
<table class=open><thead><tr><th>System<th>F1<th>EM</thead><tbody><tr><td>BM25<td>.41<td>.32</tr>
<tr><td>Dense<td>.44<td>.35</tr></tbody></table>
<pre>def f(x):
    return  x</pre><p>The last words.</p>"""


def test_tables_of_a_printed_page_keep_their_cells(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "page.html").write_text(PAGE, "utf-8")
    command = [
        browser.binary(), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-pdf-header-footer",
        f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={tmp_path / 'docs/page.pdf'}",
        str(tmp_path / "page.html"),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    project = ragc.new(tmp_path / "docs", out=tmp_path / "out", questions=False)
    (row,) = (project.folder / "corpus.jsonl").read_text("utf-8").splitlines()
    text = json.loads(row)["text"]
    first, second = (block.splitlines() for block in text.split("\n\n") if block.startswith("|"))
    assert first[0] == "| Item | Price |  |"
    assert first[2] == "|  | Summer | Winter |"
    assert first[3].endswith("that it does not fit into a line of its cell | 3.50 | 4.00 |")
    assert first[4] == r"| Coffee \| filter | 2.80 |  |"
    assert second == [
        "| System | F1 | EM |", "| --- | --- | --- |", "| BM25 | .41 | .32 |", "| Dense | .44 | .35 |",
    ]  # fmt: skip
    assert text.splitlines()[0] == "# Prices of the year"
