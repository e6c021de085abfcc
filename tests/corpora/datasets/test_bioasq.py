"""BioASQ's golden files are read, whatever shape their exact answers have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ragc.corpora.datasets.base import load
from ragc.corpora.datasets.bioasq import CARD, read
from ragc.errors import DataError
from tests.corpora.datasets.common import Reader
from tests.paths import SHARED_DATA

DATA = SHARED_DATA / "bioasq" / "orig"
SNIPPET = {
    "text": "Anti-CD3 preserves C-peptide. ", "document": "http://www.ncbi.nlm.nih.gov/pubmed/25941654",
    "beginSection": "abstract", "offsetInBeginSection": 1,
}  # fmt: skip
GOOD: dict[str, Any] = {
    "id": "5e30", "body": "Does it help?", "type": "yesno", "exact_answer": "Yes",
    "ideal_answer": ["Yes, it does."], "documents": [SNIPPET["document"]], "snippets": [SNIPPET, SNIPPET],
}  # fmt: skip


def write_golden(path: Path, *rows: Any) -> Path:
    path.write_text(json.dumps({"questions": rows}), encoding="utf-8")
    return path


READER = Reader(CARD, read, "golden.json", write_golden)
load_rows, problems = READER.load, READER.problems


def test_a_question_its_snippets_and_the_pmid_in_their_title(tmp_path: Path) -> None:
    dataset = load_rows(tmp_path, GOOD)
    (question,), (passage,) = dataset.questions, dataset.passages
    assert (question.id, question.question, question.answers) == ("5e30", "Does it help?", ("yes",))
    assert (passage.title, passage.text) == ("PMID 25941654", "Anti-CD3 preserves C-peptide.")
    assert question.gold_ids == question.context_ids == (passage.id,)
    assert question.extra == {
        "type": "yesno", "documents": ["25941654"], "exact_answer": "Yes", "ideal_answer": ["Yes, it does."]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "exact", "answers"),
    [
        ("yesno", ["no"], ("no",)),
        ("factoid", "TP53", ("TP53",)),
        ("factoid", ["TP53", "p53"], ("TP53", "p53")),
        ("factoid", [["TP53", "", "p53"]], ("TP53", "p53")),
        ("list", [["a", "b"], ["c"], ["a"]], ("a", "b", "c")),
        ("summary", "n/a", ("Yes, it does.",)),
    ],
)
def test_exact_answers_come_as_text_list_or_list_of_lists(
    tmp_path: Path, kind: str, exact: Any, answers: tuple[str, ...]
) -> None:
    (question,) = load_rows(tmp_path, GOOD | {"type": kind, "exact_answer": exact}).questions
    assert question.answers == answers
    assert question.extra["exact_answer"] == exact


def test_a_summary_has_its_ideal_answers(tmp_path: Path) -> None:
    row = {name: value for name, value in GOOD.items() if name != "exact_answer"}
    both = row | {"type": "summary", "ideal_answer": ["One.", "Two."]}
    (question,) = load_rows(tmp_path, both).questions
    assert question.answers == ("One.", "Two.")
    assert "exact_answer" not in question.extra
    (question,) = load_rows(tmp_path, both | {"ideal_answer": "One."}).questions
    assert question.answers == ("One.",)


def test_a_blank_answer_leaves_the_question_out_and_is_counted(tmp_path: Path) -> None:
    dataset = load_rows(tmp_path, GOOD, GOOD | {"id": "2", "type": "list", "exact_answer": [[" "]]})
    assert len(dataset.questions) == 1
    assert dataset.skipped == ("item 2: a list question whose `exact_answer` is blank",)


def test_a_question_may_have_no_snippets(tmp_path: Path) -> None:
    dataset = load_rows(tmp_path, GOOD | {"snippets": []})
    assert (dataset.questions[0].context_ids, dataset.passages) == ((), ())


def test_what_is_wrong_is_said_with_its_place(tmp_path: Path) -> None:
    short = {name: value for name, value in GOOD.items() if name not in ("body", "exact_answer")}
    assert problems(
        tmp_path,
        short | {"bodi": "?"},
        GOOD | {"id": "2", "exact_answer": "maybe", "snippets": [SNIPPET, {"text": 1}, "x"]},
        GOOD | {"id": "3", "exact_answer": [{"a": 1}], "snippets": {}},
        GOOD | {"id": "4", "type": "Yes"},
        GOOD | {"id": "5"},
        GOOD | {"id": "5"},
    ) == (
        "item 1: `exact_answer` is missing. Did you mean 'ideal_answer'?",
        "item 1: `body` is missing. Did you mean 'bodi'?",
        "item 2: `exact_answer` of a yes/no question is 'maybe', yes or no is needed",
        "item 2: `snippets[1]`: `document` is missing.",
        "item 2: `snippets[1]`: `text` is a number, a string is needed",
        "item 2: `snippets[2]` is a string, an object is needed",
        "item 3: `exact_answer` holds an object, a string or lists of strings are needed",
        "item 3: `snippets` is an object, a list is needed",
        "item 4: `type` is 'Yes', one of yesno, factoid, list, summary is needed.",
        "item 6: the id '5' was used before",
    )


def test_another_object_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "golden.json"
    path.write_text(json.dumps({"question": []}), encoding="utf-8")
    with pytest.raises(DataError, match="the list `questions`"):
        load(CARD, read, path)


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
def test_the_real_golden_files() -> None:
    by_year = dict.fromkeys(CARD.splits, 0)
    ids: set[str] = set()
    for path in sorted(DATA.glob("*_golden.json.gz")):
        dataset = load(CARD, read, path)
        assert not dataset.skipped
        by_year[path.name.partition("B")[0] + "B test"] += len(dataset.questions)
        ids |= {question.id for question in dataset.questions}
    assert by_year == CARD.splits
    assert len(ids) == 2310


@pytest.mark.skipif(not DATA.is_dir(), reason="shared/data does not lie beside the repository")
def test_a_real_golden_file() -> None:
    dataset = load(CARD, read, DATA / "8B2_golden.json.gz")
    assert (len(dataset.questions), len({p.id for p in dataset.passages})) == (100, 841)
    first, tenth, last = (dataset.questions[at] for at in (0, 9, -1))
    assert (first.id, first.answers) == ("5e30f638fbd6abf43b000045", ("yes",))
    assert first.question == "Does teplizumab hold promise for diabetes prevention?"
    assert len(first.context_ids) == 20
    assert first.context_ids[0] == dataset.passages[0].id
    assert dataset.passages[0].title == "PMID 25941654"
    assert (tenth.id, tenth.extra["type"], tenth.answers) == ("5e5b93a2752ebcdc7a000003", "yesno", ("yes",))
    assert (last.id, last.extra["type"]) == ("5cebeb82a49efeb44c000009", "factoid")
    assert last.answers == ("Mutations in genes that are associated with cohesin",)
    assert (len(tenth.context_ids), len(last.context_ids)) == (2, 2)
