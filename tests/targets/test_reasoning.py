"""Thoughts of reasoning models: what is taken off a reply, and what stays."""

from __future__ import annotations

import pytest

from ragc.targets.base import ChatRequest, Message, Reply, TokenLogprob, Usage
from ragc.targets.reasoning import MOST_CHARS, AnswerParts, split, take_off

ASK = ChatRequest((Message("user", "Capital of Peru?"),))
JSON = '{"answer": "Lima"}'


def words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("text", "thoughts", "answer"),
    [
        (f"<think>Peru, hm.</think>\n\n{JSON}", "Peru, hm.", JSON),
        (f"\n<think>\nPeru, hm.\n</think>\n\n{JSON}", "Peru, hm.", JSON),
        (f"<THINK>Peru</THINK>{JSON}", "Peru", JSON),
        (f"<thinking>Peru</thinking>{JSON}", "Peru", JSON),
        (f"<thought>Peru</thought>{JSON}", "Peru", JSON),
        (f"<reasoning>Peru</reasoning>{JSON}", "Peru", JSON),
        (f"[THINK]Peru[/THINK]{JSON}", "Peru", JSON),
        (f"[TH\u0130NK]Peru[/TH\u0130NK]{JSON}", "Peru", JSON),
        (f"◁think▷Peru◁/think▷{JSON}", "Peru", JSON),
        (
            (
                "<|channel|>analysis<|message|>Peru<|end|><|start|>assistant<|channel|>final<|message|>"
                f"{JSON}<|return|>\n"
            ),
            "Peru",
            JSON,
        ),
        (f"<think>a</think>\n<think>b</think>{JSON}", "a\n\nb", JSON),
        (f"<think>\n\n</think>\n\n{JSON}", "", JSON),
        ("Peru, hm.\n</think>\n\nLima", "Peru, hm.", "Lima"),
        (f"Peru, hm.</think>{JSON}", "Peru, hm.", JSON),
        ("[1] says Lima.\n</think>\n\nLima", "[1] says Lima.", "Lima"),
        ("<think>Peru, h", "Peru, h", ""),
        ("<think>", "", ""),
        ("Only thoughts.\n</think>", "Only thoughts.", ""),
        ('<think>It is "Lima"</think>"Lima"', 'It is "Lima"', '"Lima"'),
        (f"<think>I saw <think> there.</think>{JSON}", "I saw <think> there.", JSON),
    ],
)
def test_thoughts_at_the_start_are_taken_off(text: str, thoughts: str, answer: str) -> None:
    assert split(text) == (thoughts, answer)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Lima",
        JSON,
        '{"answer": "a tag </think> ends it"}',
        '{"answer": "</think>"}',
        '{"answer": "<think>no</think> yes"}',
        'Here it is: {"answer": "it ends in </think>"}',
        '```json\n{"answer": "x\\n</think>\\n"}\n```',
        "[[ ## answer ## ]]\nThe text\n</think>\nends.\n\n[[ ## completed ## ]]",
        "<answer>It says </think></answer>",
        'The passage says "</think>" there.',
        "The passage says `</think>`.",
        "The tag </think> ends thoughts.",
        "Lima. <think>not a start</think> It is.",
        "Lima.\n<think>never closed",
        "I think </ think> is it",
        "The passage: < /think>\nends.",  # as markers in passages are shown to a model
    ],
)
def test_tags_in_an_answer_do_not_eat_it(text: str) -> None:
    assert split(text) == ("", text)


def test_after_thoughts_the_answer_keeps_its_tags() -> None:
    answer = '{"answer": "nested <think> and </think>, and an open <think>"}'
    assert split(f"<think>Well.</think>\n{answer}") == ("Well.", answer)
    assert split(f"Well.\n</think>\n{answer}") == ("Well.", answer)
    assert split("Plain\n</think>\ntext", apart=True) == ("", "Plain\n</think>\ntext")


def test_a_tag_that_the_prompt_asks_for_is_an_output() -> None:
    text = "<reasoning>\nIt says so.\n</reasoning>\n<answer>\nLima\n</answer>"
    xml_request = ChatRequest((Message("system", "<reasoning>\n{reasoning}\n</reasoning>"), *ASK.messages))
    assert take_off(Reply(text), xml_request, words).text == text
    assert take_off(Reply(text), ASK, words).text == "<answer>\nLima\n</answer>"


def test_thinking_tokens_are_those_reported_else_counted_and_never_more_than_the_reply() -> None:
    text = f"<think>one two three</think>{JSON}"
    assert take_off(Reply(text, usage=Usage(9, 8)), ASK, words).usage == Usage(9, 8, 0, 3)
    assert take_off(Reply(text, usage=Usage(9, 8, 0, 5)), ASK, words).usage.reasoning == 5
    assert take_off(Reply(text, usage=Usage(9, 2)), ASK, words).usage.reasoning == 2
    plain = Reply(JSON, usage=Usage(9, 8, 0, 5))  # a model that hides its thoughts
    assert take_off(plain, ASK, words) is plain


@pytest.mark.parametrize(
    "tokens",
    [
        ["<think>", "Li", "ma", "</think>", "\n\n", '{"', 'answer": "', "Li", "ma", '"}', ""],
        ["<think>", "Li", "ma", "</think>", "\n\n", '{"', 'answer": "', "Li", "�ma", '"}'],
        ["Li", "ma", "</think>", '\n{"', 'answer": "', "Li", "ma", '"}'],
    ],
)
def test_log_probabilities_are_those_of_the_answer(tokens: list[str]) -> None:
    drawn = tuple(TokenLogprob(token, -float(at)) for at, token in enumerate(tokens))
    reply = take_off(Reply(f"<think>Lima</think>\n\n{JSON}", logprobs=drawn), ASK, words)
    first = next(at for at, token in enumerate(tokens) if '{"' in token)
    assert "".join(token.token for token in reply.logprobs).lstrip().startswith('{"answer": "Li')
    assert [token.logprob for token in reply.logprobs if '{"' in token.token] == [-float(first)]
    assert all("think" not in token.token for token in reply.logprobs)
    apart = take_off(Reply(JSON, logprobs=drawn, reasoning="Lima"), ASK, words)
    assert apart.logprobs == reply.logprobs


@pytest.mark.parametrize(
    "text",
    [
        "<think>" + "why " * 2_600_000 + f"</think>{JSON}",
        "<think>" + "<think>" * 1_500_000 + f"</think>{JSON}",
        "why " * 2_600_000 + f"</think>{JSON}",
        "<think></think>" * 200_000 + JSON,
        " " * 10_000_000 + f"<think></think>{JSON}",
    ],
    ids=["long", "opened", "untagged", "many", "blank"],
)
def test_ten_megabytes_of_thoughts_leave_the_answer_and_a_bounded_record(text: str) -> None:
    reply = take_off(Reply(text), ASK, lambda text: len(text) // 4)
    assert reply.text == JSON
    assert len(reply.reasoning) < MOST_CHARS + 100


STREAMED = [
    f"<think>\n\n</think>\n\n{JSON}",
    f"  \n\n {JSON}",
    f"<think>Peru, hm.</think>\n\n{JSON}",
    f"<think>a</think> <think>b</think>{JSON}",
    f"Peru, hm.\n</think>\n\n{JSON}",
    f"[THINK]Peru[/THINK]{JSON}",
    JSON,
    "[[ ## answer ## ]]\nLima",
    "```json\n{}\n```",
    "<answer>Lima</answer>",
]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
@pytest.mark.parametrize("text", STREAMED)
def test_a_stream_shows_the_answer_and_no_thought(text: str, size: int) -> None:
    stream, shown = AnswerParts(), ""
    answer = split(text)[1]
    for at in range(0, len(text), size):
        shown += stream.feed(text[at : at + size])
        assert answer.lstrip().startswith(shown)
    assert shown == answer.lstrip()
    assert not stream.holds


@pytest.mark.parametrize("text", ["Lima it is.", "<think>cut", "Only.\n</think>", "<thi"])
def test_a_stream_holds_what_may_be_thoughts(text: str) -> None:
    stream = AnswerParts()
    assert "".join(map(stream.feed, text)) == ""
    assert stream.holds


def test_a_stream_of_an_output_named_as_thoughts_are_is_shown() -> None:
    stream = AnswerParts("<reasoning><answer>")
    text = "<reasoning>So it is.</reasoning><answer>Lima</answer>"
    assert "".join(map(stream.feed, text)) == text
