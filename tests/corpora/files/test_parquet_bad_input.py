"""Parquet files that are damaged or hold what JSON does not: one clear error, never wrong records."""

from __future__ import annotations

import datetime as dt
import gzip
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.corpora.files.records import read_corpus, read_questions
from ragc.errors import DataError
from tests.examples import examples

pa: Any = pytest.importorskip("pyarrow")
parquet: Any = pytest.importorskip("pyarrow.parquet")

GOOD = {"id": ["a", "b"], "title": ["A", "B"], "text": ["one", "two"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parquet")


def write_parquet(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "x.parquet"
    parquet.write_table(pa.table(columns), path)
    return path


def problems(path: Path) -> tuple[str, ...]:
    with pytest.raises(DataError) as caught:
        read_corpus(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert all(0 < len(problem) < 400 for problem in caught.value.problems)
    return caught.value.problems


def test_passages_and_questions_are_read_packed_or_not(folder: Path) -> None:
    path = write_parquet(folder, GOOD)
    plain = read_corpus(path)
    assert [(p.id, p.title, p.text) for p in plain] == [("a", "A", "one"), ("b", "B", "two")]
    packed = folder / "y.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_corpus(packed) == plain
    columns = {"id": [1], "question": ["Who?"], "answers": [["Ada"]], "score": [math.nan], "split": [None]}
    (question,) = read_questions(write_parquet(folder, columns))
    assert (question.id, question.answers, question.extra) == ("1", ("Ada",), {"score": None})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": None}, "has no column `text`; its columns are 'id', 'title'"),
        ({"text": [1, 2]}, "item 1: `text` is a number, a string is needed"),
        ({"text": [math.nan, math.nan]}, "item 1: `text` is null, a string is needed"),
        ({"text": [None, "x"]}, "item 1: `text` is null, a string is needed"),
        ({"text": [["x"], ["y"]]}, "item 1: `text` is a list, a string is needed"),
        ({"text": [b"x", b"y"]}, "item 1: `text` holds bytes (b'x'), which JSON does not have"),
        ({"more": [None, dt.timedelta(1)]}, "item 2: `more` holds "),
        ({"text": [Decimal("1.5"), None]}, "item 2: `text` is null, a string is needed"),
        ({"more": [[{"x": math.inf}], []]}, "item 1: `more` holds a number (inf), which JSON does not have"),
        ({"id": ["a", "a"]}, "item 2: `id` 'a' was used on item 1 already"),
    ],
    ids=range(10),
)
def test_columns_that_are_missing_or_wrong_are_named(
    folder: Path, change: dict[str, Any], message: str
) -> None:
    columns = {name: values for name, values in (GOOD | change).items() if values is not None}
    assert any(problem.startswith(message) for problem in problems(write_parquet(folder, columns)))


def test_dates_decimals_and_maps_are_read_as_text_and_lists(folder: Path) -> None:
    columns = {
        "id": pa.array(["1", "2"]).dictionary_encode(),
        "question": ["When?", "How much?"],
        "answers": [[dt.date(2020, 1, 1)], [dt.date(2021, 2, 3)]],
        "query_time": [dt.datetime(2024, 5, 6, 7, 8, tzinfo=dt.UTC), None],
        "price": [Decimal("1.50"), Decimal("2.00")],
        "notes": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    }
    first, second = read_questions(write_parquet(folder, columns))
    assert (first.answers, first.query_time) == (("2020-01-01",), "2024-05-06T07:08:00+00:00")
    assert second.answers == ("2021-02-03",)
    assert first.extra == {"price": "1.50", "notes": [["a", 1]]}


def test_a_time_zone_that_is_unknown_is_one_problem(folder: Path) -> None:
    times = pa.array([1, 2], pa.timestamp("us", "Nowhere/Else"))
    (problem,) = problems(write_parquet(folder, {**GOOD, "at": times}))
    assert "Nowhere/Else" in problem


def test_a_column_that_stands_twice_is_named(folder: Path) -> None:
    path = folder / "twice.parquet"
    table = pa.Table.from_arrays([pa.array(["a"])] * 3, names=["id", "title", "title"])
    parquet.write_table(table, path)
    assert problems(path) == ("has the column 'title' twice; rename one",)


def test_what_is_no_parquet_file_is_said_to_be_none(folder: Path) -> None:
    path = folder / "no.parquet"
    for data in (b"", b"PAR1", b"PAR1" * 1000, b"<html>", b'{"id": "a"}\n'):
        path.write_bytes(data)
        assert problems(path)[0].startswith("is no Parquet file, or a damaged one, after row 0: ")


def test_a_truncated_file_is_refused(folder: Path) -> None:
    path = write_parquet(folder, GOOD)
    whole = path.read_bytes()
    for end in (len(whole) * n // 20 for n in range(20)):
        path.write_bytes(whole[:end])
        assert problems(path)


@settings(max_examples=examples(60))
@given(data=st.data())
def test_damaged_values_are_an_error_or_leave_records(folder: Path, data: st.DataObject) -> None:
    path = write_parquet(folder, GOOD)
    whole = path.read_bytes()
    start = whole.index(b"one") - 20  # a page of values, not the description of the file
    at = data.draw(st.integers(start, start + 40))
    path.write_bytes(whole[:at] + data.draw(st.binary(min_size=1, max_size=1)) + whole[at + 1 :])
    try:
        passages = read_corpus(path)
    except DataError:
        return
    assert len(passages) == 2
