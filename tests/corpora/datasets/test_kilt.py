"""KILT's files are read: answers from the outputs, the pages that support them kept beside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets.base import load
from ragc.corpora.datasets.kilt import CARD, ELI5, read
from tests.corpora.datasets.common import problems_of, write_lines
from tests.paths import SHARED_DATA

DATA = SHARED_DATA
real = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")

PAGE = {"wikipedia_id": "10593264", "title": "Therefore sign", "start_paragraph_id": 1, "end_paragraph_id": 1}
OTHER = {"wikipedia_id": "9", "title": "Ellipsis", "meta": {"evidence_span": ["three dots"]}}
ROW: dict[str, Any] = {
    "id": "6915606477668963399",
    "input": "what do the 3 dots mean in math",
    "output": [
        {"answer": "the therefore sign", "provenance": [PAGE]},
        {"answer": "therefore sign"},
        {"provenance": [PAGE, OTHER]},
        {},
        {"answer": "the therefore sign", "meta": {"score": 3}},
        {"answer": " "},
    ],
    "meta": {},
}


def write(folder: Path, *rows: Any) -> Path:
    return write_lines(folder / "nq-dev-kilt.jsonl", *rows)


def problems(path: Path) -> tuple[str, ...]:
    return problems_of(CARD, read, path)


def test_answers_stand_once_and_pages_go_to_extra(tmp_path: Path) -> None:
    loaded = load(CARD, read, write(tmp_path, ROW, ROW | {"id": "2", "meta": {"partial_evidence": []}}))
    first, second = loaded.questions
    assert (first.id, first.question) == (ROW["id"], "what do the 3 dots mean in math")
    assert first.answers == ("the therefore sign", "therefore sign")
    assert first.extra == {"provenance": [PAGE, PAGE, OTHER], "titles": ["Therefore sign", "Ellipsis"]}
    assert second.extra["meta"] == {"partial_evidence": []}
    assert (loaded.passages, first.context_ids, first.gold_ids) == ((), (), ())


def test_copies_that_call_the_input_a_question_are_read_alike(tmp_path: Path) -> None:
    renamed = {"question" if name == "input" else name: value for name, value in ROW.items()}
    assert load(CARD, read, write(tmp_path, renamed)) == load(CARD, read, write(tmp_path, ROW))


def test_a_long_answer_is_kept_whole(tmp_path: Path) -> None:
    text = "Because.\n\n* first\n* second " + "word " * 2000
    row = {"id": "1oy5tc", "input": "why?", "output": [{"answer": text, "meta": {"score": 34}}]}
    (question,) = load(ELI5, read, write(tmp_path, row)).questions
    assert question.answers == (text,)
    assert ELI5.answer_format == "long"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"input": 3}, "`input` is a number, a string is needed"),
        ({"output": {}}, "`output` is an object, a list is needed"),
        ({"output": []}, "`output` is an empty list, at least one is needed"),
        ({"output": ["x"]}, "`output[0]` is a string, an object is needed"),
        ({"output": [{"answer": ["x"]}]}, "`output[0]`: `answer` is a list, a string is needed"),
        ({"output": [{"provenance": [PAGE]}]}, "`output` holds no answer"),
        (
            {"output": [{"answer": "x", "provenance": [PAGE, 5]}]},
            "`output[0]`: `provenance[1]` is a number, an object is needed",
        ),
        (
            {"output": [{"answer": "x", "provenance": [{"title": 5}]}]},
            "`output[0]`: `provenance[0]`: `title` is a number, a string is needed",
        ),
    ],
)
def test_a_wrong_type_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    assert problems(write(tmp_path, ROW, ROW | {"id": "2"} | change)) == (f"line 2: {problem}",)


NELSON = "Who, after marrying in 1791, and living in Naples, became the mistress of Lord Nelson"
REAL = {
    "nq/htmlrag_nq400_kilt.jsonl.gz": [
        ("6915606477668963399", "what do the 3 dots mean in math", "the therefore sign", 4),
        (
            "-1602885085222027775",
            "what does the sun represent on the uruguay flag",
            "the May Revolution of 1810",
            4,
        ),
        (
            "-7373167931693684593",
            "created propaganda to support the war effort & encourage the sale of war bonds",
            "the government",
            1,
        ),
    ],
    "triviaqa/htmlrag_triviaqa400_kilt.jsonl.gz": [
        (
            "sfq_17995",
            "The Welsh river Elwy burst its banks in November 2012, flooding much of which city?",
            "Llanelwy",
            14,
        ),
        ("odql_2997", "Which Hollywood actor was married to Uma Thurman 1998 - 2004?", "Ethan Hawke", 7),
        ("qw_1573", f"{NELSON}, having his child, Horatia, in 1803?", "Lady Hamilton", 14),
    ],
}
"""Id, question, first answer and number of answers of the records 0, 9 and last."""


@real
@pytest.mark.parametrize("name", REAL)
def test_the_real_questions_are_read(name: str) -> None:
    loaded = load(CARD, read, DATA / name)
    assert (len(loaded.questions), loaded.passages, loaded.skipped) == (400, (), ())
    chosen = [loaded.questions[n] for n in (0, 9, -1)]
    assert [(q.id, q.question, q.answers[0], len(q.answers)) for q in chosen] == REAL[name]
    assert all(question.extra["titles"] for question in loaded.questions)
