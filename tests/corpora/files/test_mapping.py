"""Rows of any shape become questions and passages by a map, in every format, and errors say where to look."""

from __future__ import annotations

import csv
import gzip
import json
import math
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.core.digest import canonical
from ragc.corpora.files.mapping import MOST_PROBLEMS, passages_of, questions_of, read_corpus, read_questions
from ragc.corpora.files.row import FileRow
from ragc.corpora.files.splits import check_disjoint, draw
from ragc.corpora.files.values import NOWHERE, as_json, as_text, drop_path, value_at
from ragc.errors import DataError, UnknownName, UsageError
from ragc.records import Passage, Question

FIELDS = {"id": "qid", "question": "query", "answers": "gold.*.text", "gold_ids": "gold.*.page"}
ROW = {"qid": 7, "query": "Who?", "gold": [{"text": "Ada", "page": "p1", "score": 1}], "level": "hard"}
MADE = Question("7", "Who?", ("Ada",), gold_ids=("p1",), extra={"gold": [{"score": 1}], "level": "hard"})
FLAT = {"id": "qid", "question": "query", "answers": "gold"}


def rows_of(*values: dict[str, Any]) -> list[FileRow]:
    return [FileRow(f"line {n}", value) for n, value in enumerate(values, 1)]


def questions(*values: dict[str, Any], **more: Any) -> tuple[Question, ...]:
    options: dict[str, Any] = {"fields": FLAT} | more
    return questions_of(rows_of(*values), "rows", **options)[0]


def problems(*values: dict[str, Any], **more: Any) -> tuple[str, ...]:
    with pytest.raises(DataError) as caught:
        questions(*values, **more)
    return caught.value.problems


def write(path: Path, data: bytes | str) -> Path:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.jsonl", json.dumps(ROW).encode()),
        ("x.jsonl.gz", gzip.compress(b"\xef\xbb\xbf" + json.dumps(ROW).encode(), mtime=0)),
        ("x.json", json.dumps([ROW], indent=1).encode()),
        ("x.json", json.dumps({"items": [ROW]}).encode()),
    ],
)
def test_json_in_every_form_gives_the_same_question(tmp_path: Path, name: str, data: bytes) -> None:
    path = write(tmp_path / name, data)
    assert read_questions(path, fields=FIELDS | {"under": "items"}) == ((MADE,), ())


@pytest.mark.parametrize(("name", "between"), [("x.csv", ","), ("x.tsv", "\t"), ("x.csv.gz", ",")])
def test_cells_of_tables_become_lists(tmp_path: Path, name: str, between: str) -> None:
    text = tmp_path / "plain"
    with text.open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=between)
        writer.writerows(
            [
                ["qid", "query", "gold", "context_ids", "year"],
                ["1", "Whose, and?", '["Ada", 5, null]', "", "2019"],
                ["2", "Who?", "['Ada', \"O'Neil\"]", "['a', 'b']", ""],
                ["3", "Who?", "Ada|Byron | ", "a", ""],
                ["4", "Who?", "[sic] Ada]", "a", ""],
                ["5", "Who?", "", "a", ""],
            ]
        )
    data = text.read_bytes()
    path = write(tmp_path / name, gzip.compress(data) if name.endswith("gz") else data)
    questions, skipped = read_questions(path, fields=FLAT | {"split_answers": "|"})
    assert [(q.id, q.answers, q.context_ids) for q in questions] == [
        ("1", ("Ada", "5"), ()),
        ("2", ("Ada", "O'Neil"), ("a", "b")),
        ("3", ("Ada", "Byron"), ("a",)),
        ("4", ("[sic] Ada]",), ("a",)),
    ]
    assert questions[0].extra == {"year": "2019"}
    assert skipped == ("line 6: no answer says anything: each is null, NaN or blank",)


def test_parquet_keeps_its_types_and_extra_stays_plain_json(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pa.table(
        {
            "qid": [1, 2, 3],
            "query": ["Who?"] * 3,
            "gold": [3.0, math.nan, None],
            "asked": [2024] * 3,
            "score": [0.5, math.nan, 1.0],
        }
    )
    path = tmp_path / "x.parquet"
    parquet.write_table(table, path)
    (question,), skipped = read_questions(path, fields=FLAT | {"query_time": "asked"})
    assert (question.id, question.answers) == ("1", ("3",))
    assert question.query_time == "2024"
    assert question.extra == {"score": 0.5}
    assert len(skipped) == 2
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="no Parquet file"):
        read_questions(path, fields=FLAT)


def test_a_text_outside_a_table_is_cut_only_when_asked() -> None:
    row = {"qid": 1, "query": "What does list(range(2)) give?", "gold": "[0, 1]"}
    assert questions(row)[0].answers == ("[0, 1]",)
    assert questions(row, fields=FLAT | {"split_answers": "json"})[0].answers == ("0", "1")
    assert questions(row, fields=FLAT | {"split_answers": ","})[0].answers == ("[0", "1]")
    ids = FLAT | {"gold_ids": "pages", "split_ids": ";"}
    assert questions(row | {"pages": "a; b"}, fields=ids)[0].gold_ids == ("a", "b")


def test_values_that_json_does_not_have_become_some_that_it_has() -> None:
    when = datetime(2024, 3, 1, 12, tzinfo=UTC)
    row = {"qid": 1, "query": "Who?", "gold": Decimal("1.50"), "asked": when, "raw": [b"x"], "n": math.nan}
    (question,) = questions(row | {"on": when.date()}, fields=FLAT | {"query_time": "asked"})
    assert (question.answers, question.query_time) == (("1.50",), "2024-03-01T12:00:00+00:00")
    assert question.extra == {"raw": [None], "n": None, "on": "2024-03-01"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("x", "x"),
        (True, "yes"),
        (False, "no"),
        (12, "12"),
        (3.0, "3"),
        (-0.5, "-0.5"),
        (1e300, "1e+300"),
        (math.inf, None),
        ({}, None),
        (b"x", None),
    ],
)
def test_values_become_text_by_rule(value: object, text: str | None) -> None:
    assert as_text(value) == text


@pytest.mark.parametrize("nothing", [None, math.nan, "", " ", "nan", "NaN", [], [None, " ", "nan"]])
def test_a_question_whose_answers_say_nothing_is_left_out_and_counted(nothing: object) -> None:
    good = {"qid": 1, "query": "Who?", "gold": ["Nan", None, "Ada"]}
    remaining, skipped = questions_of(rows_of(good, good | {"gold": nothing}), "rows", fields=FLAT)
    assert [q.answers for q in remaining] == [("Nan", "Ada")]
    assert skipped == ("line 2: no answer says anything: each is null, NaN or blank",)
    with pytest.raises(DataError, match="no question is left: 1 rows were left out by rule, the first at"):
        questions(good | {"gold": nothing})


def test_errors_name_the_row_the_path_what_is_there_and_the_nearest() -> None:
    good = {"qid": 1, "query": "Who?", "gold": {"text": "Ada"}}
    fields = FLAT | {"answers": "gold.text"}
    near = "line 2: `answers`, read from `gold.text`, is not there: `gold` holds 'txt', 'n'."
    other = "line 2: `question`, read from `query`, is not there: the row holds 'qid', 'qurey', 'gold'."
    assert problems(
        good,
        {"qid": 2, "qurey": "Who?", "gold": {"txt": "Ada", "n": 1}},
        good | {"qid": None, "query": " ", "gold": {"text": {"a": 1}}},
        good | {"qid": 4, "gold": "Ada"},
        good,
        fields=fields,
    ) == (
        near + " Did you mean 'gold.txt'?",
        other + " Did you mean 'qurey'?",
        "line 3: `answers`, read from `gold.text`, holds an object, texts are needed",
        "line 3: `id`, read from `qid`, is null, a text is needed",
        "line 3: `question`, read from `query`, is empty",
        "line 4: `answers`, read from `gold.text`, is not there: `gold` is a string. Did you mean 'gold'?",
        "line 5: `id` '1' was used on line 1 already",
    )


def test_a_field_that_the_map_leaves_out_is_read_from_its_own_name() -> None:
    row = {"id": "a", "query": "Who?", "answers": "Ada", "split": "dev"}
    assert questions(row, fields={"question": "query"}) == (Question("a", "Who?", ("Ada",), "dev"),)
    (problem,) = problems({"query": "Who?", "answers": ["Ada"]}, fields={"question": "query"})
    assert problem.startswith("line 1: `id` is missing, and the map does not say where it is: the row holds")


def test_a_named_path_must_occur_in_some_row_and_may_lack_in_others() -> None:
    row = {"qid": 1, "query": "Who?", "gold": "Ada"}
    fields = FLAT | {"gold_ids": "paegs"}
    complaint = (
        "`gold_ids` is read from `paegs`, which no row has: the row holds 'qid', 'query', 'gold', 'pages'."
    )
    assert problems(row | {"pages": ["a"]}, fields=fields) == (complaint + " Did you mean 'pages'?",)
    both = questions(row, row | {"qid": 2, "pages": "a"}, fields=FLAT | {"gold_ids": "pages"})
    assert [q.gold_ids for q in both] == [(), ("a",)]


def test_paths_step_by_keys_numbers_and_stars_and_whole_keys_come_first() -> None:
    value = {"a": [{"b": [1, 2]}, {"b": [3]}, {}], "a.b": 5, "n": None, "e": [], "d": {"x.y": 6}}
    values = {
        path: value_at(value, path) for path in ("a.*.b.*", "a.1.b.0", "a.b", "n.x.y", "e.*.b", "d.x.y")
    }
    assert values == {"a.*.b.*": [1, 2, 3], "a.1.b.0": 3, "a.b": 5, "n.x.y": None, "e.*.b": [], "d.x.y": 6}
    for path in ("a.9.b", "a.b.c", "a.*.c", "z", "d.x", "a.-1", "a.99999999999999999999"):
        assert value_at(value, path) is NOWHERE, path


def test_rows_are_numbered_where_the_map_says_so(tmp_path: Path) -> None:
    lines = "".join(
        json.dumps({"question": f"Who {n}?", "answers": ["a"], "n": n}) + "\n\n" for n in range(4)
    )
    path = write(tmp_path / "x.jsonl", lines)
    questions, _ = read_questions(path, fields={"id": "#"}, where={"n": [1, 3]})
    assert [q.id for q in questions] == ["row-2", "row-4"]
    other, _ = read_questions(path, fields={"id": "#"}, numbered="dev", limit=1)
    assert [q.id for q in other] == ["dev-1"]
    with pytest.raises(UsageError, match="Only an id can be the number of its row"):
        read_questions(path, fields={"question": "#"})


def test_a_filter_is_asked_before_rows_are_read() -> None:
    good = {"qid": 1, "query": "Who?", "gold": "Ada", "meta": {"type": "yesno"}}
    broken = {"query": None, "meta": {"type": "list"}}
    assert [q.id for q in questions(good, broken, where={"meta.type": "yesno"})] == ["1"]
    assert problems(good, where={"meta.type": "list"}) == (
        'the filter leaves none of 1 rows: `meta.type` must be "list", found "yesno" (1)',
    )
    assert problems(good, where={"meta.tipe": "list"}) == (
        "the filter asks for `meta.tipe`, which no row has. Did you mean 'meta.type'?",
    )


def test_ids_outside_the_corpus_are_named() -> None:
    row = {"qid": 1, "query": "Who?", "gold": "Ada", "gold_ids": list("abcdef")}
    assert problems(row, corpus_ids=["a"]) == (
        "line 1: `gold_ids` names 'b', 'c', 'd' and 2 more, not in the corpus",
    )


@pytest.mark.parametrize("fields", [{"qestion": "query"}, {"title": "t"}])
def test_a_map_with_another_field_is_refused(fields: dict[str, str]) -> None:
    with pytest.raises(UnknownName, match="No field is named"):
        questions({}, fields=fields)


def test_passages_are_mapped_and_blank_ones_left_out(tmp_path: Path) -> None:
    rows = [
        {"doc": 1, "meta": {"title": "T"}, "body": "text"},
        {"doc": 2, "body": "text"},
        {"doc": 3, "meta": {"title": None}, "body": None},
        {"doc": 4, "meta": {"title": "only"}, "body": ""},
    ]
    path = write(tmp_path / "c.jsonl", "\n".join(map(json.dumps, rows)))
    fields = {"id": "doc", "title": "meta.title", "text": "body"}
    passages, skipped = read_corpus(path, fields=fields)
    assert passages == (Passage("1", "T", "text"), Passage("2", "", "text"), Passage("4", "only", ""))
    assert skipped == ("line 3: its title and text are blank",)
    with pytest.raises(DataError, match="which marks a first chunk"):
        passages_of(rows_of({"id": "a#0", "text": "t"}), "rows", fields={})


def test_ten_megabytes_in_one_line_are_read(tmp_path: Path) -> None:
    long = "x" * 10 * 2**20
    row = {"qid": 1, "query": "Who?", "gold": long}
    write(tmp_path / "x.jsonl", json.dumps(row))
    write(tmp_path / "x.csv", f'qid,query,gold\n1,Who?,"{long}"\n')
    for name in ("x.jsonl", "x.csv"):
        (question,), _ = read_questions(tmp_path / name, fields=FLAT)
        assert question.answers == (long,)


def test_other_encodings_and_truncated_files_are_said_to_be_so(tmp_path: Path) -> None:
    line = json.dumps({"qid": 1, "query": "Who?", "gold": "Ada"}).encode() + b"\n"
    latin = '{"qid": 2, "query": "Où?", "gold": "é"}'.encode("latin-1") + b"\n"
    broken = {
        "mixed.jsonl": line + latin,
        "utf16.jsonl": line.decode().encode("utf-16"),
        "cut.jsonl": line + line[:20],
        "cut.json": b"[" + line + b",",
        "cut.jsonl.gz": gzip.compress(line * 1000)[:-30],
        "latin.csv": "qid,query,gold\n1,Où?,\x81\n".encode("latin-1"),
        "wide.csv": b"qid,query,gold\n1,Who?,Ada,more\n",
    }
    messages = {
        "mixed.jsonl": "line 2: not UTF-8: byte 0xf9",
        "utf16.jsonl": "UTF-",
        "cut.jsonl": "line 2: not JSON",
        "cut.json": "not JSON",
        "cut.jsonl.gz": "the packed stream ends early",
        "latin.csv": "not UTF-8",
        "wide.csv": "line 2: has another number of values than the header, 3",
    }
    for name, data in broken.items():
        with pytest.raises(DataError, match=messages[name]):
            read_questions(write(tmp_path / name, data), fields=FLAT)


def test_a_file_with_too_many_problems_is_read_no_further() -> None:
    rows_read = []

    def endless() -> Any:
        for n in range(10**9):
            rows_read.append(n)
            yield FileRow(f"line {n + 1}", {"qid": n})

    with pytest.raises(DataError) as caught:
        questions_of(endless(), "rows", fields=FLAT)
    assert len(caught.value.problems) <= MOST_PROBLEMS + 4
    assert len(rows_read) <= MOST_PROBLEMS
    assert caught.value.problems[-1].endswith("the reading stopped here, after too many problems")


def test_mapped_questions_split_as_others_do() -> None:
    values = [
        {"qid": n, "query": f"Who {n}?", "gold": "Ada", "part": "dev" if n % 2 else "train"} for n in range(8)
    ]
    mapped_questions = questions(*values, fields=FLAT | {"split": "part"})
    splits = draw(mapped_questions, {"train": 3, "dev": 3}, 0)
    assert {q.split for q in splits["train"]} == {"train"}
    assert {q.split for q in splits["dev"]} == {"dev"}
    check_disjoint(splits)
    twins = questions(values[0] | {"query": "The Ada?"}, values[1] | {"query": "ada"}, fields=FLAT)
    with pytest.raises(DataError, match="share a question"):
        check_disjoint({"train": twins[:1], "dev": twins[1:]})


NAMES = st.text(st.characters(categories=["L"]), min_size=1, max_size=4)
TEXTS = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=8).filter(
    lambda text: text not in ("nan", "NaN")
)


def nest(path: tuple[str, ...], value: object) -> dict[str, Any]:
    inner: Any = value
    for name in reversed(path):
        inner = {name: inner}
    return dict(inner)


def merge(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    joined = {**one, **two}
    for name in one.keys() & two.keys():
        joined[name] = merge(one[name], two[name])
    return joined


@st.composite
def shapes(draw_one: Any) -> list[tuple[str, ...]]:
    """Six paths, none of which begins with another."""
    names = [f"{n}{name}" for n, name in enumerate(draw_one(st.lists(NAMES, min_size=6, max_size=6)))]
    stems = draw_one(
        st.lists(st.sampled_from([(), ("in",), ("in", "side"), ("out",)]), min_size=6, max_size=6)
    )
    return [(*stem, name) for stem, name in zip(stems, names, strict=True)]


@given(
    shapes(),
    TEXTS,
    st.lists(TEXTS, min_size=1),
    st.lists(TEXTS),
    TEXTS,
    st.dictionaries(NAMES, st.integers()),
)
def test_a_row_in_any_shape_maps_back(
    shape: list[tuple[str, ...]],
    text: str,
    answers: list[str],
    ids: list[str],
    split: str,
    rest: dict[str, int],
) -> None:
    *plain, items, extra = shape
    names = ("id", "question", "gold_ids", "split")
    fields = {name: ".".join(path) for name, path in zip(names, plain, strict=True)}
    fields["answers"] = ".".join((*items, "*", "text"))
    given_values = {"id": text, "question": text, "gold_ids": ids, "split": split}
    row: dict[str, Any] = nest(items, [{"text": answer} for answer in answers])
    for name, path in zip(names, plain, strict=True):
        row = merge(row, nest(path, given_values[name]))
    if rest:
        row = merge(row, nest(extra, rest))
    (question,), skipped = questions_of(rows_of(row), "rows", fields=fields)
    expected_extra = nest(extra, rest) if rest else {}
    assert question == Question(text, text, tuple(answers), split, tuple(ids), extra=expected_extra)
    assert skipped == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, JSON, max_size=4), st.lists(NAMES | st.just("*"), min_size=1, max_size=4))
def test_what_is_taken_out_is_gone_and_the_rest_is_untouched(value: dict[str, Any], steps: list[str]) -> None:
    path = ".".join(steps)
    before = json.dumps(value)
    left = drop_path(value, path)
    assert json.dumps(value) == before
    assert drop_path(left, path) is left or value_at(left, path) is not NOWHERE
    if value_at(value, path) is NOWHERE:
        assert left is value


@given(
    st.recursive(st.floats() | st.binary() | st.datetimes() | st.none(), lambda x: st.lists(x, max_size=3))
)
def test_whatever_a_file_holds_becomes_json(value: object) -> None:
    assert canonical(as_json(value))
