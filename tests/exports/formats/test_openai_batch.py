"""openai-batch: each line's body is the request that the target sends, and OpenAI's types take it."""

from __future__ import annotations

import json
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragc.errors import UsageError
from ragc.exports.derive import derive_export
from ragc.exports.write import export, format_of
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.prompts.model import Case
from ragc.targets.chat import ChatTarget
from tests.examples import examples
from tests.exports.common import NASTY, build_program

LINE = {"custom_id", "method", "url", "body"}


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


def test_openai_takes_every_line() -> None:
    openai: Any = pytest.importorskip("openai", reason="needs the extra exports")
    body_type = openai.types.chat.completion_create_params.CompletionCreateParamsNonStreaming
    body = pydantic.TypeAdapter(body_type, config=None)
    listed: Any = list.__class_getitem__(openai.types.chat.ChatCompletionMessageParam)
    messages: Any = pydantic.TypeAdapter(listed)
    program = build_program(method("vanilla"), temperature=0.5)
    cases = [Case(f"q{i}", "answer", {"question": t, "passages": [t, ""]}) for i, t in enumerate(NASTY)]
    lines = batch(program, *cases)
    assert len(lines) == len(NASTY)
    for line in lines:
        assert line.keys() == LINE
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        assert body.validate_python(line["body"])
        assert list(messages.validate_python(line["body"]["messages"]))
        assert {m["role"] for m in line["body"]["messages"]} <= {"system", "user", "assistant"}


@given(ids=st.lists(st.sampled_from(["a", "a#2", "a#3", "b", ""]), min_size=1, max_size=8))
@settings(max_examples=examples(30), deadline=None)
def test_every_line_has_an_id_of_its_own(ids: list[str]) -> None:
    cases = [Case(id, "answer", {"question": "q", "passages": []}) for id in ids]
    lines = batch(build_program(method("vanilla")), *cases)
    custom_ids = [line["custom_id"] for line in lines]
    assert len(set(custom_ids)) == len(ids)
    assert set(ids) <= set(custom_ids)
    assert all(one.startswith(id) for one, id in zip(custom_ids, ids, strict=True))


def test_of_several_prompts_only_those_with_cases_are_written() -> None:
    out = derive_export(
        build_program(method("prefrag")), cases=[Case("q1", "answer", {"question": "q", "trajectory": []})]
    )
    assert list(format_of("openai-batch").files(out)) == ["answer.batch.jsonl"]


def test_without_questions_there_is_one_clear_error() -> None:
    with pytest.raises(UsageError, match="writes a request for each question; add --questions N for N dev"):
        batch(build_program(method("vanilla")))


def test_a_case_that_lacks_an_input_is_refused() -> None:
    with pytest.raises(UsageError, match="has the inputs question, passages; found question"):
        batch(build_program(method("vanilla")), Case("q1", "answer", {"question": "q"}))


def test_it_lies_in_a_folder_that_tells_licence_and_program(tmp_path: Any) -> None:
    program = build_program(method("vanilla"), icl_n=1)
    dict(program.named_predictors())["answer"].demos = [{"question": "q", "passages": ["p"], "answer": "a"}]
    out = derive_export(program, cases=[Case("q1", "answer", {"question": "q", "passages": []})])
    export(out, "openai-batch", tmp_path / "batch")
    graph = json.loads((tmp_path / "batch" / "graph.json").read_text("utf-8"))
    assert (graph["program"], graph["note"]) == (out.fingerprint, out.note)
    assert out.note
    assert (tmp_path / "batch" / "answer.batch.jsonl").read_bytes().isascii()
