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
from ragc.programs.runtime import Runtime
from ragc.records import Passage
from ragc.targets.base import ChatRequest
from ragc.testing import ListSource, ScriptedTarget
from tests.examples import cases as some
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


def ask(question: str, passage: Passage, slots: tuple[str, ...], segment: str) -> dict[str, Any]:
    """What a question costs whose parse fills `slots`, and whose alignment copies `segment`."""
    replies: dict[str, Any] = {
        **dict(zip(SLOTS, [*slots, *[""] * (8 - len(slots))], strict=True)),
        "aligned": [{"component": 1, "segment": segment, "same": True}],
        "ids": [1],
        "answer": "x",
    }

    def reply(request: ChatRequest) -> dict[str, Any]:
        assert request.schema is not None
        return {name: replies[name] for name in request.schema["properties"]}

    program = method("ggatrieval").build(
        Runtime({"main": ScriptedTarget(reply)}, {"local": ListSource([passage])}), {"rounds": 1}
    )
    counters: dict[str, Any] = program(question=question).counters
    return counters


def counts_as_part(question: str, part: str) -> bool:
    """Whether nothing of `part` is dropped."""
    return not ask(question, Passage("p", "", "so it is"), (part,), "so it is")["dropped"]


def counts_as_piece(row: Mapping[str, Any], segment: str) -> bool:
    """Whether the document of `row` is labelled FULL for `segment`, which is said of the only component."""
    counters = ask("Is it so?", Passage("p", row["title"], row["text"]), ("it",), segment)
    return bool(counters["full"] == 1 and not counters["dropped"])


def test_the_parts_of_real_questions_count() -> None:
    annotated = [id for by_id in PARTS.values() for id in by_id]
    assert len(annotated) >= 60
    lost = [
        (row["question"], part)
        for row, part in some(cases(PARTS), 20)
        if not counts_as_part(row["question"], part)
    ]
    assert lost == []


def test_pieces_count_as_models_copy_them() -> None:
    assert len(list(cases(PIECES))) >= 60
    assert [
        (row["id"], text) for row, text in some(cases(PIECES), 20) if not counts_as_piece(row, text)
    ] == []


def test_what_is_invented_or_changes_a_fact_does_not_count() -> None:
    through = [text for row, text in cases(NO_PARTS) if counts_as_part(row["question"], text)]
    through += [text for row, text in cases(NO_PIECES) if counts_as_piece(row, text)]
    total = len(list(cases(NO_PARTS))) + len(list(cases(NO_PIECES)))
    assert total >= 60
    assert len(through) <= total * 3 // 60, through


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
    assert label_of("The Titanic sank on April 15, 1912.", "sank on 15 April 1912") == "full"
    assert label_of("The Titanic is a film of 1997.", "") == "partial"
    assert label_of("The Titanic is a film of 1997.", "sank in 1912") == "partial"
