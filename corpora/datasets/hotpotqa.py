"""HotpotQA and 2WikiMultiHopQA: questions over several Wikipedia articles, with ten passages each.

In HotpotQA's distractor setting both supporting passages are among the ten. In its fullwiki setting the ten
are search results, so supporting ones may be missing and a few questions have no passage at all. In JSON
lines derived from 2WikiMultiHopQA the nested fields may be JSON text, and questions without passages are left
out. The official test files have no answers and cannot be read.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, Field
from pydantic_core import from_json

from ragc.corpora.datasets.base import Item, Skip, passage_of
from ragc.corpora.files.rows import FileRow, Text, Words, as_json
from ragc.records import Question

_NESTED = ("context", "supporting_facts", "evidences", "evidences_id")
_EXTRA = ("type", "level", "entity_ids", "answer_id", *_NESTED[1:])


class Row(BaseModel):
    """A question; `context` has pairs of a title and sentences, facts are pairs of a title and a number."""

    id: Words = Field(validation_alias=AliasChoices("_id", "id"))
    question: Words
    answer: Words
    context: list[tuple[Text, list[Text]]]
    supporting_facts: Annotated[list[tuple[Text, Any]], Field(min_length=1)]


def read(row: FileRow, dataset: str) -> Item | None:
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
    if not (found := row.read(Row)):
        return None
    glue = "" if dataset == "hotpotqa" else " "
    passages = {
        passage.id: passage
        for title, sentences in found.context
        for passage in [passage_of(dataset, title, glue.join(sentences))]
    }
    by_title: dict[str, list[str]] = {}
    for passage in passages.values():
        by_title.setdefault(passage.title, []).append(passage.id)
    titles = dict.fromkeys(fact[0].strip() for fact in found.supporting_facts)
    complete = titles.keys() <= by_title.keys()
    question = Question(
        found.id,
        found.question,
        (found.answer,),
        gold_ids=tuple(id for title in titles for id in by_title[title]) if complete else (),
        context_ids=tuple(passages),
        extra={name: as_json(row.values[name]) for name in _EXTRA if row.values.get(name) not in (None, "")},
    )
    return question, tuple(passages.values())
