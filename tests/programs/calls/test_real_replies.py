"""Reading replies of real models: verdicts and answers of published data, and replies of the small model."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from dspy.adapters.utils import serialize_for_json

import ragc.signatures.answer as answers
import ragc.signatures.claims as claims
import ragc.signatures.grade as grades
import ragc.signatures.select as select
import ragc.signatures.step as steps
from ragc.errors import ParseFailure
from ragc.programs.calls.layouts import JSON_LAYOUTS
from ragc.programs.calls.outputs import Reading
from ragc.programs.calls.replies import read_laid_out, read_reply
from ragc.programs.knobs import LAYOUTS
from ragc.signatures.judge import AnswerMatches
from tests.paths import SHARED_DATA
from tests.support.rows import read_rows

JUDGED = SHARED_DATA / "judged" / "openqa_eval"
judged = pytest.mark.skipif(not JUDGED.is_dir(), reason="the judged answers are not on this machine")
SMALL = Path(__file__).parent / "smollm2_replies.jsonl"
MODULES = (answers, claims, grades, select, steps)


def read(signature: Any, text: str, layout: str, *, truncated: bool = False) -> Reading:
    if layout in JSON_LAYOUTS:
        return read_reply(signature, text, truncated=truncated)
    return read_laid_out(signature, text, layout, truncated=truncated)


def rows(name: str) -> list[dict[str, str]]:
    with (JUDGED / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


@judged
@pytest.mark.parametrize("layout", LAYOUTS)
def test_verdicts_that_a_model_gave_in_sentences_are_read_as_its_judges_read_them(layout: str) -> None:
    verdicts = [row for row in rows("NQ301_gpt-4.tsv") if row["gpt-4"].lower().startswith(("yes", "no"))]
    assert len(verdicts) > 1000
    right = 0
    for row in verdicts:
        for text in (row["gpt-4"], json.dumps({"correct": row["gpt-4"]})):
            try:
                reading = read(AnswerMatches, text, layout)
            except ParseFailure:
                continue
            assert reading.mended
            right += reading.outputs["correct"] is (row["Acceptable?"] == "Yes")
    assert right >= 0.99 * 2 * len(verdicts)


@judged
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bare_answers_of_models_are_read_word_for_word(layout: str) -> None:
    texts = [row["Model answer"] for row in rows("NQ301_human.tsv") if row["Model answer"].strip()]
    assert len(texts) > 1000
    same = [read(answers.ShortAnswer, text, layout).outputs["answer"] == text.strip() for text in texts]
    assert sum(same) >= 0.99 * len(texts)


def small_replies() -> list[dict[str, Any]]:
    return read_rows(SMALL)


def reading_of(reply: dict[str, Any]) -> dict[str, Any] | None:
    signature = next(getattr(module, name) for name in [reply["signature"]] for module in MODULES
                     if hasattr(module, name))  # fmt: skip
    try:
        reading = read(signature, reply["text"], reply["layout"], truncated=reply["truncated"])
    except ParseFailure:
        return None
    return {name: serialize_for_json(value) for name, value in reading.outputs.items()}


@pytest.mark.parametrize("reply", small_replies(), ids=lambda r: f"{r['signature']}-{r['layout']}")
def test_replies_of_the_small_model_are_read_as_a_person_read_them(reply: dict[str, Any]) -> None:
    assert reading_of(reply) == reply["outputs"]
