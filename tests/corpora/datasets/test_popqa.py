"""PopQA's table and the JSON made from it are read alike."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets.base import load
from ragc.corpora.datasets.popqa import CARD, read
from tests.corpora.datasets.common import problems_of, write_lines
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "popqa"
real = pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")

ROW: dict[str, Any] = {
    "id": 4222362,
    "subj": "George Rankin",
    "prop": "occupation",
    "obj": "politician",
    "s_uri": "http://www.wikidata.org/entity/Q5543720",
    "o_uri": "http://www.wikidata.org/entity/Q82955",
    "s_wiki_title": "George Rankin",
    "o_wiki_title": "Politician",
    "s_pop": 142,
    "o_pop": 25692,
    "question": "What is George Rankin's occupation?",
    "possible_answers": json.dumps(["politician", 'a "pol"', "politician"]),
}
PARAGRAPHS = [
    {"title": "George Rankin", "text": "He was a politician.", "is_supporting": True},
    {"title": "Other", "text": "Another man.", "is_supporting": False},
]


def table(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "popQA.tsv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    return path


def lines(folder: Path, *rows: Any) -> Path:
    return write_lines(folder / "popQA.jsonl", *rows)


def problems(path: Path) -> tuple[str, ...]:
    return problems_of(CARD, read, path)


def test_a_table_and_json_lines_say_the_same(tmp_path: Path) -> None:
    loaded = load(CARD, read, table(tmp_path, ROW))
    (question,) = loaded.questions
    assert (question.id, question.question) == ("4222362", "What is George Rankin's occupation?")
    assert question.answers == ("politician", 'a "pol"')
    extra_fields = set(ROW) - {"id", "question", "possible_answers"}
    assert question.extra == {name: ROW[name] for name in extra_fields}
    assert (loaded.passages, question.context_ids) == ((), ())
    assert load(CARD, read, lines(tmp_path, ROW)) == loaded
    spelled = ROW | {"possible_answers": json.loads(ROW["possible_answers"])}
    assert load(CARD, read, lines(tmp_path, spelled)) == loaded


def test_paragraphs_become_passages_and_the_supporting_ones_are_gold(tmp_path: Path) -> None:
    loaded = load(CARD, read, lines(tmp_path, ROW | {"paragraphs": PARAGRAPHS}))
    (question,) = loaded.questions
    assert [(p.title, p.text) for p in loaded.passages] == [(p["title"], p["text"]) for p in PARAGRAPHS]
    assert question.context_ids == tuple(passage.id for passage in loaded.passages)
    assert question.gold_ids == question.context_ids[:1]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"possible_answers": '["politi'}, "`possible_answers` is a string, a list is needed"),
        ({"possible_answers": "[NaN]"}, "`possible_answers` is a string, a list is needed"),
        ({"possible_answers": "[1]"}, "`possible_answers[0]` is a number, a string is needed"),
        ({"possible_answers": "[]"}, "`possible_answers` is an empty list, at least one is needed"),
        ({"s_pop": "many"}, "`s_pop` is a string, a whole number is needed"),
        ({"question": ""}, "`question` is empty"),
        ({"paragraphs": "text"}, "`paragraphs` is a string, a list is needed"),
        (
            {"paragraphs": [{"title": "T", "text": "t"}]},
            "`paragraphs[0]`: `is_supporting` is neither true nor false",
        ),
    ],
)
def test_a_wrong_type_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    assert problems(lines(tmp_path, ROW, ROW | {"id": 1} | change)) == (f"line 2: {problem}",)


@pytest.mark.parametrize("name", ["id", "question", "possible_answers"])
def test_a_missing_column_is_named(tmp_path: Path, name: str) -> None:
    path = table(tmp_path, {field: value for field, value in ROW.items() if field != name})
    (problem,) = problems(path)
    assert problem.startswith(f"has no column `{name}`; its columns are ")


def test_a_truncated_table_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, ROW, ROW | {"id": 1})
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    assert problems(path) == ("line 3: is no table: unexpected end of data",)
    path.write_bytes(whole[: whole.rindex(b"politician\thttp")])
    assert problems(path) == ("line 3: has another number of values than the header, 12",)


@real
def test_the_real_questions_are_read() -> None:
    loaded = load(CARD, read, DATA / "neuropath_popqa1000.json.gz")
    assert (len(loaded.questions), len(loaded.passages), loaded.skipped) == (1000, 1475, ())
    named = {passage.id: passage.title for passage in loaded.passages}
    chosen = [loaded.questions[n] for n in (0, 9, -1)]
    assert [(q.id, q.question, q.extra["s_pop"]) for q in chosen] == [
        ("0", "What is George Rankin's occupation?", 142),
        ("9", "What is Þorsteinn Bachmann's occupation?", 1252),
        ("999", "In what city was Richard Rawlinson born?", 298),
    ]
    assert [q.answers for q in chosen] == [
        ("politician", "political leader", "political figure", "polit.", "pol"),
        ("actor", "actress", "actors", "actresses"),
        ("London", "London, UK", "London, United Kingdom", "London, England", "Modern Babylon"),
    ]
    assert [[named[i] for i in q.gold_ids] for q in chosen] == [
        ["George Rankin", "Politician"],
        ["Þorsteinn Bachmann", "Actor"],
        ["Richard Rawlinson", "London"],
    ]
