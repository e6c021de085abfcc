"""Measures `ragc new` on a large folder: memory, time, files lost, and what a kill costs.

    python -m experiments.benchmarks.retrieval.many_documents FOLDER [--files 5000] [--megabytes 200]

Fills FOLDER/docs with files of seven kinds, whose text is Python's own reference. Then it runs `ragc new`
three times: once whole, once killed (SIGKILL) half-way, and once more to the end. Prints the peak of resident
memory (the command and the processes that read for it), seconds, files that were not read, how many files
the last run read again, and whether both corpora are the same bytes.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ragc.core.digest import file_digest


def reference() -> list[str]:
    """Returns the paragraphs of Python's reference, from the interpreter."""
    from pydoc_data.topics import topics

    texts: dict[str, str] = topics
    return [part.strip() for text in texts.values() for part in text.split("\n\n") if part.strip()]


def sections(paragraphs: Sequence[str], size: int, draw: random.Random) -> list[tuple[str, list[str]]]:
    """Returns headings with paragraphs, about `size` characters in all."""
    parts, length = list[tuple[str, list[str]]](), 0
    while length < size:
        texts = [draw.choice(paragraphs) for _ in range(8)]
        parts.append((f"Part {len(parts) + 1}", texts))
        length += sum(map(len, texts))
    return parts


def write_text(path: Path, parts: Sequence[tuple[str, list[str]]]) -> None:
    """Writes Markdown or plain text."""
    path.write_text("\n\n".join(chain.from_iterable([f"# {name}", *texts] for name, texts in parts)), "utf-8")


def write_html(path: Path, parts: Sequence[tuple[str, list[str]]]) -> None:
    """Writes an HTML page."""
    from html import escape

    body = "".join(
        f"<h1>{name}</h1>" + "".join(f"<p>{escape(text)}</p>" for text in texts) for name, texts in parts
    )
    path.write_text(f"<!doctype html><title>{path.stem}</title><body>{body}", "utf-8")


def write_csv(path: Path, parts: Sequence[tuple[str, list[str]]]) -> None:
    """Writes a table of two columns."""
    import csv

    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["part", "text"])
        rows.writerows((name, text) for name, texts in parts for text in texts)


def write_docx(path: Path, parts: Sequence[tuple[str, list[str]]]) -> None:
    """Writes a Word document."""
    import docx

    document = docx.Document()
    for name, texts in parts:
        document.add_heading(name, 1)
        for text in texts:
            document.add_paragraph(text)
    document.save(str(path))


def write_pptx(path: Path, parts: Sequence[tuple[str, list[str]]]) -> None:
    """Writes slides."""
    import pptx

    deck = pptx.Presentation()
    for name, texts in parts:
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = name
        slide.placeholders[1].text = "\n".join(texts)
    deck.save(str(path))


def write_pdf(path: Path, parts: Sequence[tuple[str, list[str]]]) -> None:
    """Writes a PDF file, a page for each 50 lines."""
    import ctypes

    import pypdfium2 as pdfium
    import pypdfium2.raw as raw

    document: Any = pdfium.PdfDocument.new()
    lines = [line for name, texts in parts for line in (name, *chain(*(t.splitlines() for t in texts)))]
    for at in range(0, len(lines), 50):
        page = document.new_page(595, 842)
        for row, line in enumerate(lines[at : at + 50]):
            text = raw.FPDFPageObj_NewTextObj(document, b"Helvetica", 10.0)
            words = ctypes.create_string_buffer((line[:100] + "\0").encode("utf-16-le"))
            raw.FPDFText_SetText(text, ctypes.cast(words, raw.FPDF_WIDESTRING))
            raw.FPDFPageObj_Transform(text, 1, 0, 0, 1, 50, 790 - 15 * row)
            raw.FPDFPage_InsertObject(page, text)
        page.gen_content()
        page.close()
    document.save(str(path))
    document.close()


WRITERS: tuple[tuple[str, int, Callable[[Path, Sequence[tuple[str, list[str]]]], None]], ...] = (
    (".md", 25, write_text),
    (".html", 25, write_html),
    (".txt", 20, write_text),
    (".csv", 10, write_csv),
    (".pdf", 8, write_pdf),
    (".docx", 10, write_docx),
    (".pptx", 2, write_pptx),
)
"""A suffix, its share of the files in percent, and what writes it."""


def fill(folder: Path, files: int, size: int) -> int:
    """Writes `files` files of about `size` characters below `folder`; returns their bytes."""
    draw, paragraphs, total = random.Random(7), reference(), 0
    kinds = [(suffix, write) for suffix, share, write in WRITERS for _ in range(share)]
    for number in range(files):
        suffix, write = kinds[number % len(kinds)]
        path = folder / f"{number % 37:02d}/{number % 11:02d}/file {number:05d}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, sections(paragraphs, size, draw))
        total += path.stat().st_size
    return total


def resident(pid: int) -> int:
    """Returns the resident bytes of the process `pid` and of those that it started; Linux only."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        started = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    return pages * resource.getpagesize() + sum(resident(int(child)) for child in started)


def run(folder: Path, out: Path, stop_at: int = 0) -> tuple[dict[str, Any], float, int]:
    """Runs `ragc new`; returns what it printed, its seconds and its peak of resident bytes.

    With `stop_at` it is killed once that many files were read, and prints nothing.
    """
    command = [
        sys.executable,
        "-m",
        "ragc",
        "new",
        str(folder),
        "--out",
        str(out),
        "--no-questions",
        "--json",
    ]
    started, peak = time.perf_counter(), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            if stop_at and sum(1 for _ in out.rglob("parts/*.json")) >= stop_at:
                process.kill()
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        text = process.stdout.read() if process.stdout else ""
    return (json.loads(text) if text and not stop_at else {}), time.perf_counter() - started, peak


def main() -> None:
    """Makes the files, measures the three runs and prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--megabytes", type=int, default=200)
    args = parser.parse_args()
    docs, whole, killed = args.folder / "docs", args.folder / "whole", args.folder / "killed"
    for old in (docs, whole, killed):
        shutil.rmtree(old, ignore_errors=True)
    size = fill(docs, args.files, args.megabytes * 1_000_000 // args.files)
    print(f"{args.files} files, {size / 1e6:.0f} MB")
    first, seconds, peak = run(docs, whole)
    counts = f"{first['files']} read, {len(first['problems'])} not"
    print(f"whole: {seconds:.0f} s, peak {peak / 1e6:.0f} MB, {counts}")
    _, seconds, peak = run(docs, killed, stop_at=args.files // 2)
    before = sum(1 for _ in killed.rglob("parts/*.json"))
    print(f"killed after {seconds:.0f} s with {before} files read, peak {peak / 1e6:.0f} MB")
    second, seconds, peak = run(docs, killed)
    same = file_digest(whole / "corpus.jsonl") == file_digest(killed / "corpus.jsonl")
    counts = f"{second['files']} in all, {second['reread']} read in this run"
    print(
        f"then: {seconds:.0f} s, peak {peak / 1e6:.0f} MB, {counts}, "
        f"{before + second['reread'] - args.files} twice; same corpus: {same}"
    )


if __name__ == "__main__":
    main()
