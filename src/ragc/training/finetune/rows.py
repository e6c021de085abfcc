"""Rows of training data: preferences and examples, as messages or as plain text, checked before training.

    dpo   {"prompt": [messages], "chosen": [reply], "rejected": [reply]}; or three texts
    sft   {"messages": [messages]}; or {"prompt": [messages], "completion": [reply]}; or two texts;
          or {"text": text}

A message is {"role", "content"}. The formats are TRL's, and further fields are ignored. All rows of a file
have one format. Role markers in what a model reads (system and user messages) are escaped, as programs do
when they send them: a passage of a row cannot end its message. Replies stay as they are.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, ValidationInfo, field_validator

from ragc.core.digest import digest
from ragc.core.tables import Choice, Table, Words, problems
from ragc.core.text import escape_markers
from ragc.corpora.files.rows import rows as file_rows
from ragc.errors import DataError, UsageError

Row = dict[str, Any]
"""Fields as TRL takes them: all lists of messages, or all texts."""

FORMS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "dpo": (("prompt", "chosen", "rejected"),),
    "sft": (("messages",), ("text",), ("prompt", "completion")),
}
"""By method the fields that a row may have; the last one is learned."""

MAX_SHOWN = 20
"""Problems of a file that are reported, at most."""


class Message(Table):
    """A message of a row; role markers are escaped unless it is a reply."""

    model_config = ConfigDict(extra="ignore")

    role: Annotated[str, Choice(("system", "user", "assistant"))]
    content: Annotated[str, Field(strict=True)]

    @field_validator("content")
    @classmethod
    def _check_content(cls, content: str, info: ValidationInfo) -> str:
        if info.data.get("role") != "assistant":
            return escape_markers(content)
        if not content.strip():
            raise ValueError("must not be empty in a reply")
        return content


_TEXTS = TypeAdapter(dict[str, Words])
_MESSAGES = TypeAdapter(dict[str, Annotated[list[Message], Field(min_length=1)]])


def read(path: Path, method: str) -> list[Row]:
    """Returns the rows of the file at `path` for `method`, in order.

    Raises DataError with the first problems, each with its line, and for a file without rows.
    """
    rows, complaints = list[Row](), list[str]()
    for line in file_rows(path):
        place = f"{line.location}: " if line.location else ""
        complaints += [f"{place}{problem}" for problem in line.problems]
        try:
            if not line.problems:
                rows.append(_fields(line.values, method))
        except ValueError as error:
            texts = problems(error) if isinstance(error, ValidationError) else [error]
            complaints += [f"{place}{text}" for text in texts]
    forms = {f"{', '.join(row)} as {type(next(iter(row.values()))).__name__}" for row in rows}
    if len(forms) > 1:
        complaints.append(f"rows have one format, found {' and '.join(sorted(forms))}")
    if complaints or not rows:
        more = [f"and {len(complaints) - MAX_SHOWN} more"] if len(complaints) > MAX_SHOWN else []
        raise DataError(str(path), [*complaints[:MAX_SHOWN], *more] or ["has no rows"])
    return rows


def _fields(row: Mapping[str, Any], method: str) -> Row:
    """Returns the fields of `row` that TRL takes. Raises ValueError and ValidationError."""
    names = next((form for form in FORMS[method] if row.keys() >= set(form)), None)
    if names is None:
        needed = ", or ".join(" and ".join(f"`{name}`" for name in form) for form in FORMS[method])
        raise ValueError(f"method {method} needs {needed}, found {', '.join(row) or 'none'}")
    fields: Row = {name: row[name] for name in names}
    if names == ("text",) or ("prompt" in names and isinstance(row["prompt"], str)):
        fields = _TEXTS.validate_python(fields)
    else:
        fields = _MESSAGES.dump_python(_MESSAGES.validate_python(fields))
        for name, messages in fields.items():
            roles = [message["role"] for message in messages]
            if name == "messages" and (roles[0] == "assistant" or roles[-1] != "assistant"):
                raise ValueError(
                    "`messages` must begin with a question and end with a reply, which is learned"
                )
            if name == "prompt" and roles[-1] == "assistant":
                raise ValueError(
                    "`prompt` must end before the reply, and its last message is the assistant's"
                )
            if name not in ("messages", "prompt") and roles != ["assistant"]:
                raise ValueError(f"`{name}` must be one message of the assistant")
    if method == "dpo" and fields["chosen"] == fields["rejected"]:
        raise ValueError("`chosen` and `rejected` are the same, so that there is nothing to prefer")
    return fields


def hold_out(rows: list[Row], count: int, seed: int) -> tuple[list[Row], list[Row]]:
    """Returns the rows to train on, and about `count` others drawn with `seed`.

    Rows with the same prompt are on one side. Raises UsageError when no row is left to train on.
    """
    groups = dict[str, list[Row]]()
    for row in rows:
        groups.setdefault(digest(_prompt(row)), []).append(row)
    prompts, held_out = random.Random(seed).sample(sorted(groups), len(groups)), list[Row]()
    while prompts and len(held_out) < count:
        held_out += groups[prompts.pop()]
    if not prompts:
        raise UsageError(
            f"held_out = {count} leaves no row to train on: the file has {len(rows)} rows with {len(groups)} "
            "different prompts; hold out fewer."
        )
    return [row for prompt in prompts for row in groups[prompt]], held_out


def _prompt(row: Row) -> Any:
    """Returns the part of `row` before its first reply."""
    messages = takewhile(lambda message: message["role"] != "assistant", row.get("messages", ()))
    return list(messages) or row.get("prompt", row.get("text"))
