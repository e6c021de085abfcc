"""HotpotQA and 2WikiMultiHopQA: questions over several Wikipedia articles, with ten passages each.

In HotpotQA's distractor setting both supporting passages are among the ten. In its fullwiki setting the ten
are search results, so supporting ones may be missing and a few questions have no passage at all. In JSON
lines derived from 2WikiMultiHopQA the nested fields may be JSON text, and questions without passages are left
out. The official test files have no answers and cannot be read.
"""

from __future__ import annotations

from contextlib import suppress

from pydantic_core import from_json

from ragc.corpora.datasets.base import Item, Skip, passage_of
from ragc.corpora.files.row import FileRow
from ragc.corpora.files.values import as_json
from ragc.records import Question

_NESTED = ("context", "supporting_facts", "evidences", "evidences_id")
_EXTRA = ("type", "level", "entity_ids", "answer_id", *_NESTED[1:])


def read(row: FileRow, dataset: str) -> Item:
    """Returns the question of `row` and its passages, whose sentences are joined.

    `gold_ids` are all supporting passages, or none if the row lacks any of them, because recall over a part
    would look like recall over all.
    """
    for name in _NESTED:
        if isinstance(text := row.values.get(name), str):
            with suppress(ValueError):  # other texts are refused below
                row.values[name] = from_json(text)
    if dataset != "hotpotqa" and row.values.get("context") in (None, []):
        raise Skip("a question without passages is left out (`context` is missing or empty)")
    glue, passages = "" if dataset == "hotpotqa" else " ", []
    for number, pair in row.enumerate_items(row.items("context", needed=row.values.get("context") != [])):
        match pair:
            case [str(title), [*sentences]] if all(isinstance(sentence, str) for sentence in sentences):
                passages.append(passage_of(dataset, title.strip(), glue.join(sentences).strip()))
            case _:
                row.problems.append(f"`context[{number}]` is not a list of a title and a list of sentences")
    titles: dict[str, list[str]] = {}
    for number, fact in row.enumerate_items(row.items("supporting_facts", needed=True)):
        match fact:
            case [str(title), _, *_]:
                titles[title.strip()] = [passage.id for passage in passages if passage.title == title.strip()]
            case _:
                row.problems.append(
                    f"`supporting_facts[{number}]` is not a list of a title and a sentence's number"
                )
    gold = dict.fromkeys(id for ids in titles.values() for id in ids) if all(titles.values()) else {}
    question = Question(
        id=row.text("_id" if "_id" in row.values or "id" not in row.values else "id"),
        question=row.text("question"),
        answers=(row.text("answer"),),
        gold_ids=tuple(gold),
        context_ids=tuple(dict.fromkeys(passage.id for passage in passages)),
        extra={name: as_json(row.values[name]) for name in _EXTRA if row.values.get(name) not in (None, "")},
    )
    return question, tuple(passages)
