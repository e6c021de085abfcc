"""Rows of files in every form, and what is wrong with them."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import _pydantic_core

from ragc.corpora.files import rows as module
from ragc.corpora.files.rows import rows

ITEMS = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
LINES = "".join(json.dumps(item) + "\n" for item in ITEMS)


def read_rows(path: Path, **more: Any) -> list[Any]:
    """Values of the good rows, and `place: problem` of the others."""
    out: list[Any] = []
    for row in rows(path, **more):
        out += [f"{row.location}: {problem}" for problem in row.problems] or [row.values]
    return out


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.jsonl", LINES.encode()),
        ("x.jsonl", b"\xef\xbb\xbf" + LINES.replace("\n", "\r\n\n").encode()),
        ("x.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)),
        ("x.jsonl.bz2", bz2.compress(LINES.encode())),
        ("x.json", LINES.encode()),
        ("x.json", json.dumps(ITEMS).encode()),
        ("x.json.gz", gzip.compress(json.dumps(ITEMS, indent=1).encode(), mtime=0)),
        ("x.json", json.dumps({"data": ITEMS, "version": 1}, indent=1).encode()),
        ("x.json", json.dumps({"data": {"a": {"n": 1}, "b": {"n": 2}}}).encode()),
        ("no_suffix", LINES.encode()),
    ],
)
def test_the_same_rows_are_read_from_every_form(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    assert read_rows(path, under="data") == ITEMS


def test_tables_give_strings_and_name_rows_of_another_width(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('id,text\na,"two\nlines, one value"\nb\nc,x,y\n', "utf-8")
    assert read_rows(path) == [
        {"id": "a", "text": "two\nlines, one value"},
        "line 4: has another number of values than the header, 2",
        "line 5: has another number of values than the header, 2",
    ]
    other = tmp_path / "x.tsv"
    other.write_text("id\ttext\na\tb, c\n", "utf-8")
    assert read_rows(other) == [{"id": "a", "text": "b, c"}]
    other.write_bytes("id\ttext\na\té\n".encode() + b"b\t\xe9\n")
    (problem,) = [row for row in read_rows(other) if isinstance(row, str)]
    assert problem.startswith("line 3: not UTF-8: byte 0xe9 at offset 15 of the file, and cp1252 (Windows)")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"3", ": holds a number, a list is needed"),
        (b'"text"', ": holds a string, a list is needed"),
        (
            b'{"items": []}',
            ": holds an object with 'items'; a list, or an object with the list `data`, is needed",
        ),
        (b"[1", ": not JSON: Expecting ',' delimiter at column 3"),
        (b'[{"a": 1},\n {"a" 2}]', ": not JSON: Expecting ':' delimiter at line 2, column 7"),
        (b'[{"a": "\\ud800"}]', "item 1: a string holds half of a surrogate pair, which is no character"),
        (b'[{"a": NaN}]', ": not JSON: NaN is no JSON number"),
        (b'[{"a": 1}, 2]', "item 2: is a number, an object is needed"),
    ],
)
def test_a_document_of_another_shape_is_said_to_be_so(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    assert read_rows(path, under="data")[-1] == message


@pytest.mark.parametrize("other", [_pydantic_core.__file__, gzip.__file__], ids=["library", "source"])
def test_a_file_of_no_json_lines_is_one_problem(tmp_path: Path, other: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(Path(other).read_bytes()[: 2**21])
    (problem,) = read_rows(path)
    assert problem.startswith(": none of its first 20 lines is a JSON object (line 1: ")


def test_bad_lines_of_a_file_of_json_lines_are_each_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text("{no}\n" * 19 + LINES + "{no}\n", "utf-8")
    read = read_rows(path)
    assert len(read) == 19 + len(ITEMS) + 1
    assert [row for row in read if not isinstance(row, str)] == ITEMS
    assert read[-1] == f"line {20 + len(ITEMS)}: {str(read[0]).partition(': ')[2]}"
    path.write_text("{no}\n" * 19, "utf-8")
    assert len(read_rows(path)) == 19


def test_damaged_streams_and_endless_lines_end_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl.bz2"
    packed = bz2.compress(LINES.encode() * 1000)
    path.write_bytes(packed[:40] + bytes(20) + packed[60:])
    assert "download the file again" in read_rows(path)[-1]
    path.write_bytes(packed[: len(packed) // 2])
    assert "ends early" in read_rows(path)[-1]
    monkeypatch.setattr(module, "LONGEST_LINE", 2**20)
    long = tmp_path / "long.jsonl"
    long.write_text(LINES + "x" * (2**20 + 1) + "\n" + LINES, "utf-8")
    assert read_rows(long) == [*ITEMS, "line 3: is longer than 1 MiB"]
