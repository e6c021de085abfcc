"""Files are read as the contract says, and everything wrong with one is said at once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.files.records import MAX_LISTED, content_fingerprint, read_corpus, read_questions
from ragc.errors import DataError
from ragc.records import Passage, Question
from tests.paths import SHARED_DATA

GOOD = {"id": "q1", "question": "Who?", "answers": ["Ada"]}
DATA = SHARED_DATA


def write(folder: Path, *rows: Any, name: str = "questions.jsonl") -> Path:
    path = folder / name
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def problems(path: Path, **more: Any) -> tuple[str, ...]:
    with pytest.raises(DataError) as caught:
        read_questions(path, **more)
    return caught.value.problems


def test_fields_go_where_they_belong(tmp_path: Path) -> None:
    named = {"id": 7, "gold_ids": ["a", 3], "context_ids": None, "query_time": "2024", "split": "dev"}
    row = GOOD | named | {"level": {"n": 1}}
    (question,) = read_questions(write(tmp_path, "", row, "  "))
    assert question == Question(
        "7", "Who?", ("Ada",), "dev", gold_ids=("a", "3"), query_time="2024", extra={"level": {"n": 1}}
    )


def test_passages_may_have_no_title_and_extra_fields(tmp_path: Path) -> None:
    path = write(
        tmp_path, {"id": "C#", "title": "", "text": "t", "pmid": "1"}, {"id": 2, "title": "T", "text": ""}
    )
    assert read_corpus(path) == (Passage("C#", "", "t"), Passage("2", "T", ""))


@pytest.mark.parametrize("name", ["questions.jsonl.gz", "questions.jsonl"])
def test_gzip_is_known_by_its_first_bytes_and_a_byte_order_mark_is_skipped(tmp_path: Path, name: str) -> None:
    text = b"\xef\xbb\xbf" + json.dumps(GOOD).encode() + b"\r\n"
    (tmp_path / name).write_bytes(gzip.compress(text))
    packed = read_questions(tmp_path / name)
    (tmp_path / name).write_bytes(text)
    assert packed == read_questions(tmp_path / name) == (Question("q1", "Who?", ("Ada",)),)


def test_a_limit_looks_at_no_more_than_that(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, GOOD | {"id": "q2"}, "broken")
    assert [q.id for q in read_questions(path, limit=2)] == ["q1", "q2"]


def test_every_problem_is_reported_with_its_line(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        GOOD,
        "{broken",
        "[1]",
        "",
        {"question": " ", "answer": ["x"]},
        GOOD | {"id": True, "answers": []},
        GOOD | {"id": "q6", "answers": "Ada"},
        GOOD | {"id": "q7", "answers": ["", 5, None], "gold_ids": "a", "split": 3},
        GOOD,
        '{"id": "q9", "question": "Who?", "answers": ["Ada"], "score": NaN}',
        '{"id": "q10", "question": "Who?", "answers": ["Ada"], "score": 1e999}',
        '{"id": "q11", "question": "\\ud800", "answers": ["Ada"]}',
    )
    assert problems(path) == (
        "line 2: not JSON: Expecting property name enclosed in double quotes at column 2",
        "line 3: is a list, an object is needed",
        "line 5: `id` is missing.",
        "line 5: `question` is empty",
        "line 5: `answers` is missing. Did you mean 'answer'?",
        "line 6: `id` is true or false, a string is needed",
        "line 6: `answers` is an empty list, at least one is needed",
        "line 7: `answers` is a string, a list is needed",
        "line 8: `answers[0]` is empty",
        "line 8: `answers[1]` is a number, a string is needed",
        "line 8: `answers[2]` is null, a string is needed",
        "line 8: `split` is a number, a string is needed",
        "line 8: `gold_ids` is a string, a list is needed",
        "line 9: `id` 'q1' was used on line 1 already",
        "line 10: not JSON: NaN is no JSON number",
        "line 11: not JSON: 1e999 is no JSON number",
        "line 12: a string holds half of a surrogate pair, which is no character",
    )


def test_a_problem_of_every_row_is_said_once_with_the_table_that_helps(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    rows = [{"question": f"Who is {n}?", "answer": "Ada", "gold_ids": ["p"]} for n in range(30)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    with pytest.raises(DataError) as caught:
        read_questions(file)
    assert len(caught.value.problems) == 60
    table = "Name its field in the recipe's table [data.fields], such as"
    assert [line.strip() for line in str(caught.value).splitlines()[1:]] == [
        f'every row: `id` is missing. {table} id = "#", the number of the row.',
        f"every row: `answers` is missing. Did you mean 'answer'? {table} answers = \"answer\".",
    ]


def test_a_long_list_of_problems_is_cut_in_the_message_only(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, *["{"] * (MAX_LISTED + 5))
    with pytest.raises(DataError) as caught:
        read_questions(path)
    lines = str(caught.value).splitlines()
    assert len(caught.value.problems) == MAX_LISTED + 5
    assert len(lines) == MAX_LISTED + 2
    assert lines[0] == f"{path}: {MAX_LISTED + 5} problems"
    assert lines[-1] == "  and 5 more"


def test_ids_outside_the_corpus_are_named(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD | {"gold_ids": ["a", "zz"], "context_ids": ["1", "2", "3", "4", "a"]})
    assert problems(path, corpus_ids=["a"]) == (
        "line 1: `gold_ids` names 'zz', not in the corpus",
        "line 1: `context_ids` names '1', '2', '3' and 1 more, not in the corpus",
    )
    assert read_questions(path)[0].gold_ids == ("a", "zz")


def test_bytes_that_are_not_utf8_are_located(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    start = path.stat().st_size
    path.write_bytes(path.read_bytes() + b'  {"id": "\xe9"}\n')
    assert problems(path) == (
        f"line 2: not UTF-8: byte 0xe9 at offset {start + 10} of the file; save it as UTF-8",
    )
    assert path.read_bytes()[start + 10] == 0xE9


def test_deep_nesting_and_long_numbers_are_problems_not_crashes(tmp_path: Path) -> None:
    assert len(problems(write(tmp_path, "[" * 100_000, "9" * 10_000))) == 2


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_a_file_without_rows_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "empty.jsonl.gz"
    path.write_text(text)
    with pytest.raises(DataError, match="holds no question"):
        read_questions(path)
    with pytest.raises(DataError, match="holds no passage"):
        read_corpus(path)


def test_a_missing_file_is_answered_with_the_nearest_one(tmp_path: Path) -> None:
    write(tmp_path, GOOD, name="questions_dev.jsonl")
    path = tmp_path / "question_dev.jsonl"
    (problem,) = problems(path)
    assert str(path) in problem
    assert "Did you mean 'questions_dev.jsonl'?" in problem
    assert "folder does not exist" in problems(tmp_path / "nowhere" / "q.jsonl")[0]
    assert "is a folder" in problems(tmp_path)[0]


def test_a_broken_gzip_stream_is_said_to_be_broken(tmp_path: Path) -> None:
    rows = "".join(json.dumps(GOOD | {"id": f"q{n * 7919 % 1000}x{n}"}) + "\n" for n in range(1000))
    packed = gzip.compress(rows.encode())
    path = tmp_path / "questions.jsonl.gz"
    path.write_bytes(packed[: len(packed) // 2])
    assert "ends early, after row" in problems(path)[-1]
    path.write_bytes(packed[:30] + bytes(40) + packed[70:])
    assert "is damaged" in problems(path)[-1]


def test_an_id_that_would_pass_for_a_chunk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'page#0' ends in '#0'"):
        read_corpus(write(tmp_path, {"id": "page#0", "title": "", "text": "t"}))


def test_the_fingerprint_follows_content_and_order() -> None:
    a, b = Passage("a", "T", "x"), Passage("b", "T", "x")
    assert content_fingerprint([a, b]) == content_fingerprint(iter([a, b]))
    assert len({content_fingerprint(x) for x in ([a, b], [b, a], [a], [])}) == 4
    one, two = (Question("q", "?", ("x",), extra={"n": n}) for n in (1, 2))
    assert content_fingerprint([one]) != content_fingerprint([two])


CORPORA = {
    "2wikimultihopqa/corpus.jsonl.gz": ("questions_dev.jsonl", "questions_train.jsonl"),
    "hotpotqa/corpus.jsonl.gz": ("questions_dev.jsonl", "questions_train.jsonl"),
    "hotpotqa/corpus_fullwiki.jsonl.gz": ("questions_dev_fullwiki.jsonl",),
    "musique/corpus.jsonl.gz": ("questions_dev.jsonl", "questions_train.jsonl"),
    "nq/corpus.jsonl.gz": ("questions.jsonl",),
    "popqa/corpus.jsonl.gz": ("questions.jsonl",),
    "bioasq/corpus_snippets.jsonl.gz": ("questions_yesno.jsonl",),
    "alce/asqa_corpus.jsonl": (),
}


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
@pytest.mark.parametrize("corpus", CORPORA)
def test_the_shared_corpora_and_their_questions_are_read(corpus: str) -> None:
    passages = read_corpus(DATA / corpus)
    ids = {p.id for p in passages}
    assert len(ids) == len(passages) > 1000
    for name in CORPORA[corpus]:
        questions = read_questions((DATA / corpus).parent / name, corpus_ids=ids)
        assert len(questions) >= 100
        assert all(q.answers for q in questions)


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
@pytest.mark.parametrize(
    ("name", "count"),
    [("alce/asqa_questions.jsonl", 400), ("openbookqa/questions_test.jsonl", 500),
     ("bioasq/questions_other_types.jsonl.gz", 1692)],
)  # fmt: skip
def test_shared_questions_without_answers_are_refused_row_by_row(name: str, count: int) -> None:
    row_problems = problems(DATA / name)
    assert len(row_problems) == count
    assert all("`answers` is missing." in problem for problem in row_problems)
