"""Every data set: its published form is read; a damaged row is a record that holds, a problem or a skip."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.storage.corpus import corpus_of
from tests.examples import thorough
from tests.paths import ROOT, SHARED_DATA
from tests.support.kinds import (
    DataError,
    Dataset,
    Question,
    content_fingerprint,
    datasets,
    read_corpus,
    read_questions,
)

HERE = ROOT / "tests" / "corpora" / "datasets"
EXAMPLES: dict[str, dict[str, Any]] = json.loads(
    (HERE / "examples.json").read_text(encoding="utf-8")
) | {
    "questions": {
        "file": "questions.jsonl", "key": "id", "row": {
            "id": "q1", "question": "Who?", "answers": ["Ada"], "gold_ids": ["p1"], "context_ids": ["p1"],
            "query_time": "today", "split": "dev", "level": {"of": ["some"]},
        },
    },
    "corpus": {"file": "corpus.jsonl", "key": "id", "row": {"id": "p1", "title": "Ada", "text": "It is."}},
    "corpus of a table": {"file": "corpus.csv", "key": "id", "row": {"id": "p1", "title": "A", "text": "b,"}},
}  # fmt: skip
"""File name, name of the field that tells rows apart, and a valid row; by data set."""

MARK = "770077"
WRONG: tuple[Any, ...] = (
    None, True, 7700.77, 10**4000, "", " ", MARK, "nan", "\x00\x1b", [], {}, [None], [MARK], [[]],
    [[MARK, 7700.77]], {"mark": MARK}, [{"mark": MARK}], [[MARK, [MARK]]], [True, "x"],
)  # fmt: skip
"""What every value of a row is replaced by, one at a time."""


@pytest.fixture(scope="module", params=EXAMPLES)
def name(request: pytest.FixtureRequest) -> str:
    if request.param == "crag":
        pytest.importorskip("markdownify")
    return str(request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


def others(name: str, row: Any) -> list[Any]:
    """`row` between two copies of the example under other ids."""
    good, key = EXAMPLES[name]["row"], EXAMPLES[name]["key"]
    return [good | {key: "first"}, row, good | {key: "last"}]


def write_rows(folder: Path, name: str, rows: list[Any]) -> Path:
    """The official file of the data set with `rows`."""
    path: Path = folder / EXAMPLES[name]["file"]
    if path.suffix in (".tsv", ".csv"):
        out = io.StringIO()
        table = csv.DictWriter(
            out, list(EXAMPLES[name]["row"]), delimiter="\t" if path.suffix == ".tsv" else ","
        )
        table.writeheader()
        table.writerows(rows)
        text = out.getvalue()
    elif path.suffix == ".json":
        under = datasets.card(name).under
        text = json.dumps({under: rows} if under else rows)
    else:
        text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return path


def read(name: str, path: Path) -> Dataset:
    if name.startswith("corpus"):
        return Dataset((), tuple(corpus_of(read_corpus(path)).passages))
    if name == "questions":
        read = read_questions(path)
        return Dataset(read.questions, (), read.skipped)
    return datasets.load(name, path)


def outcome(name: str, path: Path) -> Dataset | tuple[str, ...]:
    """What was read, which holds what records promise, or the problems, each a short line."""
    try:
        loaded = read(name, path)
    except DataError as error:
        return problems(error, path)
    ids = {passage.id for passage in loaded.passages}
    for question in loaded.questions:
        assert question.id.strip()
        assert question.question.strip()
        assert question.answers
        assert all(answer.strip() for answer in question.answers)
        assert name == "questions" or ids.issuperset((*question.context_ids, *question.gold_ids))
    content_fingerprint((*loaded.questions, *loaded.passages))
    "".join(texts(loaded)).encode()
    return loaded


def problems(error: DataError, path: Path) -> tuple[str, ...]:
    """The problems of an error, which names its file and says each in a short line."""
    assert str(error).startswith(str(path))
    assert error.problems
    for problem in error.problems:
        assert 0 < len(problem) < 400
        assert "\n" not in problem
    return error.problems


def texts(loaded: Dataset) -> Iterator[str]:
    for question in loaded.questions:
        yield from (question.id, question.question, *question.answers, question.query_time, question.split)
    for passage in loaded.passages:
        yield from (passage.id, passage.title, passage.text)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to every value within `value`."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*at, key)
        yield from places(value[key], (*at, key))


def damaged(name: str, at: tuple[Any, ...], *values: Any) -> Any:
    """The example with another value at the place `at`, or without it."""
    row = copy.deepcopy(EXAMPLES[name]["row"])
    *outer, last = at
    inner = row
    for key in outer:
        inner = inner[key]
    if values:
        inner[last] = values[0]
    else:
        del inner[last]
    return row


def holds(name: str, folder: Path, row: Any) -> Dataset | tuple[str, ...]:
    """The outcome of a file with `row` in its middle: nothing is lost without a word."""
    rows = others(name, row)
    result = outcome(name, write_rows(folder, name, rows))
    table = EXAMPLES[name]["file"].endswith(("csv", "tsv"))
    there = ("line 3: ",) if table else ("line 2: ", "item 2: ")
    if isinstance(result, Dataset):
        read = len(result.passages if name.startswith("corpus") else result.questions)
        assert read + len(result.skipped) == len(rows)
        assert len(result.skipped) <= 1
        assert all(rule.startswith(there) for rule in result.skipped)
    else:
        assert all(problem.startswith(there) for problem in result)
    return result


def test_the_example_itself_is_read(name: str, folder: Path) -> None:
    result = holds(name, folder, EXAMPLES[name]["row"])
    assert isinstance(result, Dataset)
    assert not result.skipped


def test_there_is_an_example_of_every_data_set() -> None:
    folders = {"autorag", "beir", "ragas"}  # of other systems: tests/corpora/datasets/formats
    assert set(datasets.FILES) - folders < set(EXAMPLES)


@thorough
def test_every_value_is_replaced_by_everything_else(name: str, folder: Path) -> None:
    table = EXAMPLES[name]["file"].endswith(("csv", "tsv"))
    for at in places(EXAMPLES[name]["row"]):
        for wrong in WRONG:
            result = holds(name, folder, damaged(name, at, wrong))
            if isinstance(result, Dataset) and not table:
                text = " ".join(texts(result))
                assert not any(word in text for word in ("None", "True", "False", "mark", "{", "['")), at


def test_every_value_is_left_out(name: str, folder: Path) -> None:
    if not EXAMPLES[name]["file"].endswith(("csv", "tsv")):
        for at in places(EXAMPLES[name]["row"]):
            holds(name, folder, damaged(name, at))


def test_a_row_that_stands_twice_is_named(name: str, folder: Path) -> None:
    row = EXAMPLES[name]["row"]
    with pytest.raises(DataError, match=r"was used|belongs to 2 passages"):
        read(name, write_rows(folder, name, [row, row]))


@pytest.mark.parametrize("wrong", [0, None, [], {}, "", "x", [0] * 3, {"a": {}}])
def test_a_row_that_is_no_object_is_named(folder: Path, wrong: Any) -> None:
    for name, example in EXAMPLES.items():
        if not example["file"].endswith(("csv", "tsv")):
            result = outcome(name, write_rows(folder, name, others(name, wrong)))
            complaints = result.skipped if isinstance(result, Dataset) else result
            assert complaints or name.startswith("corpus"), name
            assert all(problem.startswith(("line 2: ", "item 2: ")) for problem in complaints)


@thorough
@pytest.mark.parametrize("wrong", [[0] * 20_000, [""] * 20_000, [{}] * 20_000, "x" * 100_000])
def test_a_large_wrong_value_gives_few_and_short_problems(folder: Path, wrong: Any) -> None:
    for name, example in EXAMPLES.items():
        for field in example["row"]:
            if example["file"].endswith(("csv", "tsv")):
                continue
            result = outcome(name, write_rows(folder, name, [damaged(name, (field,), wrong)]))
            assert isinstance(result, Dataset) or len(result) < 50


@pytest.mark.parametrize(
    ("name", "field"),
    [
        (name, field)
        for name, fields in {
            "2wikimultihopqa": ("_id", "question", "supporting_facts"),
            "hotpotqa": ("_id", "question", "context", "supporting_facts"),
            "kilt": ("id", "input"),
            "musique": ("id", "question"),
            "triviaqa": ("QuestionId", "Question"),
        }.items()
        for field in fields
    ],
)
def test_a_missing_field_is_named(folder: Path, name: str, field: str) -> None:
    result = outcome(name, write_rows(folder, name, [damaged(name, (field,))]))
    assert isinstance(result, tuple)
    (problem,) = result
    assert re.match(rf"(line|item) 1: `{field}` is missing", problem)


# What small files in the published forms are read as, and the official files themselves.

READINGS: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / "readings.jsonl").read_text(encoding="utf-8").splitlines()
]
"""Small files, each with the records or the problems that it gives; `context` is what programs are told."""

OFFICIAL: list[dict[str, Any]] = json.loads((HERE / "official.json").read_text(encoding="utf-8"))
"""Official files: how many questions, passages and rows left out; samples of questions 0, 9 and the last."""


def record(question: Question) -> dict[str, Any]:
    """A question as READINGS holds it."""
    values = {name: getattr(question, name) for name in ("id", "question", "answers", "context_ids")}
    values |= {name: getattr(question, name) for name in ("gold_ids", "query_time", "split", "extra")}
    values["context"] = sorted(question.context())
    filled = {name: value for name, value in values.items() if value or name in ("id", "question", "answers")}
    return dict(json.loads(json.dumps(filled)))


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: f"{reading['set']}: {reading['about']}")
def test_a_file_in_a_published_form_is_read_as_it_was(reading: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / reading["file"]
    path.write_bytes(reading["text"].encode())
    if "problems" in reading:
        with pytest.raises(DataError) as caught:
            datasets.load(reading["set"], path)
        assert problems(caught.value, path) == tuple(reading["problems"])
        return
    loaded = datasets.load(reading["set"], path)
    assert [record(question) for question in loaded.questions] == reading["questions"]
    assert [[p.id, p.title, p.text] for p in loaded.passages] == reading["passages"]
    assert list(loaded.skipped) == reading.get("skipped", [])


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="shared/data does not lie beside the repository")
@pytest.mark.parametrize("official", OFFICIAL, ids=lambda official: official["path"])
def test_an_official_file_is_read_whole(official: dict[str, Any], tmp_path: Path) -> None:
    path = SHARED_DATA / official["path"]
    if "as" in official:
        path = tmp_path / official["as"]
        path.symlink_to(SHARED_DATA / official["path"])
    loaded = datasets.load(official["set"], path)
    assert [len(loaded.questions), len(loaded.passages), len(loaded.skipped)] == official["counts"]
    for at, sample in zip((0, 9, -1), official.get("samples", []), strict=False):
        question = loaded.questions[at]
        found = [question.id, len(question.answers), question.answers[0][:40], len(question.gold_ids)]
        assert found == sample
