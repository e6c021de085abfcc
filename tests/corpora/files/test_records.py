"""Questions and passages are read from rows of the usual shapes, and what is wrong is said with its line."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.files.records import (
    MAX_LISTED,
    content_fingerprint,
    files_named,
    filter_questions,
    flat,
    match_rows,
    read_corpus,
    read_passages,
    read_questions,
)
from ragc.corpora.files.rows import FileRow, value_at
from ragc.errors import DataError, UsageError
from ragc.records import Passage, Question
from tests.paths import SHARED_DATA

GOOD = {"id": "q1", "question": "Who?", "answers": ["Ada"]}
FIELDS = {"id": "qid", "question": "query", "answers": "gold.*.text", "gold_ids": "gold.*.page"}


def write(folder: Path, *rows: Any, name: str = "questions.jsonl") -> Path:
    path = folder / name
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def read(*rows: Any, **how: Any) -> tuple[Question, ...]:
    return read_questions(
        [FileRow(f"line {n}", row) for n, row in enumerate(rows, 1)], "rows", **how
    ).questions


def problems(path: Path, **how: Any) -> tuple[str, ...]:
    with pytest.raises(DataError) as caught:
        read_questions(path, **how)
    return caught.value.problems


@pytest.mark.parametrize(
    ("row", "id", "answers"),
    [
        ({"question": "Who?", "answer": "Ada"}, "row-1", ("Ada",)),
        ({"_id": 7, "query": "Who?", "gold": ["Ada", "A."]}, "7", ("Ada", "A.")),
        ({"ID": "a", "Question": "Who?", " Answers ": "Ada"}, "a", ("Ada",)),
        ({"prompt": "Who?", "completion": "Ada"}, "row-1", ("Ada",)),
        ({"input": "Who?", "expected_output": 3.0}, "row-1", ("3",)),
        ({"user_input": "Who?", "response": "Bob", "reference": "Ada"}, "row-1", ("Ada",)),
        ({"question": "Who?", "answer": "Bob", "ground_truth": "Ada"}, "row-1", ("Ada",)),
        ({"id": 1, "question": "Who?", "answers": {"text": ["Ada"], "answer_start": [3]}}, "1", ("Ada",)),
        ({"question": "Who?", "answer": {"value": "Ada", "aliases": ["A."]}}, "row-1", ("Ada", "A.")),
        ({"question": "Who?", "answers": [["Ada", "A."], ["Bob"]]}, "row-1", ("Ada", "A.", "Bob")),
        ({"question": "Who?", "output": [{"answer": "Ada", "provenance": []}]}, "row-1", ("Ada",)),
        ({"id": None, "question": "Is it?", "answers": [True, None, float("nan")]}, "row-1", ("yes",)),
    ],
)
def test_the_usual_names_of_a_question_need_no_map(row: Any, id: str, answers: tuple[str, ...]) -> None:
    (question,) = read(row)
    assert (question.id, question.answers) == (id, answers)


@pytest.mark.parametrize(
    ("row", "passage"),
    [
        ({"id": "d1", "contents": "text"}, Passage("d1", "", "text")),
        ({"_id": 3, "title": None, "text": "text", "metadata": {}}, Passage("3", "", "text")),
        ({"title": "T", "text": "text"}, Passage("row-1", "T", "text")),
        ({"page_content": "text", "metadata": {"title": "T", "source": "s"}}, Passage("row-1", "T", "text")),
        ({"doc_id": "d", "Content": "text"}, Passage("d", "", "text")),
        ({"doc_id": "d", "chunk_id": "d-1", "chunk": "text"}, Passage("d-1", "", "text")),
        ('"text"', Passage("row-1", "", "text")),
        ({"id": "d", "title": "T", "text": ""}, Passage("d", "T", "")),
    ],
)
def test_the_usual_names_of_a_passage_need_no_map(tmp_path: Path, row: Any, passage: Passage) -> None:
    assert read_corpus(write(tmp_path, row)) == (passage,)


def test_what_was_taken_for_what_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path, {"query": "Who?", "answer": "Ada"}, {"query": "Where?", "answer": "Here"})
    caplog.set_level(logging.WARNING)
    read_questions(path)
    read_questions(path)
    assert caplog.messages == [f"{path}: `question` is read from `query`, `answers` is read from `answer`."]
    caplog.clear()
    read_questions(path, fields={"question": "query", "answers": "answer"})
    read_questions(write(tmp_path, GOOD, name="own.jsonl"))
    assert caplog.messages == []


def test_the_other_fields_of_a_row_are_kept(tmp_path: Path) -> None:
    named = {"id": 7, "gold_ids": ["a", 3], "context_ids": None, "query_time": "2024", "split": "dev"}
    (question,) = read_questions(write(tmp_path, "", GOOD | named | {"level": {"n": 1}, "x": None})).questions
    assert question == Question(
        "7", "Who?", ("Ada",), "dev", ("a", "3"), query_time="2024", extra={"level": {"n": 1}, "x": None}
    )


def test_a_map_reads_fields_of_any_shape(tmp_path: Path) -> None:
    row = {"qid": 7, "query": "Who?", "gold": [{"text": "Ada", "page": "p1"}], "level": "hard"}
    (question,) = read(row, fields=FIELDS)
    assert (question.id, question.answers, question.gold_ids) == ("7", ("Ada",), ("p1",))
    assert question.extra["level"] == "hard"
    assert [q.id for q in read(row, fields=FIELDS | {"id": "#"}, numbered="dev")] == ["dev-1"]
    with pytest.raises(DataError, match="line 1: `id` is read from `qid`, and nothing is there"):
        read({**row, "qid": None}, fields=FIELDS)
    path = write(tmp_path, {"doc": 1, "meta": {"name": "T"}, "body": "text"})
    assert read_corpus(path, fields={"id": "doc", "title": "meta.name"}) == (Passage("1", "T", "text"),)


@pytest.mark.parametrize(
    ("cell", "answers"),
    [
        ("['Paris' 'City of Light']", ("Paris", "City of Light")),
        ("['d1'\n 'd2' \"it's\"]", ("d1", "d2", "it's")),
        ("[1 2 3]", ("1", "2", "3")),
        ("array(['a', 'b'], dtype=object)", ("a", "b")),
        ('["Ada", 5, null]', ("Ada", "5")),
        ("['Ada', \"O'Neil\"]", ("Ada", "O'Neil")),
        ("[sic] Ada]", ("[sic] Ada]",)),
        ("{'a': 1}", ("{'a': 1}",)),
        (
            "{'text': array(['Ada', 'A.'], dtype=object), 'answer_start': array([1, 2], dtype=int32)}",
            ("Ada", "A."),
        ),
        ("Ada", ("Ada",)),
    ],
)
def test_cells_of_a_table_may_spell_a_list(tmp_path: Path, cell: str, answers: tuple[str, ...]) -> None:
    quoted = cell.replace('"', '""')
    path = write(tmp_path, "question,answers", f'Who?,"{quoted}"', name="q.csv")
    assert read_questions(path).questions[0].answers == answers
    if cell.startswith("["):
        assert read({"question": "Who?", "answers": cell})[0].answers == (cell,)


def test_a_text_is_cut_where_the_map_says_so() -> None:
    row = {"question": "Who?", "answers": "[0, 1]", "gold_ids": "a; b"}
    assert read(row, fields={"split_answers": "json"})[0].answers == ("0", "1")
    assert read(row, fields={"split_answers": ","})[0].answers == ("[0", "1]")
    assert read(row, fields={"split_ids": ";"})[0].gold_ids == ("a", "b")


@pytest.mark.parametrize("nothing", [None, "", " ", "nan", [], [None, " ", "NaN"], {"text": []}])
def test_a_question_whose_answers_say_nothing_is_left_out_and_counted(nothing: object) -> None:
    rows = [FileRow("line 1", GOOD), FileRow("line 2", GOOD | {"id": "q2", "answers": nothing})]
    found = read_questions(rows, "rows")
    assert [q.id for q in found.questions] == ["q1"]
    assert found.skipped == ("line 2: no answer says anything",)
    assert len(read_questions(rows, "rows", answered=False).questions) == 2


@pytest.mark.parametrize(
    ("column", "votes", "gold"),
    [
        ("rating", (1, -1, 1), "ac"),
        ("score", (1.0, 0, None), "a"),
        ("rating", ("1.0", "-1.0", "1.0"), "ac"),
        ("reaction_vote", (":+1:", ":-1:", "Thumbs up"), "ac"),
        ("vote", ("up", "down", ""), "a"),
        ("thumbs", ("\U0001f44d", "\U0001f44e", "\U0001f44d"), "ac"),
        ("user_feedback", ("good", "bad", "good"), "ac"),
        ("feedback", ({"score": 1}, {"score": -1}, {"score": 1}), "ac"),
        ("thumbs_down", (False, True, False), "ac"),
        ("is_correct", (True, False, True), "ac"),
        ("rating", (5, 1, 4), "abc"),
        ("feedback", ("Great!", "down", "It was late."), "ac"),
        ("score", (None, None, None), "abc"),
    ],
)
def test_what_was_rated_down_is_never_gold(column: str, votes: tuple[object, ...], gold: str) -> None:
    rows = [
        FileRow(f"line {n}", {"question": f"{name}?", "response": name, column: vote})
        for n, (name, vote) in enumerate(zip("abc", votes, strict=True), 1)
    ]
    found = read_questions(rows, "rows")
    assert "".join(answer for question in found.questions for answer in question.answers) == gold
    assert len(found.questions) + len(found.skipped) == 3
    unanswered = read_questions(rows, "rows", answered=False).questions
    assert [q.extra["reply"] for q in unanswered if not q.answers] == [n for n in "abc" if n not in gold]


@pytest.mark.parametrize(
    ("row", "fields"),
    [
        ({"question": "Who?", "reference": "Ada", "response": "Bob", "score": -1}, {}),
        ({"question": "Who?", "gold": "Ada", "rating": 0}, {}),
        ({"question": "Who?", "response": "Ada", "rating": 4}, {}),
        ({"question": "Who?", "answer": "Ada", "rating": 0}, {"answers": "answer"}),
    ],
)
def test_a_rating_that_is_not_used_is_said(
    row: Any, fields: dict[str, str], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = write(tmp_path, row)
    assert read_questions(path, fields=fields).questions[0].answers == ("Ada",)
    assert any("looks like a rating and is not used" in message for message in caplog.messages)


def test_every_problem_is_reported_with_its_line(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        GOOD,
        "[1]",
        "",
        {"question": " ", "answer": ["x"]},
        GOOD | {"id": {}, "answers": [{}]},
        GOOD,
        '{"id": "q9", "question": "Who?"',
        '{"id": "q11", "question": "\\ud800", "answers": ["Ada"]}',
        GOOD | {"id": "q12", "history": "me"},
        GOOD | {"id": "q13", "score": float("nan")},
    )
    found = problems(path)
    assert found[:6] == (
        "line 2: is a list, an object is needed",
        "line 4: `question` is empty",
        "line 5: `id` is an object, a text is needed",
        "line 5: `answers` is an object, a text is needed",
        "line 6: `id` 'q1' was used on line 1 already",
        "line 7: not JSON: EOF while parsing an object at column 31",
    )
    assert [problem[:8] for problem in found[6:]] == ["line 8: ", "line 9: "]


def test_a_problem_of_every_row_is_said_once(tmp_path: Path) -> None:
    path = write(tmp_path, *({"frog": f"Who is {n}?", "answer": "Ada"} for n in range(30)))
    with pytest.raises(DataError) as caught:
        read_questions(path)
    assert len(caught.value.problems) == 30
    assert str(caught.value) == (
        f"{path}: line 1, line 2, line 3 and 27 more: `question` is missing: the row has 'frog', 'answer'; "
        "name its field in [data.fields]"
    )
    answerless = write(tmp_path, *({"question": f"Who is {n}?", "anser": "Ada"} for n in range(30)))
    assert problems(answerless) == (
        "`answers` is missing: the row has 'question', 'anser'; name its field in [data.fields]",
    )
    with pytest.raises(DataError, match=r"`text` is missing: .*name its field in \[data.corpus_fields\]"):
        read_corpus(path)


def test_a_path_of_the_map_must_occur_in_some_row() -> None:
    row = {"question": "Who?", "answers": "Ada", "pages": ["a"]}
    with pytest.raises(
        DataError, match=r"`gold_ids` is read from `paegs`, and nothing is there\. Did you mean 'pages'"
    ):
        read(row, fields={"gold_ids": "paegs"})
    both = read(row, row | {"pages": None}, fields={"gold_ids": "pages"})
    assert [question.gold_ids for question in both] == [("a",), ()]


def test_ids_outside_the_corpus_are_named_and_a_long_message_is_cut(tmp_path: Path) -> None:
    first = GOOD | {"gold_ids": ["a", "zz"], "context_ids": ["1", "2", "3", "4", "a"]}
    others = [GOOD | {"id": f"a{n}", "gold_ids": [str(n)]} for n in range(MAX_LISTED)]
    with pytest.raises(DataError) as caught:
        read_questions(write(tmp_path, first, *others), corpus_ids=["a"])
    assert caught.value.problems[:2] == (
        "line 1: `gold_ids` names 'zz', not in the corpus",
        "line 1: `context_ids` names '1', '2', '3' and 1 more, not in the corpus",
    )
    assert len(caught.value.problems) == MAX_LISTED + 2
    assert str(caught.value).splitlines()[-1] == "  and 2 more"


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_file_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "empty.jsonl.gz").write_text(text)
    with pytest.raises(DataError, match="holds no question"):
        read_questions(tmp_path / "empty.jsonl.gz")
    with pytest.raises(DataError, match="holds no passage"):
        read_corpus(tmp_path / "empty.jsonl.gz")


def test_passages_in_memory_are_texts_mappings_or_records() -> None:
    items: list[Any] = ["a text", {"id": 7, "text": "b"}, {"page_content": "c"}, Passage("p", "T", "d")]
    assert [(p.id, p.text) for p in read_passages(items)] == [
        ("0", "a text"),
        ("7", "b"),
        ("2", "c"),
        ("p", "d"),
    ]
    with pytest.raises(DataError, match="item 1: a number is no passage"):
        read_passages(["x", 3])  # type: ignore[list-item]
    with pytest.raises(DataError, match="'page#0' ends in '#0'"):
        read_passages([{"id": "page#0", "text": "x"}])
    with pytest.raises(DataError, match="is a mapping"):
        read_passages({"id": "x"})


def test_files_are_named_by_paths_and_patterns_a_line_each(tmp_path: Path) -> None:
    for name in ("b.md", "a.md", "c[1].csv", "sub/d.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    names = [path.relative_to(tmp_path).as_posix() for path in files_named(tmp_path, "*.md\nc[1].csv\nsub")]
    assert names == ["a.md", "b.md", "c[1].csv", "sub"]
    assert files_named(tmp_path, "a.md\nnone.md") == []


def test_paths_step_by_keys_numbers_and_stars_and_whole_keys_come_first() -> None:
    value = {"a": [{"b": [1, 2]}, {"b": [3]}, {}], "a.b": 5, "n": None, "e": [], "d": {"x.y": 6}}
    found = {
        path: value_at(value, path)
        for path in ("a.*.b.*", "a.1.b.0", "a.b", "n.x", "e.*.b", "d.x.y", "a.9.b")
    }
    assert found == {
        "a.*.b.*": [1, 2, 3],
        "a.1.b.0": 3,
        "a.b": 5,
        "n.x": None,
        "e.*.b": [],
        "d.x.y": 6,
        "a.9.b": None,
    }


LEVELLED: list[dict[str, Any]] = [
    {"n": 0, "type": "yesno", "level": "hard", "answerable": True, "meta": {"year": 2019}, "tags": ["a"]},
    {"n": 1, "type": "list", "level": "medium", "answerable": False, "meta": {"year": 2020}, "tags": []},
    {"n": 2, "type": "yesno", "level": "easy", "answerable": True, "meta": {}, "tags": ["b", "a"]},
    {"n": 3, "type": "yesno", "level": None, "answerable": "True", "meta": {"year": "2019"}},
]


@pytest.mark.parametrize(
    ("conditions", "rows"),
    [
        ({}, [0, 1, 2, 3]),
        ({"type": "yesno"}, [0, 2, 3]),
        ({"type": "yesno", "level": ["hard", "medium"]}, [0]),
        ({"answerable": True}, [0, 2, 3]),
        ({"answerable": False}, [1]),
        ({"meta.year": 2019}, [0, 3]),
        ({"meta.year": 2019.0}, [0, 3]),
        ({"tags": "a"}, [0, 2]),
        ({"tags.0": "a"}, [0]),
        ({"n": [0, "1"]}, [0, 1]),
    ],
)
def test_every_condition_needs_one_of_its_values(conditions: dict[str, Any], rows: list[int]) -> None:
    met = match_rows(LEVELLED, conditions, "rows")
    assert [row["n"] for row, is_met in zip(LEVELLED, met, strict=True) if is_met] == rows


def test_true_is_not_the_number_one_and_null_is_no_text() -> None:
    for value, wanted in ((1, True), (True, 1), (0, False), ([], "None")):
        assert match_rows([{"x": value}, {"x": wanted}], {"x": wanted}, "rows") == [False, True]


TYPES = "`type` must be 'list', found 'yesno' (3), 'list' (1)"
LEVELS = "`level` must be 'easy' or 'hardest', found 'hard' (1), 'medium' (1), 'easy' (1)"


@pytest.mark.parametrize(
    ("conditions", "problems"),
    [
        (
            {"levle": "hard", "type": "yesno", "meta.yaer": 1},
            (
                "the filter asks for `levle`, which no row has. Did you mean 'level'?",
                "the filter asks for `meta.yaer`, which no row has. Did you mean 'meta'?",
            ),
        ),
        (
            {"type": "list", "level": ["easy", "hardest"]},
            (f"the filter leaves none of 4 rows: {TYPES}; {LEVELS}",),
        ),
    ],
)
def test_a_filter_that_cannot_be_right_says_what_is_there(
    conditions: dict[str, Any], problems: tuple[str, ...]
) -> None:
    with pytest.raises(DataError) as caught:
        match_rows(LEVELLED, conditions, "rows")
    assert caught.value.problems == problems


@pytest.mark.parametrize("wanted", [[], {}, None, [None], [["a"]]])
def test_conditions_without_a_plain_value_are_refused(wanted: Any) -> None:
    with pytest.raises(UsageError, match="'type' needs a text, a number"):
        match_rows(LEVELLED, {"type": wanted}, "rows")


def test_questions_are_kept_by_extra_and_split() -> None:
    questions = [
        Question("1", "?", ("a",), split="dev", extra={"type": "bridge"}),
        Question("2", "?", ("a",), split="train", extra={"type": "bridge"}),
        Question("3", "?", ("a",), split="dev", extra={"type": "comparison"}),
    ]
    kept = filter_questions(questions, {"type": "bridge", "split": "dev"}, "hotpotqa")
    assert [question.id for question in kept] == ["1"]
    with pytest.raises(DataError, match=r"^hotpotqa: the filter asks for `tpye`.*'type'"):
        filter_questions(questions, {"tpye": "bridge"}, "hotpotqa")


def test_tables_of_toml_become_dotted_paths() -> None:
    conditions = {"meta": {"level": "hard", "of": {"year": [1, 2]}}, "a.b": True}
    assert flat(conditions) == {"meta.level": "hard", "meta.of.year": [1, 2], "a.b": True}


def test_the_fingerprint_follows_content_and_order() -> None:
    a, b = Passage("a", "T", "x"), Question("q", "?", ("x",), extra={"n": 1})
    changed = replace(b, extra={"n": 2})
    orders: list[list[Passage | Question]] = [[a, b], [b, a], [a], [], [a, changed]]
    assert len({content_fingerprint(iter(records)) for records in orders}) == 5


CORPORA = {
    "2wikimultihopqa/corpus.jsonl.gz": ("questions_dev.jsonl", "questions_train.jsonl"),
    "hotpotqa/corpus.jsonl.gz": ("questions_dev.jsonl", "questions_train.jsonl"),
    "hotpotqa/corpus_fullwiki.jsonl.gz": ("questions_dev_fullwiki.jsonl",),
    "musique/corpus.jsonl.gz": ("questions_dev.jsonl", "questions_train.jsonl"),
    "nq/corpus.jsonl.gz": ("questions.jsonl",),
    "popqa/corpus.jsonl.gz": ("questions.jsonl",),
    "bioasq/corpus_snippets.jsonl.gz": ("questions_yesno.jsonl",),
}


@pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="shared/data does not lie beside the repository")
@pytest.mark.parametrize("corpus", CORPORA)
def test_the_shared_corpora_and_their_questions_are_read(corpus: str) -> None:
    passages = read_corpus(SHARED_DATA / corpus)
    ids = {p.id for p in passages}
    assert len(ids) == len(passages) > 1000
    for name in CORPORA[corpus]:
        found = read_questions((SHARED_DATA / corpus).parent / name, corpus_ids=ids)
        assert len(found.questions) >= 100
        assert not found.skipped
