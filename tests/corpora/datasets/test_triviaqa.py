"""TriviaQA's files are read, with every spelling of an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets.base import load
from ragc.corpora.datasets.triviaqa import CARD, read
from tests.corpora.datasets.common import problems_of

ANSWER: dict[str, Any] = {
    "Aliases": ["Sunset Blvd", "Sunset Boulevard", "!"],
    "MatchedWikiEntityName": "Sunset Boulevard",
    "NormalizedAliases": ["sunset blvd", "sunset boulevard", ""],
    "NormalizedValue": "sunset boulevard",
    "Type": "WikipediaEntity",
    "Value": "Sunset Boulevard",
}
PAGES = [{"DocSource": "TagMe", "Filename": "Andrew_Lloyd_Webber.txt", "Title": "Andrew Lloyd Webber"}]
ROW: dict[str, Any] = {
    "Answer": ANSWER,
    "EntityPages": PAGES,
    "Question": "Which Lloyd Webber musical premiered in the US on 10th December 1993?",
    "QuestionId": "tc_33",
    "QuestionSource": "http://www.triviacountry.com/",
    "SearchResults": [{"Filename": "35/995.txt", "Rank": 0, "Title": "T", "Url": "http://example.org"}],
}


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "unfiltered-web-dev.json"
    whole = {"Data": rows, "Domain": "unfiltered-web", "Split": "dev", "VerifiedEval": False, "Version": 1.0}
    path.write_text(json.dumps(whole), encoding="utf-8")
    return path


def problems(path: Path) -> tuple[str, ...]:
    return problems_of(CARD, read, path)


def test_every_spelling_that_is_not_blank_is_an_answer_once(tmp_path: Path) -> None:
    checked = ANSWER | {"HumanAnswers": ["Sunset Boulevard", "the boulevard"]}
    rows = (ROW, ROW | {"QuestionId": "tc_40", "Answer": checked})
    loaded = load(CARD, read, write(tmp_path, *rows))
    first, second = loaded.questions
    assert (first.id, first.question) == ("tc_33", ROW["Question"])
    assert first.answers == ("Sunset Boulevard", "Sunset Blvd", "!", "sunset blvd", "sunset boulevard")
    assert second.answers == (*first.answers, "the boulevard")
    assert first.extra == {
        "QuestionSource": "http://www.triviacountry.com/",
        "EntityPages": PAGES,
        "Type": "WikipediaEntity",
    }
    assert (loaded.passages, first.context_ids, first.gold_ids) == ((), (), ())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"Answer": "Sunset"}, "`Answer` is a string, an object is needed"),
        ({"Answer": ANSWER | {"Value": 5}}, "`Answer`: `Value` is a number, a string is needed"),
        ({"Answer": {"Aliases": ["x"]}}, "`Answer`: `Value` is missing."),
        ({"Answer": ANSWER | {"Aliases": "x"}}, "`Answer`: `Aliases` is a string, a list is needed"),
        (
            {"Answer": ANSWER | {"NormalizedAliases": ["x", 5]}},
            "`Answer`: `NormalizedAliases[1]` is a number, a string is needed",
        ),
        ({"Question": None}, "`Question` is null, a string is needed"),
        ({"QuestionId": 33}, "`QuestionId` is a number, a string is needed"),
    ],
)
def test_a_wrong_type_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    assert problems(write(tmp_path, ROW, ROW | {"QuestionId": "tc_40"} | change)) == (f"item 2: {problem}",)


def test_another_object_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, ROW)
    path.write_text('{"data": [], "version": "1.1"}')
    (problem,) = problems(path)
    contents = "holds an object with 'data', 'version'"
    assert problem == f"{contents}; a list, or an object with the list `Data`, is needed"
