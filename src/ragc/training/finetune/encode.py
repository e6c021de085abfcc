"""Encodes rows as tokens: which part of a row is learned, and how long it is.

Of messages the replies of the assistant are learned, each with its end mark; of a prompt and its completion
the completion; of a text all of it. Each part is tokenized separately, as in use: a server tokenizes the
prompt and the model continues from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ragc.errors import UsageError
from ragc.training.finetune.rows import TrainRow

UNLEARNED = -100
"""The label of a token that counts for nothing in the loss."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """The tokens of an example and, for each, its label: itself, or UNLEARNED."""

    input_ids: list[int]
    labels: list[int]


def example(tokenizer: Any, row: TrainRow) -> Encoded:
    """Returns an example of `sft` as tokens. Raises UsageError for a chat template that cannot be taken
    apart.
    """
    fields = row.fields
    end = tokenizer.eos_token or ""
    if row.conversational:
        parts = list(_parts(tokenizer, fields["messages"], row.location))
    elif "text" in fields:
        parts = [(fields["text"] + end, True)]
    else:
        parts = [(fields["prompt"], False), (fields["completion"] + end, True)]
    ids = [] if row.conversational else _beginning(tokenizer)
    labels = [UNLEARNED] * len(ids)
    for text, learned in parts:
        tokens = _tokens(tokenizer, text)
        ids += tokens
        labels += tokens if learned else [UNLEARNED] * len(tokens)
    return Encoded(ids, labels)


def preference_length(tokenizer: Any, row: TrainRow) -> int:
    """Returns tokens of the longer of the two sequences of a preference."""
    fields = row.fields
    texts = (
        [_rendered(tokenizer, [*fields["prompt"], *fields[name]]) for name in ("chosen", "rejected")]
        if row.conversational
        else [fields["prompt"] + fields[name] for name in ("chosen", "rejected")]
    )
    return max(len(_tokens(tokenizer, text)) for text in texts) + (not row.conversational)


def check_base(tokenizer: Any, rows: Sequence[TrainRow], base: str) -> None:
    """Raises UsageError if the base with this tokenizer cannot learn `rows`, or could not generate them.

    Messages need a chat template, and control tokens a tokenizer that has each as one token.
    """
    check_template(tokenizer, rows, base)
    unknown = [mark for mark in control_tokens(rows) if len(_tokens(tokenizer, mark)) != 1]
    if unknown:
        shown = ", ".join(unknown[:3])
        raise UsageError(
            f"Every reply of the rows begins with a control token ({shown}), and {base} has no such token: "
            "it would learn to spell it, and no program reads it. Make rows of the program's own calls, for "
            'RQ-RAG with training_data.form = "calls"; or add the tokens to the base, and decode by them '
            "yourself."
        )


_CONTROL = re.compile(r"\s*(\[[A-Za-z]+_\w+\])")


def control_tokens(rows: Sequence[TrainRow]) -> tuple[str, ...]:
    """Returns the marks such as `[A_Response]` that replies begin with, if every reply of `rows` does; else
    none.
    """
    marks: dict[str, None] = {}
    for row in rows:
        for reply in _replies(row):
            begins = _CONTROL.match(reply)
            if begins is None:
                return ()
            marks[begins[1]] = None
    return tuple(marks)


def _replies(row: TrainRow) -> Iterator[str]:
    """Yields all learned parts of `row`, and the pairs of preferred and rejected ones."""
    for name, value in row.fields.items():
        if isinstance(value, str):
            if name != "prompt":
                yield value
        elif name != "prompt":
            yield from (message["content"] for message in value if message["role"] == "assistant")


def check_template(tokenizer: Any, rows: Sequence[TrainRow], base: str) -> None:
    """Raises UsageError when `rows` hold messages and the tokenizer has no template to write them with."""
    if rows[0].conversational and not tokenizer.chat_template:
        raise UsageError(
            f"{base} has no chat template, and rows of messages need one; take a base that was tuned for "
            "chats, or rows of plain text."
        )


def _parts(tokenizer: Any, messages: Sequence[dict[str, str]], location: str) -> list[tuple[str, bool]]:
    """Splits `messages`, as the template writes them, before and behind each reply; replies are learned."""
    whole = _rendered(tokenizer, messages)
    parts: list[tuple[str, bool]] = []
    at = 0
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        start = _rendered(tokenizer, messages[:index], reply=True)
        end = _rendered(tokenizer, messages[: index + 1])
        if not (end.startswith(start) and whole.startswith(end) and at <= len(start)):
            raise UsageError(
                f"{location}: the base's chat template writes a message anew once others follow, so that its "
                "replies cannot be separated from the rest; give rows with one reply each, at the end."
            )
        parts += [(whole[at : len(start)], False), (whole[len(start) : len(end)], True)]
        at = len(end)
    return [(text, learned) for text, learned in (*parts, (whole[at:], False)) if text]


def _rendered(tokenizer: Any, messages: Sequence[dict[str, str]], *, reply: bool = False) -> str:
    """Returns `messages` as the chat template writes them; with `reply`, up to where a reply begins."""
    text: str = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=reply)
    return text


def _beginning(tokenizer: Any) -> list[int]:
    """Returns the token that this tokenizer puts before any text, if any; a template writes it itself."""
    ids: list[int] = tokenizer("")["input_ids"][:1]
    return ids if ids == [tokenizer.bos_token_id] else []


def _tokens(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids
