"""What the embedded target sends and reads, without a model."""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from ragc.errors import TargetError, TargetUnavailable, UsageError
from ragc.targets.base import ChatRequest, Message, Sampling, TokenLogprob, Usage
from ragc.targets.embedded import server
from ragc.targets.embedded.schema import NarrowedSchema
from ragc.targets.embedded.server import StreamedReply, check_file, cores
from ragc.targets.embedded.target import EmbeddedTarget
from ragc.targets.embedded.wire import read_answer, request_body

MESSAGES = (Message("system", "Be brief."), Message("user", "Why?"))
PLAIN = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


def build_request(schema: dict[str, Any] | None = None, **sampling: Any) -> ChatRequest:
    return ChatRequest(MESSAGES, schema, Sampling(**sampling))


def answered(text: str, finish: str = "stop", prompt: int = 10) -> StreamedReply:
    usage = {"prompt_tokens": prompt, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 7}}
    return StreamedReply([text], [("x", -0.5)], finish, usage)


def test_a_greedy_request_leaves_no_sampling_to_llama_cpp() -> None:
    assert request_body(build_request(max_tokens=9), 100) == {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}],
        "temperature": 0.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "max_tokens": 9,
        "cache_prompt": True,
    }


def test_each_sample_has_its_own_repeatable_seed() -> None:
    def seed(sample: int) -> int:
        request = ChatRequest(MESSAGES, None, Sampling(temperature=1.0, max_tokens=9, seed=40), sample=sample)
        return int(request_body(request, 100)["seed"])

    assert [seed(0), seed(1), seed(0)] == [40, 41, 40]


def test_stop_logprobs_and_sampling_are_passed_on() -> None:
    sampling = Sampling(0.5, 0.9, 9, top_k=5, min_p=0.1, stop=("END",))
    body = request_body(ChatRequest(MESSAGES, None, sampling, logprobs=True), 100)
    assert (body["top_p"], body["top_k"], body["min_p"], body["stop"]) == (0.9, 5, 0.1, ["END"])
    assert (body["logprobs"], body["top_logprobs"]) == (True, 1)


def test_half_surrogate_pairs_do_not_reach_the_binding() -> None:
    body = request_body(ChatRequest((Message("user", "a\ud800b"),), None, Sampling(max_tokens=9)), 100)
    assert body["messages"][0]["content"] == "a?b"


@pytest.mark.parametrize(
    ("request_", "expected"),
    [(ChatRequest(()), "without messages"), (build_request(max_tokens=100), "no room")],
)
def test_requests_that_cannot_be_answered_are_refused(request_: ChatRequest, expected: str) -> None:
    with pytest.raises(TargetError, match=expected):
        request_body(request_, 100)


def test_a_schema_becomes_a_grammar_without_optional_white_space() -> None:
    grammar = request_body(build_request(PLAIN, max_tokens=64), 100)["grammar"]
    head, _, schema = grammar.partition("%json ")
    assert head == "%llguidance {}\nstart: "
    sent = json.loads(schema)
    assert sent["x-guidance"] == {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    assert sent["additionalProperties"] is False
    assert sent["properties"]["a"]["maxLength"] == 160


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Part(BaseModel):
    score: int = Field(ge=0, le=10, description="how good")
    note: str = Field(max_length=20)


class Zoo(BaseModel):
    parts: list[Part] = Field(min_length=1, max_length=3)
    colour: Colour
    kind: Literal["x", "y"]
    maybe: str | None = None
    share: float
    pair: tuple[str, int]
    loose: list[int]


def test_pydantic_models_are_narrowed_and_never_widened() -> None:
    sent = NarrowedSchema(Zoo.model_json_schema(), 80).schema
    part, properties = sent["$defs"]["Part"]["properties"], sent["properties"]
    assert part["score"] == {"type": "integer", "minimum": 0, "maximum": 10}
    assert part["note"] == {"type": "string", "maxLength": 20}
    assert properties["parts"]["items"] == {"$ref": "#/$defs/Part"}
    assert (properties["parts"]["minItems"], properties["parts"]["maxItems"]) == (1, 3)
    assert sent["$defs"]["Colour"] == {"enum": ["red", "blue"]}
    assert properties["loose"]["maxItems"] == 10
    assert properties["share"]["multipleOf"] == 0.0001
    assert [option["type"] for option in properties["maybe"]["anyOf"]] == ["string", "null"]
    assert list(properties) == list(Zoo.model_fields)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "uniqueItems"),
        ({"type": "object", "properties": {}, "minProperties": 1}, "minProperties"),
        ({"type": "object", "patternProperties": {"a": {}}}, "patternProperties"),
        ({"type": "object", "properties": {"a": {"not": {}}}}, "at a, not"),
        ({"type": "nonsense"}, "nonsense"),
        ({"type": "string", "format": "uri"}, "format 'uri'"),
        ({"type": "string", "pattern": "(?=a)b"}, "looks around"),
        ({"type": "integer", "minimum": 3, "maximum": 1}, "leaves no value"),
        ({"type": "string", "minLength": 3, "maxLength": 1}, "leaves no value"),
        ({"enum": []}, "empty"),
        ({"$ref": "https://elsewhere/x"}, "leads nowhere"),
        ({"$ref": "#/$defs/None"}, "leads nowhere"),
        ({"allOf": [{"type": "object"}, {"type": "object"}]}, "allOf"),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}, "names no property"),
        ({"type": "number", "multipleOf": 0.3}, "multipleOf"),
        ({"if": {}, "then": {}}, "if"),
    ],
)
def test_what_cannot_be_enforced_is_refused_with_its_place(schema: dict[str, Any], expected: str) -> None:
    with pytest.raises(TargetError, match=r"cannot fit replies to this JSON schema: at .*") as error:
        request_body(build_request(schema, max_tokens=9), 100)
    assert expected in str(error.value)


def test_a_reply_carries_text_usage_and_logprobs_when_asked() -> None:
    reply = read_answer(answered("hi"), ChatRequest(MESSAGES, logprobs=True), 1000)
    assert (reply.text, reply.finish, reply.usage) == ("hi", "stop", Usage(10, 4, 7))
    assert reply.logprobs == (TokenLogprob("x", -0.5),)
    assert read_answer(answered("hi"), build_request(), 1000).logprobs == ()


def test_a_reply_that_the_token_limit_cut_says_so_and_is_not_checked() -> None:
    assert read_answer(answered('{"a": "Pa', "length"), build_request(PLAIN), 1000).finish == "length"


def test_a_string_that_our_own_limit_closed_counts_as_cut() -> None:
    reply = read_answer(answered(json.dumps({"a": "x" * 160})), build_request(PLAIN, max_tokens=64), 1000)
    assert reply.finish == "length"
    assert json.loads(reply.text)["a"] == "x" * 160


def test_a_stop_string_inside_the_json_counts_as_cut() -> None:
    assert read_answer(answered('{"a": "Pa'), build_request(PLAIN, stop=("ris",)), 1000).finish == "length"


@pytest.mark.parametrize("text", ["Paris.", '{"b": "x"}', '{"a": 3}'])
def test_a_complete_reply_that_left_its_schema_is_an_error(text: str) -> None:
    with pytest.raises(TargetError, match="left its JSON schema"):
        read_answer(answered(text), build_request(PLAIN), 1000)


def test_escaped_half_surrogate_pairs_are_replaced() -> None:
    reply = read_answer(answered('{"a": "\\ud83d\\ude00 \\ud800 \\\\ud800"}'), build_request(PLAIN), 1000)
    assert json.loads(reply.text)["a"] == "\U0001f600 ? \\ud800"


def test_a_prompt_that_does_not_fit_names_both_lengths() -> None:
    full = StreamedReply(error={"code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 6031})
    with pytest.raises(TargetError, match=r"prompt has 6031 tokens .* context of 2048"):
        read_answer(full, build_request(), 2048)
    with pytest.raises(TargetError, match=r"prompt has 1900 tokens and the reply may have 256"):
        read_answer(answered("x", "length", prompt=1900), build_request(), 2048)


def test_errors_of_the_server_may_pass_and_those_of_the_request_do_not() -> None:
    with pytest.raises(TargetUnavailable, match="busy"):
        read_answer(StreamedReply(error={"code": 503, "message": "busy"}), build_request(), 1000)
    with pytest.raises(TargetError, match="bad grammar") as error:
        read_answer(StreamedReply(error={"code": 400, "message": "bad grammar"}), build_request(), 1000)
    assert not isinstance(error.value, TargetUnavailable)
    with pytest.raises(TargetUnavailable, match="broke off"):
        read_answer(StreamedReply(["half"]), build_request(), 1000)


def test_parts_of_a_stream_are_put_together() -> None:
    answer = StreamedReply()
    answer.take({"choices": [{"delta": {"role": "assistant", "content": None}}]})
    drawn = [{"token": "Pa", "logprob": -1.0}]
    answer.take({"choices": [{"delta": {"content": "Pa"}, "logprobs": {"content": drawn}}]})
    answer.take({"choices": [{"delta": {"content": "ris"}}]})
    answer.take({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    answer.take({"choices": [], "usage": {"prompt_tokens": 1}})
    assert ("".join(answer.text), answer.finish, answer.usage) == ("Paris", "stop", {"prompt_tokens": 1})
    assert answer.logprobs == [("Pa", -1.0)]


def test_files_that_are_no_model_are_one_sentence_before_llama_cpp_sees_them(tmp_path: Path) -> None:
    other, short = tmp_path / "other.gguf", tmp_path / "short.gguf"
    other.write_bytes(b"PK\x03\x04" + bytes(9000))
    short.write_bytes(b"GGUF\x03\x00\x00\x00")
    for path, expected in (
        (tmp_path / "none.gguf", "No such file"),
        (other, "no GGUF file"),
        (short, "cut short"),
    ):
        with pytest.raises(TargetUnavailable, match=expected):
            check_file(path)
        with pytest.raises(TargetUnavailable, match=expected):
            asyncio.run(EmbeddedTarget(path).open())


def test_a_model_larger_than_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(9000))
    monkeypatch.setattr(server, "available", lambda: 100)
    with pytest.raises(TargetUnavailable, match="memory"):
        check_file(tmp_path / "m.gguf")


def test_a_missing_binding_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    (tmp_path / "m.gguf").write_bytes(b"GGUF" + bytes(9000))
    with pytest.raises(TargetUnavailable, match=r"pip install 'ragc\[embedded\]'"):
        asyncio.run(EmbeddedTarget(tmp_path / "m.gguf").open())


def test_identity_is_the_weights_and_not_how_they_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    (tmp_path / "own.gguf").write_bytes(b"GGUF" + bytes(9000))
    one = EmbeddedTarget(tmp_path / "own.gguf", threads=1, parallel=1)
    assert one.identity == EmbeddedTarget(tmp_path / "own.gguf", threads=2, parallel=3).identity
    assert one.identity.startswith("own@sha256:")
    assert one.identity != EmbeddedTarget().identity


def test_options_that_cannot_be_are_refused() -> None:
    wrong: list[dict[str, Any]] = [{"context": 0}, {"parallel": 0}, {"threads": "2"}, {"timeout_s": 0}]
    wrong.append({"context": 9000})
    for options in wrong:
        with pytest.raises(UsageError):
            EmbeddedTarget(**options)


def test_copies_are_the_target_itself_and_pickles_are_refused() -> None:
    target = EmbeddedTarget()
    assert copy.copy(target) is copy.deepcopy(target) is target
    with pytest.raises(TypeError, match="cannot be pickled"):
        target.__reduce_ex__(4)


def test_tokens_are_estimated_until_it_is_open() -> None:
    assert EmbeddedTarget().count_tokens("four" * 10) == 10
    assert cores() >= 1
