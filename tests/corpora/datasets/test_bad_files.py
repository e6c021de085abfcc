"""Damaged files of every data set and form: records that hold, or one clear error; never anything else."""

from __future__ import annotations

import bz2
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora import datasets
from ragc.corpora.datasets.base import Dataset
from ragc.corpora.files import rows as module
from ragc.corpora.files.records import content_fingerprint, read_corpus
from ragc.errors import DataError
from tests.examples import examples, thorough

EXAMPLES: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("examples.json").read_text(encoding="utf-8")
)
PACKINGS: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}


@pytest.fixture(scope="module", params=EXAMPLES)
def name(request: pytest.FixtureRequest) -> str:
    if request.param == "crag":
        pytest.importorskip("markdownify")
    return str(request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


def official(name: str, count: int = 4, **fields: Any) -> str:
    """The text of a file with `count` rows, the last of which has other `fields`."""
    example = EXAMPLES[name]
    rows = [example["row"] | {example["key"]: f"row{n}"} for n in range(count)]
    rows[-1] |= fields
    if example["file"].endswith(".tsv"):
        quoted = ["\t".join('"' + str(v).replace('"', '""') + '"' for v in row.values()) for row in rows]
        return "\n".join(["\t".join(example["row"]), *quoted]) + "\n"
    if example["file"].endswith(".json"):
        under = datasets.card(name).under
        return json.dumps({under: rows} if under else rows, ensure_ascii=False)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def read(folder: Path, name: str, data: bytes, packing: str = "") -> Dataset | str:
    """What a file of `data` gives: records, or the message of its error."""
    path = folder / (EXAMPLES[name]["file"] + packing)
    path.write_bytes(data)
    try:
        loaded = datasets.load(name, path)
    except DataError as error:
        return problem(error, path)
    content_fingerprint((*loaded.questions, *loaded.passages))
    return loaded


def problem(error: DataError, path: Path) -> str:
    assert str(error).startswith(f"{path}: ")
    assert len(str(error)) < 3000
    return str(error).removeprefix(f"{path}: ")


FIELDS = {"kilt": "input", "kilt_eli5": "input", "crag": "query", "bioasq": "body", "triviaqa": "Question"}


def asking(name: str, text: str) -> dict[str, Any]:
    """The field of the example that holds the question, with another text."""
    field = FIELDS.get(name, "question")
    value = EXAMPLES[name]["row"][field]
    return {field: value | {"stem": text} if isinstance(value, dict) else text}


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_truncated_file_is_an_error_or_ends_at_a_whole_row(folder: Path, name: str, packing: str) -> None:
    plain = official(name).encode()
    whole = read(folder, name, plain)
    assert isinstance(whole, Dataset)
    data = PACKINGS[packing](plain)
    assert read(folder, name, data, packing) == whole
    for end in {0, 1, 2, 3, 10, *(len(data) * n // 16 for n in range(16)), len(data) - 2, len(data) - 1}:
        outcome = read(folder, name, data[:end], packing)
        if isinstance(outcome, Dataset):
            assert not packing, end
            assert not EXAMPLES[name]["file"].endswith(".json"), end
            assert outcome.questions == whole.questions[: len(outcome.questions)], end
        elif packing and end > 10:
            assert outcome.startswith("the packed stream ends early"), end
        elif end > 10 and not EXAMPLES[name]["file"].endswith(".tsv"):
            assert re.match(r"(line \d+: )?not JSON: ", outcome), end
            assert outcome.startswith("line ") == EXAMPLES[name]["file"].endswith(".jsonl"), end
            assert "\n" not in outcome, end


@settings(max_examples=examples(25))
@given(data=st.data())
@pytest.mark.parametrize("packing", PACKINGS)
def test_damaged_bytes_are_an_error_or_leave_records(
    folder: Path, name: str, packing: str, data: st.DataObject
) -> None:
    whole = PACKINGS[packing](official(name).encode())
    at = data.draw(st.integers(0, len(whole) - 1))
    read(folder, name, whole[:at] + data.draw(st.binary(max_size=8)) + whole[at + 3 :], packing)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.encode("latin-1"), "not UTF-8: byte 0xe9 at offset "),
        (lambda text: text.encode("utf-16"), "is UTF-16, and UTF-8 is needed"),
        (lambda text: text.encode("utf-16-le"), ""),
        (lambda text: b"\xfe\xff" + text.encode("utf-16-be"), "is UTF-16, and UTF-8 is needed"),
        (lambda text: text.encode().replace("é".encode(), b"\xed\xa0\x80"), "not UTF-8: byte 0xed at offset"),
        (lambda text: b"", "the file holds no question of "),
        (lambda text: b"\xef\xbb\xbf", ""),
        (lambda text: b" \n\n \n", ""),
        (lambda text: b"\x00" * 1000, ""),
        (lambda text: b"<html><body>404 Not Found</body></html>", ""),
        (lambda text: b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n", ""),
    ],
)
def test_other_encodings_and_other_contents(
    folder: Path, name: str, change: Callable[[str], bytes], message: str
) -> None:
    text = official(name, **asking(name, "Where is the café?"))
    assert isinstance(read(folder, name, text.encode()), Dataset)
    assert isinstance(read(folder, name, b"\xef\xbb\xbf" + text.encode()), Dataset)
    outcome = read(folder, name, change(text))
    assert isinstance(outcome, str)
    assert message in outcome


@pytest.mark.parametrize(
    ("spelled", "message"),
    [
        ("[" * 100_000 + "]" * 100_000, "within each other"),
        ("[" * 300 + "]" * 300, "within each other"),
        ('{"a":' * 300 + "1" + "}" * 300, "within each other"),
        ("[" * 100_000, ""),
        ("1" * 5000, "digits"),
        ("1e999", "1e999 is no JSON number"),
        ("NaN", "NaN is no JSON number"),
        ("-Infinity", "-Infinity is no JSON number"),
        (r'"half \ud800"', "half of a surrogate pair"),
        (r'["\uDC00 \ud83d"]', "half of a surrogate pair"),
        ('"a\x01b"', "Invalid control character"),
        ('"a\x00b"', "Invalid control character"),
    ],
    ids=range(12),
)
def test_what_json_does_not_have_is_named_wherever_it_stands(
    folder: Path, name: str, spelled: str, message: str
) -> None:
    if EXAMPLES[name]["file"].endswith(".tsv"):
        pytest.skip("the file is no JSON")
    fields: tuple[dict[str, Any], ...] = (asking(name, "PLACE"), {"unread": "PLACE"})
    for field in fields:
        text = official(name, **field).replace('"PLACE"', spelled)
        outcome = read(folder, name, text.encode("utf-8"))
        assert isinstance(outcome, str)
        assert message in outcome


@thorough
def test_ten_megabytes_in_one_line_are_read(folder: Path, name: str) -> None:
    long = "word " * 2_000_000
    outcome = read(folder, name, official(name, 2, **asking(name, long)).encode())
    assert isinstance(outcome, Dataset)
    assert len(outcome.questions[-1].question) >= len(long)


def test_a_line_or_document_over_the_limit_is_named(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 2**20)
    monkeypatch.setattr(module, "LARGEST_DOCUMENT", 2**20)
    outcome = read(folder, name, official(name, 2, **asking(name, "word " * 2**18)).encode())
    assert isinstance(outcome, str)
    assert (
        "is larger than" if EXAMPLES[name]["file"].endswith(".json") else "is longer than 1 MiB"
    ) in outcome


@pytest.mark.parametrize("packing", [".gz", ".bz2"])
@pytest.mark.parametrize("name", ["nq", "hotpotqa"])
def test_a_bomb_is_not_unpacked(
    folder: Path, name: str, packing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 2**16)
    whole = official(name).encode() + b"\n" * 2**20
    outcome = read(folder, name, PACKINGS[packing](whole), packing)
    assert isinstance(outcome, str)
    assert "unpacks to more than" in outcome


def test_places_that_hold_no_file(tmp_path: Path, name: str) -> None:
    for path, message in ((tmp_path, "is a folder"), (tmp_path / "none.json", "no such file")):
        with pytest.raises(DataError) as caught:
            datasets.load(name, path)
        assert message in problem(caught.value, path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file holds no passage"),
        (b"id,title,text\n", "the file holds no passage"),
        (b"id,title\na,b\n", "has no column `text`; its columns are 'id', 'title'."),
        (b"id,title,text\na,b\n", "line 2: has another number of values than the header, 3"),
        (b"id,title,text\na,b,c,d\n", "line 2: has another number of values than the header, 3"),
        (b"id,title,title,text\na,b,c,d\n", "the header names the column 'title' twice"),
        (b'id,title,text\na,b,"c\n', "line 2: is no table: unexpected end of data"),
        (b'id,title,text\na,b,"c"d\n', "line 2: is no table"),
        (b"id,title,text\na,b,caf\x81\n", "line 2: not UTF-8: byte 0x81 at offset 21"),
        ("id,title,text\na,b,c\n".encode("utf-16")[:-1], "line 2: not utf-16"),
        (b"id,title,text\n,b,c\n", "line 2: `id` is empty"),
        (b"id,title,text\na,b,c\na,b,c\n", "'a' was used on line 2 already"),
        (b'id,title,text\na,b,"' + b"c\n" * 600_000, "line 524290: is no table: field larger than"),
        (b"id,title,text\na,b," + b"c" * 2**20 + b"\n", "line 2: is longer than 1 MiB"),
    ],
    ids=range(14),
)
def test_damaged_tables(tmp_path: Path, data: bytes, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 2**20)
    for name, content in (("x.csv", data), ("x.tsv", data.replace(b",", b"\t"))):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(DataError) as caught:
            read_corpus(path)
        assert message in problem(caught.value, path)
