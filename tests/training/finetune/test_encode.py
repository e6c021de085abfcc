"""Rows as tokens: only replies are learned, and what a chat template rewrites is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ragc.errors import UsageError
from ragc.training.finetune.encode import (
    UNLEARNED,
    check_base,
    check_template,
    control_tokens,
    example,
    preference_length,
)
from ragc.training.finetune.rows import TrainRow

START, END = "<s>", "</s>"


class Words:
    """A tokenizer of words, with the methods of transformers' that are used; numbers are in `words`."""

    eos_token, bos_token_id = END, 0

    def __init__(self, *, begins: bool = False, rewrites: bool = False, template: str = "chat") -> None:
        self.words, self.begins, self.rewrites = {START: 0}, begins, rewrites
        self.chat_template = template

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        words = re.findall(r"</?\w+>|[^\s<]+", text)
        if self.begins and add_special_tokens:
            words = [START, *words]
        return {"input_ids": [self.words.setdefault(word, len(self.words)) for word in words]}

    def apply_chat_template(
        self, messages: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        assert not tokenize
        text = "".join(f"<{m['role']}> {m['content']} {END} " for m in messages)
        if self.rewrites and len(messages) > 2:
            text = text.replace("thinking", "")
        return text + ("<assistant> " if add_generation_prompt else "")

    def read(self, ids: list[int]) -> str:
        names = {number: word for word, number in self.words.items()}
        return " ".join(names[number] for number in ids if number != UNLEARNED)


def messages(*texts: str) -> TrainRow:
    roles = ("user", "assistant") * len(texts)
    pairs = zip(roles, texts, strict=False)
    return TrainRow("line 1", {"messages": [{"role": r, "content": text} for r, text in pairs]})


@pytest.mark.parametrize(
    ("row", "whole", "learned"),
    [
        (messages("Sky ?", "blue"), f"<user> Sky ? {END} <assistant> blue {END}", f"blue {END}"),
        (
            messages("a", "b", "c", "d e"),
            f"<user> a {END} <assistant> b {END} <user> c {END} <assistant> d e {END}",
            f"b {END} d e {END}",
        ),
        (TrainRow("", {"prompt": "Sky ?", "completion": " blue"}), f"Sky ? blue {END}", f"blue {END}"),
        (TrainRow("", {"text": "The sky"}), f"The sky {END}", f"The sky {END}"),
    ],
)
def test_only_replies_are_learned(row: TrainRow, whole: str, learned: str) -> None:
    tokenizer = Words()
    encoded = example(tokenizer, row)
    assert tokenizer.read(encoded.input_ids) == whole
    assert tokenizer.read(encoded.labels) == learned
    assert len(encoded.input_ids) == len(encoded.labels)


def test_plain_text_begins_as_the_tokenizer_begins_it() -> None:
    tokenizer = Words(begins=True)
    encoded = example(tokenizer, TrainRow("", {"prompt": "Sky ?", "completion": " blue"}))
    assert tokenizer.read(encoded.input_ids) == f"{START} Sky ? blue {END}"
    assert encoded.labels[0] == UNLEARNED


def test_a_template_that_writes_earlier_replies_anew_is_refused() -> None:
    row = messages("a", "thinking b", "c", "d")
    assert example(Words(), row).input_ids
    with pytest.raises(UsageError, match="line 1: the base's chat template writes a message anew"):
        example(Words(rewrites=True), row)
    assert example(Words(rewrites=True), messages("a", "thinking b")).input_ids


def test_messages_need_a_chat_template() -> None:
    with pytest.raises(UsageError, match="llama-base has no chat template"):
        check_template(Words(template=""), [messages("a", "b")], "llama-base")
    check_template(Words(template=""), [TrainRow("", {"text": "a"})], "llama-base")


def trajectory() -> TrainRow:
    texts = (
        "Sky ?",
        "[S_Rewritten_Query] sky",
        "[R_Evidences] It is blue. [/R_Evidences]",
        "[A_Response] blue",
    )
    return messages(*texts)


def test_replies_in_control_tokens_need_a_base_that_has_them() -> None:
    assert control_tokens([trajectory()]) == ("[S_Rewritten_Query]", "[A_Response]")
    check_base(Words(), [trajectory()], "a base that has them")

    class Pieces(Words):
        """Spells control tokens in pieces, as a tokenizer that was not taught them."""

        def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
            return super().__call__(text.replace("_", " "), add_special_tokens=add_special_tokens)

    with pytest.raises(UsageError, match=r'\(\[S_Rewritten_Query\], \[A_Response\]\).*form = "calls"'):
        check_base(Pieces(), [trajectory()], "llama")
    with pytest.raises(UsageError, match="llama has no chat template"):
        check_base(Pieces(template=""), [trajectory()], "llama")
    for texts in (
        ("a", "b"),
        ("a", "[A_Response] b", "c", "d"),
        ("a", "[1] b"),
        ("a", '{"query": "[A_Response]"}'),
    ):
        assert control_tokens([messages(*texts)]) == ()
        check_base(Pieces(), [messages(*texts)], "llama")
    assert control_tokens([trajectory(), messages("a", "b")]) == ()
    pair = {"prompt": "Sky ?", "chosen": "[A_Response] blue", "rejected": "[A_Response] red"}
    assert control_tokens([TrainRow("", pair)]) == ("[A_Response]",)


def test_a_preference_is_as_long_as_its_longer_reply() -> None:
    fields: dict[str, Any] = {"prompt": "Sky ?", "chosen": " blue", "rejected": " not so blue"}
    assert preference_length(Words(), TrainRow("", fields)) == 2 + 3 + 1
    chat = {name: [{"role": "assistant", "content": text}] for name, text in fields.items()}
    chat["prompt"] = [{"role": "user", "content": "Sky ?"}]
    assert preference_length(Words(), TrainRow("", chat)) == 4 + 5
