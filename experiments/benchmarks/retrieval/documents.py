"""Measures the PDF reader of `ragc new` against the HTML of the same text.

    python -m experiments.benchmarks.retrieval.documents manual.pdf=manual.html other.pdf=folder_of_html ...

Prints for each pair: pages, seconds a page and its ratio to pypdfium2's own text, recall and precision of the
headings, with the outline and without it, recall and precision of the cells of tables, and the words in
order: the longest common subsequence of words, twice its length by the words of both, and the same for
pypdfium2's own text. rapidfuzz is needed.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragc.corpora.documents import html, pdf
from ragc.corpora.documents.base import Document

MOST_WORDS = 40_000
"""Words of each text that are compared in order."""


def words(text: str) -> list[str]:
    """Returns the words of `text`, without marks."""
    return re.findall(r"\w+", text.casefold())


def headings(text: str) -> Counter[str]:
    """Returns how often each heading of a Markdown text occurs, without its number; code has none."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^#{1,6} (.+)$", prose, re.MULTILINE)
    return Counter(name for line in lines if (name := pdf.outline_words(line.replace("¶", ""))))


def cells(text: str) -> Counter[str]:
    """Returns how often each cell of the tables of a Markdown text occurs; rules and empty cells are none."""
    rows = re.findall(r"^\|(.+)\|$", text, re.MULTILINE)
    split = [cell for row in rows for cell in re.split(r"(?<!\\)\|", row)]
    plain = (" ".join(re.findall(r"\w+", cell.casefold())) for cell in split)
    return Counter(filter(None, plain))


def truth(path: Path) -> str:
    """Returns the Markdown of an HTML file, or of all HTML files of a folder."""
    files = sorted(path.glob("*.html")) if path.is_dir() else [path]
    return "\n\n".join(page.text for file in files for page in html.read(file).pages)


def in_order(one: Sequence[str], other: Sequence[str]) -> float:
    """Returns the share of words that both have in the same order."""
    from rapidfuzz.distance import LCSseq

    one, other = one[:MOST_WORDS], other[:MOST_WORDS]
    return 2 * LCSseq.similarity(one, other) / (len(one) + len(other))


def plain_text(path: Path) -> str:
    """Returns pypdfium2's own text."""
    import pypdfium2 as pdfium

    document: Any = pdfium.PdfDocument(path)
    return "\n".join(document[at].get_textpage().get_text_range() for at in range(len(document)))


def matched(read: Document, true_headings: Counter[str]) -> tuple[float, float]:
    """Returns recall and precision of the headings."""
    return shares(headings("\n\n".join(page.text for page in read.pages)), true_headings)


def shares(own: Counter[str], true: Counter[str]) -> tuple[float, float]:
    """Returns recall and precision of what was read."""
    both = (own & true).total()
    return both / max(1, true.total()), both / max(1, own.total())


def main() -> None:
    """Measures the pairs that the command line names."""
    for pair in sys.argv[1:]:
        name, _, other = pair.partition("=")
        path, true_text = Path(name), truth(Path(other))
        started = time.perf_counter()
        own = plain_text(path)
        between = time.perf_counter()
        read = pdf.read(path)
        seconds = time.perf_counter() - between
        without = pdf.read(path, outlined=False)
        text = "\n".join(page.text for page in read.pages)
        of_cells = shares(cells(text), true_cells := cells(true_text))
        with_outline, alone = matched(read, headings(true_text)), matched(without, headings(true_text))
        sys.stdout.write(
            f"{path.name}: {len(read.pages)} pages, {seconds / len(read.pages):.4f} s a page "
            f"({seconds / (between - started):.1f} times pypdfium2), headings with outline "
            f"{with_outline[0]:.2f}/{with_outline[1]:.2f}, without {alone[0]:.2f}/{alone[1]:.2f}, "
            f"cells {of_cells[0]:.2f}/{of_cells[1]:.2f} of {true_cells.total()}, "
            f"words in order {in_order(words(text), words(true_text)):.3f}, "
            f"pypdfium2 {in_order(words(own), words(true_text)):.3f}\n"
        )


if __name__ == "__main__":
    main()
