"""2WikiMultiHopQA: questions over two to four Wikipedia articles, with ten passages and evidence triples.

The layout is HotpotQA's. In JSON lines derived from the official files the nested fields may be JSON text.
The official test file has no answers and cannot be read.
"""

from __future__ import annotations

import json

from ragc.corpora.datasets.base import Card, Item, Skip
from ragc.corpora.datasets.hotpotqa import read_nonblank, supporting_ids, titled_passages
from ragc.corpora.files.row import FileRow, is_flat
from ragc.records import Question

CARD = Card(
    id="2wikimultihopqa",
    about="multi-hop questions over Wikipedia and Wikidata, each with ten passages and its evidence triples",
    file="train.json or dev.json of data.zip, data_ids.zip or data_ids_april7.zip",
    licence="Apache-2.0 (of the official repository; none is stated for the data)",
    home="https://github.com/Alab-NII/2wikimultihop",
    citation="Xanh Ho, Anh-Khoa Duong Nguyen, Saku Sugawara, Akiko Aizawa. Constructing A Multi-hop QA "
    "Dataset for Comprehensive Evaluation of Reasoning Steps. COLING 2020.",
    splits={"train": 167_454, "dev": 12_576},
    metrics=("em", "f1", "acc", "prefrag_acc", "rqrag_f1", "sp_em", "sp_f1"),
)

NESTED = ("context", "supporting_facts", "evidences", "evidences_id")


def read(row: FileRow) -> Item:
    """Returns the question of `row` and its passages, sentences joined with a space.

    `extra` has `type`, `supporting_facts`, `evidences` and, in the later releases, `entity_ids`,
    `evidences_id` and `answer_id`. Raises Skip for a row without passages.
    """
    for name in NESTED:
        spell_out(row, name)
    if row.values.get("context") in (None, []):
        raise Skip("a question without passages is left out (`context` is missing or empty)")
    passages = titled_passages(row, CARD.id, glue=" ")
    facts = {name: row.items(name) for name in NESTED[1:] if row.values.get(name) is not None}
    question = Question(
        id=row.text("_id" if "_id" in row.values or "id" not in row.values else "id"),
        question=row.text("question"),
        answers=(row.text("answer"),),
        gold_ids=supporting_ids(row, passages),
        context_ids=tuple(passage.id for passage in passages),
        extra=read_nonblank(row, "type", "entity_ids", "answer_id") | facts,
    )
    return question, passages


def spell_out(row: FileRow, name: str) -> None:
    """Replaces JSON text in the field `name` by the value it spells.

    Invalid text and other values are unchanged: the reader of the field reports the problem.
    """
    text = row.values.get(name)
    if not isinstance(text, str):
        return
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8")  # no NaN, no lone surrogates
    except (ValueError, RecursionError):
        return
    if not isinstance(value, dict | list) or is_flat(value):
        row.values[name] = value
