"""Documents as strangers have them, made here by the libraries that write them."""

from __future__ import annotations

import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ragc.corpora.documents.base import Document, UnreadableDocument
from ragc.corpora.documents.reading import DocumentReader, read_content
from ragc.errors import UsageError
from tests.corpora.documents.draw import write_pdf
from tests.examples import thorough
from tests.paths import ROOT

pytest.importorskip("docx", reason="the extra documents is not installed")
pytest.importorskip("pptx", reason="the extra documents is not installed")
pytest.importorskip("pypdfium2", reason="the extra documents is not installed")

from ragc.corpora.documents.base import kind_of

ENCRYPTED = ROOT / "tests/corpora/documents/encrypted.pdf"


@pytest.fixture(scope="module")
def reader() -> Iterator[DocumentReader]:
    with DocumentReader(seconds=60) as reader:
        yield reader


Read = Callable[[Path], Document]


@pytest.fixture
def read(reader: DocumentReader) -> Read:
    def read(path: Path) -> Document:
        return reader.read(path, kind_of(path), read_content(path))

    return read


WORDS = ("amber", "birch", "cedar", "dune", "elm", "fjord", "grove", "heath")


def manual(path: Path, *, pages: int = 4) -> Path:
    """Writes a manual: a chapter a page, with a head and a foot."""
    return write_pdf(
        path,
        [
            [
                (9.0, 810.0, "The Manual of Everything"),
                (18.0, 750.0, f"{n} Chapter {WORDS[n]} begins"),
                *((10.0, 700.0 - 13 * m, f"The {w} of page {n} says {w * n}.") for m, w in enumerate(WORDS)),
                (9.0, 30.0, f"Page {n} of {pages}"),
            ]
            for n in range(1, pages + 1)
        ],
    )


def test_pdf_pages_have_headings_and_no_heads_or_page_numbers(tmp_path: Path, read: Read) -> None:
    document = read(manual(tmp_path / "manual.pdf"))
    assert [page.label for page in document.pages] == ["page 1", "page 2", "page 3", "page 4"]
    first, second = document.pages[:2]
    assert first.text.startswith("# 1 Chapter birch begins\n\nThe amber of page 1 says amber. The birch")
    assert "Manual of Everything" not in first.text
    assert "Page 1" not in first.text
    assert second.section == ("1 Chapter birch begins",)
    assert document.title == ""  # nobody gave one


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_tables_of_text_in_usual_encodings(tmp_path: Path, read: Read, encoding: str) -> None:
    (tmp_path / "t.csv").write_bytes("Name;Stadt\nJörg;Köln\nZoë;Zürich\n".encode(encoding))
    (page,) = read(tmp_path / "t.csv").pages
    assert page.text == "| Name | Stadt |\n| --- | --- |\n| Jörg | Köln |\n| Zoë | Zürich |"


def reason(read: Read, path: Path) -> str:
    try:
        return read(path).reason
    except UnreadableDocument as error:
        return str(error)


def test_each_bad_file_has_its_reason(tmp_path: Path, read: Read) -> None:
    whole = manual(tmp_path / "manual.pdf").read_bytes()
    (tmp_path / "cut.pdf").write_bytes(whole[: len(whole) // 3])
    shutil.copy(ENCRYPTED, tmp_path / "locked.pdf")
    write_pdf(tmp_path / "scan.pdf", [[], []])
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "blank.md").write_text(" \n\n", "utf-8")
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "old.docx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    (tmp_path / "cut.pptx").write_bytes(b"PK\x03\x04 and no more")
    with zipfile.ZipFile(tmp_path / "other.docx", "w") as package:
        package.writestr("hello.txt", "no document")
    (tmp_path / "cut.xlsx").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "locked.xlsx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    (tmp_path / "no.html").write_bytes(b"<p>\x00\x01</p>")
    (tmp_path / "deep.html").write_text("<div>" * 3000 + "lost")
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(1_000_000_000)
    reasons = {path.name: reason(read, path) for path in tmp_path.iterdir() if path.name != "manual.pdf"}
    encrypted = "is encrypted, or of a format from before 2007"
    begins = {
        "cut.pdf": "is truncated or damaged (", "locked.pdf": "is encrypted", "empty.txt": "is empty",
        "scan.pdf": "has no text on its 2 pages; they may be scans", "blank.md": "is empty",
        "binary.txt": "is no text", "no.html": "is no text", "old.docx": encrypted, "locked.xlsx": encrypted,
        "cut.pptx": "cannot be read (PackageNotFoundError: Package not found at 'cut.pptx')",
        "cut.xlsx": "cannot be read (ZipError: ", "other.docx": "cannot be read (KeyError: ",
        "huge.txt": "has 1,000 MB, and 100 MB are read at most", "deep.html": "has too many elements within",
    }  # fmt: skip
    assert {name: text for name, text in reasons.items() if not text.startswith(begins[name])} == {}


OWN = """
import os, time

def read(path):
    text = path.read_text()
    if text == "hang":
        time.sleep(60)
    if text == "die":
        os._exit(9)
    if text == "eat":
        return "x" * 4_000_000_000
    if text == "print":
        print("{}")
    return text.upper()
"""


@thorough
def test_a_reader_of_ones_own_costs_no_more_than_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_readers.py").write_text(OWN, "utf-8")
    monkeypatch.chdir(tmp_path)
    results = {}
    with DocumentReader(seconds=5) as reader:
        for text in ("one", "hang", "die", "eat", "print", "two"):
            (tmp_path / f"{text}.xyz").write_text(text, "utf-8")
            document = reader.read(tmp_path / f"{text}.xyz", "my_readers:read", b"")
            results[text] = document.reason or document.pages[0].text
        with pytest.raises(UsageError, match="needs the module 'my_raeders'"):
            reader.read(tmp_path / "one.xyz", "my_raeders:read", b"")
    assert results == {
        "one": "ONE",
        "hang": "takes more than 5 seconds",
        "die": "ended the process that read it; it may be damaged",
        "eat": results["eat"] if sys.platform == "darwin" else "needs more than 3 GB of memory",
        "print": "PRINT",
        "two": "TWO",
    }


def test_a_file_beside_the_documents_replaces_no_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pypdfium2.py").write_text("raise SystemExit(7)", "utf-8")
    (tmp_path / "json.py").write_text("raise SystemExit(7)", "utf-8")
    monkeypatch.chdir(tmp_path)
    content = manual(tmp_path / "m.pdf").read_bytes()
    with DocumentReader() as reader:
        assert len(reader.read(Path("m.pdf"), kind_of(Path("m.pdf")), content).pages) == 4
