"""Rows of files in every form, packed or not, in any usual encoding, and what is wrong with them."""

from __future__ import annotations

import bz2
import csv
import datetime as dt
import gzip
import io
import json
import lzma
import math
import random
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.files import rows as module
from ragc.corpora.files.records import content_fingerprint, read_corpus, read_questions
from ragc.corpora.files.rows import rows
from ragc.errors import DataError

ITEMS = [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
LINES = "".join(json.dumps(item) + "\n" for item in ITEMS)
TABLE = [
    ["Nr", "Frage", "Antwort", "Preis"],
    ["1", "Wie heißt die\nHauptstadt?", "Zürich; oder", "3,14"],
    ["2", 'Was heißt "Grüße"?', "Übung, vielleicht", "1.000,50"],
    ["3", "Größe der Straße?", "Köln|Bonn", "0,5"],
]


def zipped(data: bytes, *names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in names or ("inner.jsonl",):
            archive.writestr(name, data)
    return out.getvalue()


def read_rows(path: Path, **how: Any) -> list[Any]:
    """Values of the good rows, and the problems of the others, each with its place."""
    parts: list[list[Any]] = [[*row.located()] or [row.values] for row in rows(path, **how)]
    return [part for row_parts in parts for part in row_parts]


def table(delimiter: str, end: str = "\r\n") -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator=end).writerows(TABLE)
    return out.getvalue()


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.jsonl", LINES.encode()),
        ("x.jsonl", b"\xef\xbb\xbf" + LINES.replace("\n", "\r\n\n").encode()),
        ("x.jsonl", LINES.encode("utf-16")),
        ("x.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)),
        ("x.jsonl", gzip.compress(LINES.encode(), mtime=0)),
        ("x.jsonl.bz2", bz2.compress(LINES.encode())),
        ("x.jsonl.xz", lzma.compress(LINES.encode())),
        ("x.zip", zipped(LINES.encode())),
        ("x.json", LINES.encode()),
        ("x.json", json.dumps(ITEMS).encode()),
        ("x.jsonl", json.dumps(ITEMS).encode()),
        ("x.jsonl", b"\xef\xbb\xbf\n" + json.dumps(ITEMS, indent=2).encode()),
        ("x.json.gz", gzip.compress(json.dumps(ITEMS, indent=1).encode(), mtime=0)),
        ("x.json", json.dumps({"version": 1, "data": ITEMS}, indent=1).encode()),
        ("x.json", json.dumps({"data": {"a": {"n": 1}, "b": {"n": 2}}}).encode()),
        ("x.json", json.dumps({"a": {"n": 1}, "b": {"n": 2}}).encode()),
        (
            "x.json",
            json.dumps({"rows": [{"row_idx": n, "row": item} for n, item in enumerate(ITEMS)]}).encode(),
        ),
        ("x.json", json.dumps({"id": ["a", "b"], "n": [1, 2]}).encode()),
        ("x.json", json.dumps({"id": {"0": "a", "1": "b"}, "n": {"0": 1, "1": 2}}).encode()),
        ("dev-v1.1.json", json.dumps({"data": [{"title": "T", "paragraphs": [{"qas": ITEMS}]}]}).encode()),
        ("no_suffix", LINES.encode()),
    ],
)
def test_the_same_rows_are_read_from_every_form(tmp_path: Path, name: str, data: bytes) -> None:
    assert read_rows(write(tmp_path / name, data)) == ITEMS


def test_the_list_of_a_document_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "x.json", json.dumps({"data": [], "mine": ITEMS}))
    assert read_rows(path, under="mine") == ITEMS
    assert read_rows(path, under="yours") == [
        "holds an object with 'data', 'mine'; a list, or an object with the list `yours`, is needed"
    ]


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("x.json", b"3", "is a number, an object is needed"),
        ("x.json", b"[1", "not JSON: EOF while parsing a list at column 2"),
        ("x.json", b'[{"a": 1},\n {"a" 2}]', "not JSON: expected `:` at line 2 column 7"),
        ("x.json", b'[{"a": "\\ud800"}]', "not JSON: unexpected end of hex escape at column 15"),
        ("x.json", b'[{"a": 1}, 2]', "item 2: is a number, an object is needed"),
        ("x.json", b"[" * 300 + b"]" * 300, "not JSON: recursion limit exceeded at column 202"),
        ("x.jsonl", b'{"a": 1}\n{"a', "line 2: not JSON: EOF while parsing a string at column 3"),
        ("x.txt", b"q\ta\n1\t2\n", "line 1: is not JSON: expected value at column 1; a table needs a name"),
        ("x.csv", b"%PDF-1.7\n", "is a document or an archive of several files"),
        ("x.docx", zipped(b"", "a.xml", "b.xml"), "is a document or an archive of several files"),
        ("x.csv", b"id,text,text\na,b,c\n", "the header names the column 'text' twice; rename one"),
        ("x.csv", b"id,text\na,b\nc,d,e\n", "line 3: has 3 values, and the header has 2"),
        ("x.csv", b"id,text\na\n", "line 2: has 1 values, and the header has 2"),
        ("x.csv", b'id,text\na,"b\nc,d\n', "line 2: is no table: unexpected end of data"),
        ("x.csv", b'id,text\n1,x\na,"b"c\n', "line 3: is no table: ',' expected after '\"'"),
        ("x.jsonl.gz", gzip.compress(LINES.encode(), mtime=0)[:-9], "its packed stream ends early"),
        ("x.jsonl.bz2", bz2.compress(LINES.encode())[:-30], "its packed stream ends early"),
        ("x.jsonl", '"é"\n"ü"\n"'.encode() + b'\xe9"\n', "line 3: holds bytes that are not UTF-8, among"),
        ("x.parquet", b"PAR1" * 1000, "is no Parquet file, or a damaged one: "),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_one_sentence(
    tmp_path: Path, name: str, data: bytes, problem: str
) -> None:
    found = [row for row in read_rows(write(tmp_path / name, data)) if isinstance(row, str)]
    assert found[0].startswith(problem)
    assert "\n" not in found[0]


def test_places_that_hold_no_file_are_said_to_be_so(tmp_path: Path) -> None:
    write(tmp_path / "questions_dev.jsonl", LINES)
    (missing,) = read_rows(tmp_path / "question_dev.jsonl")
    assert str(tmp_path) in missing
    assert "Did you mean 'questions_dev.jsonl'?" in missing
    assert "it is a folder" in read_rows(tmp_path)[0]
    assert "no such file" in read_rows(tmp_path / "nowhere" / "q.jsonl")[0]


def test_nan_and_infinities_are_missing_values(tmp_path: Path) -> None:
    row = (
        '{"id": "a", "question": "Who?", "answers": ["Ada", NaN], "split": NaN, "x": [Infinity, 1e999, NaN]}'
    )
    (question,) = read_questions(write(tmp_path / "x.jsonl", row)).questions
    assert (question.answers, question.split, question.extra) == (("Ada",), "", {"x": [None, None, None]})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "cp1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
def test_any_separator_in_any_usual_encoding(
    tmp_path: Path, encoding: str, delimiter: str, suffix: str
) -> None:
    data = table(delimiter).encode(encoding)
    path = write(tmp_path / f"x{suffix}", gzip.compress(data) if suffix.endswith(".gz") else data)
    assert [list(row.values.values()) for row in rows(path)] == TABLE[1:]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("1,Где находится столица?,Москва\n2,Кто написал роман?,Толстой\n", "cp1251"),
        ("1,Où est le café préféré?,à Paris\n2,Qui a créé ça?,Zoé\n", "cp1252"),
        ("1,日本の首都はどこですか,東京です\n2,誰が書きましたか,夏目漱石です\n", "shift_jis"),
    ],
)
def test_another_encoding_is_found_and_said(
    tmp_path: Path, text: str, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / f"{encoding}.csv", f"id,question,answer\n{text}".encode(encoding))
    read = read_questions(path).questions
    assert read[0].question == text.split(",")[1]
    assert caplog.messages[0].startswith(f"{encoding}.csv is read as c")
    assert "since its line 2 is not UTF-8" in caplog.messages[0]
    (tmp_path / "x.csv").write_bytes(path.read_bytes())
    assert read_questions(tmp_path / "x.csv", fields={"encoding": encoding}).questions == read


@pytest.mark.parametrize("name", ["no-such", "rot13", "hex", "\0", "utf 8 ü", "idna", "undefined"])
def test_an_encoding_that_is_none_is_one_sentence(tmp_path: Path, name: str) -> None:
    (problem,) = read_rows(write(tmp_path / "x.csv", b"id,text\n1,\xff.\xff\n"), encoding=name)
    assert "cannot be read as" in problem
    half = read_rows(write(tmp_path / "x.csv", b"id,text\n1,\\ud800\n"), encoding="unicode_escape")
    assert "surrogates not allowed" in half[-1]


def test_what_spreadsheets_and_databases_add_is_passed_over(tmp_path: Path) -> None:
    excel = write(tmp_path / "x.csv", b"sep=;\r\n id ;text;;\r\na;b;;\r\n;;;\r\n\r\nc;\\N;;\r\ne;f;;g\r\n")
    assert read_rows(excel) == [
        {"id": "a", "text": "b"},
        {"id": "c", "text": None},
        "line 7: has 4 values, and the header has 2",
    ]
    pandas = write(tmp_path / "y.csv", ",id,text\n0,a,x\n")
    assert read_rows(pandas) == [{"": "0", "id": "a", "text": "x"}]
    mac = write(tmp_path / "z.csv", "id;text\ra;b\r")
    assert read_rows(mac) == [{"id": "a", "text": "b"}]
    assert read_rows(write(tmp_path / "w.csv", "id^text\na^b,c\n"), delimiter="^") == [
        {"id": "a", "text": "b,c"}
    ]
    assert "must be a 1-character string" in read_rows(pandas, delimiter="ab")[0]


def test_a_quotation_mark_that_opens_a_cell_of_a_tsv_swallows_no_rows(tmp_path: Path) -> None:
    text = 'id\ttext\tmore\n1\t"Weird Al" Yankovic\tx\n2\t"quoted"\ty\n3\t"open\tz\n'
    text += '4\tu\tv\n5\t"two\nlines"\tw\n'
    assert [row["text"] for row in read_rows(write(tmp_path / "x.tsv", text))] == [
        '"Weird Al" Yankovic',
        "quoted",
        '"open',
        "u",
        "two\nlines",
    ]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("text", [b"x" * 2**17, b"[" + b"1,\n" * 2**19])
def test_a_small_file_that_unpacks_to_a_large_one_is_not_read(
    tmp_path: Path, pack: Callable[[bytes], bytes], text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CHARS", 2**16)
    bomb = write(tmp_path / "x.json", pack(text))
    assert "far more than data of its size does" in read_rows(bomb)[-1]


def test_ten_megabytes_in_one_line_are_read(tmp_path: Path) -> None:
    (passage,) = read_corpus(write(tmp_path / "x.csv", f"id,text\n1,{'x' * 10 * 2**20}\n"))
    assert len(passage.text) == 10 * 2**20


def test_parquet_is_read_with_its_types_and_without_columns_of_bytes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "id": pa.array([1, 2]),
        "question": ["When?", "How much?"],
        "answers": [[dt.date(2020, 1, 1)], [dt.date(2021, 2, 3)]],
        "query_time": [dt.datetime(2024, 5, 6, 7, 8, tzinfo=dt.UTC), None],
        "price": [Decimal("1.50"), Decimal("2.00")],
        "score_of": [math.nan, math.inf],
        "picture": [b"\x89PNG", b"\x00"],
        "thumb_of": [{"bytes": b"x", "path": "a"}, None],
    }
    path = tmp_path / "x.parquet"
    parquet.write_table(pa.table(columns), path)
    first, second = read_questions(path).questions
    assert (first.answers, first.query_time) == (("2020-01-01",), "2024-05-06T07:08:00+00:00")
    assert (first.extra, second.extra) == (
        {"price": "1.50", "score_of": None},
        {"price": "2.00", "score_of": None},
    )
    assert "x.parquet: the columns of bytes are left out: picture, thumb_of" in caplog.messages
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="is no Parquet file, or a damaged one"):
        read_questions(path)
    twice = pa.Table.from_arrays([pa.array(["a"])] * 2, names=["text", "text"])
    parquet.write_table(twice, path)
    assert read_rows(path) == ["has the column 'text' twice; rename one"]


GOOD_ROWS = [
    {
        "id": f"q{n}",
        "question": f"Wo liegt Straße {n}?",
        "answers": ["Köln", f"{n}"],
        "text": "Sie liegt dort.",
    }
    for n in range(6)
]
GOOD_LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in GOOD_ROWS).encode()
GOOD_CELLS = "".join(f'{row["id"]};"{row["question"]}";"[""Köln""]";x\n' for row in GOOD_ROWS)


def parquet() -> bytes:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    out = pa.BufferOutputStream()
    files.write_table(pa.Table.from_pylist(GOOD_ROWS), out)
    return bytes(out.getvalue().to_pybytes())


FORMS = {
    "x.jsonl": GOOD_LINES,
    "x.json": json.dumps({"data": GOOD_ROWS}, indent=1).encode(),
    "x.csv": f"id;question;answers;text\n{GOOD_CELLS}".encode(),
    "x.tsv": f"id\tquestion\tanswers\ttext\n{GOOD_CELLS}".replace(";", "\t").encode("utf-16"),
    "x.jsonl.gz": gzip.compress(GOOD_LINES, mtime=0),
    "x.jsonl.bz2": bz2.compress(GOOD_LINES),
    "x.jsonl.xz": lzma.compress(GOOD_LINES),
    "x.parquet": b"",
}
TIMES = 60


@pytest.mark.parametrize("name", FORMS)
def test_a_damaged_file_is_read_or_refused_in_a_sentence(tmp_path: Path, name: str) -> None:
    whole, pick = FORMS[name] or parquet(), random.Random(name)
    for at in range(TIMES):
        data, target = bytearray(whole), tmp_path / name
        if at % 3 == 0:
            del data[pick.randrange(len(data)) :]
        elif at % 3 == 1:
            for _ in range(1 + at % 5):
                data[pick.randrange(len(data))] = pick.randrange(256)
        else:
            target = tmp_path / f"x{pick.choice(['.jsonl', '.json', '.csv', '.tsv', '.parquet', '.gz', ''])}"
            start = pick.randrange(len(data))
            data[start : start + 3] = pick.randbytes(pick.randrange(9))
        target.write_bytes(data)
        for read in (lambda path: read_questions(path).questions, read_corpus):
            try:
                assert content_fingerprint(read(target))
            except DataError as error:
                refused = error
                lines = [str(error).startswith(f"{target}: "), *(0 < len(p) < 500 for p in refused.problems)]
                lines += ["\n" not in problem for problem in refused.problems]
                if not all(lines):
                    pytest.fail(str(error))
