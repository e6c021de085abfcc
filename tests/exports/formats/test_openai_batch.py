"""openai-batch: each line's body is the request that the target sends, and OpenAI's types take it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.errors import UsageError
from ragc.exports.derive import derive_export
from ragc.exports.write import format_of
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.prompts.model import Case
from ragc.targets.chat import ChatTarget
from tests.examples import examples
from tests.exports.common import build_program


def batch(program: RagProgram, *cases: Case) -> list[dict[str, Any]]:
    """The lines of all files, as a reader that knows every line break of Unicode finds them."""
    files = format_of("openai-batch").files(derive_export(program, cases=cases))
    return [json.loads(line) for data in files.values() for line in data.decode().splitlines()]


def posted(program: RagProgram, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """The body that an OpenAI-compatible server gets from our target for a call."""
    target = ChatTarget("http://127.0.0.1:9/v1", "model")
    request = dict(program.named_predictors())[name].request(**inputs)
    body: dict[str, Any] = json.loads(target.prepare(request, stream=False))
    return body


@given(ids=st.lists(st.sampled_from(["a", "a#2", "a#3", "b", ""]), min_size=1, max_size=8))
@settings(max_examples=examples(30), deadline=None)
def test_every_line_has_an_id_of_its_own(ids: list[str]) -> None:
    cases = [Case(id, "answer", {"question": "q", "passages": []}) for id in ids]
    custom_ids = [line["custom_id"] for line in batch(build_program(method("vanilla")), *cases)]
    assert len(set(custom_ids)) == len(ids)
    assert all(custom.startswith(id) for custom, id in zip(custom_ids, ids, strict=True))


def test_of_several_prompts_only_those_with_cases_are_written() -> None:
    case = Case("q1", "answer", {"question": "q", "trajectory": []})
    out = derive_export(build_program(method("prefrag")), cases=[case])
    assert list(format_of("openai-batch").files(out)) == ["answer.batch.jsonl"]


def test_no_questions_and_missing_inputs_are_errors() -> None:
    with pytest.raises(UsageError, match="writes a request for each question; add --questions N for N dev"):
        batch(build_program(method("vanilla")))
    with pytest.raises(UsageError, match="has the inputs question, passages; found question"):
        batch(build_program(method("vanilla")), Case("q1", "answer", {"question": "q"}))
