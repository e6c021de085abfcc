"""Real questions and passages: parts and copies that count, and others that must not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ragc.programs import method
from ragc.programs.ggatrieval.copying import is_copied, parts_in
from ragc.programs.runtime import Runtime
from ragc.records import Passage
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget
from tests.paths import SHARED_DATA

Annotated = Mapping[str, Mapping[str, list[str]]]

ANNOTATIONS: Mapping[str, Annotated] = json.loads(
    Path(__file__).with_name("annotations.json").read_text("utf-8")
)
PARTS, NO_PARTS, PIECES, NO_PIECES = ANNOTATIONS.values()
"""Texts by file and id of real questions and passages, which are read where they lie.

Written by hand, in the forms in which people and models give them, before the checks that they test: parts
of questions (a comma stands between two of one slot), what is none (invented, of another question, or with a
fact changed), pieces of passages as models copy them, and what is none (invented, words of the question, or
with a fact changed).
"""

pytestmark = pytest.mark.skipif(
    not all((SHARED_DATA / file).is_file() for file in (*PARTS, *PIECES)),
    reason="the data sets of ../shared/data are not here",
)
SLOTS = (
    "subject", "predicate", "object", "predicative", "attributive", "adverbial", "complement", "apposition",
)  # fmt: skip


@cache
def rows(file: str) -> dict[str, dict[str, Any]]:
    """The rows of a data set by id."""
    path = SHARED_DATA / file
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    return {row["id"]: row for row in map(json.loads, text.split("\n")[:-1])}


def cases(annotations: Annotated) -> Iterator[tuple[dict[str, Any], str]]:
    """Each annotation beside its row."""
    for file, by_id in annotations.items():
        for id, texts in by_id.items():
            for text in texts:
                yield rows(file)[id], text


def share_of_parts(annotated: Annotated) -> float:
    """The share of the texts that count as parts of their questions."""
    counted = [not parts_in(part, row["question"])[1] for row, part in cases(annotated)]
    assert len(counted) >= 40
    return sum(counted) / len(counted)


def share_of_copies(annotated: Annotated) -> float:
    """The share of the texts that count as copied from their passages."""
    counted = [is_copied(text, f"{row['title']}\n{row['text']}") for row, text in cases(annotated)]
    assert len(counted) >= 40
    return sum(counted) / len(counted)


def test_parts_of_real_questions_count_and_invented_ones_do_not() -> None:
    assert share_of_parts(PARTS) >= 0.99
    assert share_of_parts(NO_PARTS) <= 0.1


def test_copies_of_real_passages_count_and_what_changes_a_fact_does_not() -> None:
    assert share_of_copies(PIECES) >= 0.97
    assert share_of_copies(NO_PIECES) == 0


def label_of(passage: str, segment: str) -> str:
    """The label of a passage of which `segment` is said to be what "did sink" asks for."""
    values: dict[str, Any] = {
        **dict.fromkeys(SLOTS, ""),
        "subject": "the Titanic",
        "predicate": "did sink",
        "aligned": [
            {"component": n, "segment": text, "same": True}
            for n, text in ((1, "The Titanic"), (2, segment))
            if text
        ],
        "ids": [1],
        "answer": "1912",
    }

    def reply(request: ChatRequest) -> dict[str, Any]:
        assert request.schema is not None
        return {name: values[name] for name in request.schema["properties"]}

    runtime = Runtime({"main": ScriptedTarget(reply)}, {"local": ListSource([Passage("p", "", passage)])})
    counters = (
        method("ggatrieval").build(runtime, {"rounds": 1})(question="When did the Titanic sink?").counters
    )
    return next(label for label in ("full", "partial", "none") if counters[label])


def test_a_predicate_in_two_pieces_tells_the_ship_from_the_film() -> None:
    assert label_of("The Titanic sank on April 15, 1912.", "sank on April 15 1912") == "full"
    assert label_of("The Titanic is a film of 1997.", "") == "partial"
    assert label_of("The Titanic is a film of 1997.", "sank in 1912") == "partial"
