"""Rows of training data: preferences and examples, as messages or as plain text, checked before training.

    dpo   {"prompt": [messages], "chosen": [reply], "rejected": [reply]}; or three texts
    sft   {"messages": [messages]}; or {"prompt": text, "completion": text}; or {"text": text}

A message is {"role", "content"}. The formats are TRL's, and further fields are ignored. All rows of a file
have one format. Role markers in what a model reads (system and user messages) are escaped, as programs do
when they send them: a passage of a row cannot end its message. Replies stay as they are.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ragc.core.digest import digest
from ragc.core.text import escape_markers
from ragc.corpora.files.row import FileRow, kind, short_repr
from ragc.corpora.files.rows import rows
from ragc.errors import DataError, UsageError

ROLES = ("system", "user", "assistant")
MAX_SHOWN = 20
"""Problems of a file that are reported, at most."""

_NEEDED = {
    "dpo": "`prompt`, `chosen` and `rejected`",
    "sft": "`messages`, or `prompt` and `completion`, or `text`",
}

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class TrainRow:
    """One row: its `location` in the file, and its fields as TRL takes them.

    The values of `fields` are all lists of messages, or all texts.
    """

    location: str
    fields: dict[str, Any]

    @property
    def conversational(self) -> bool:
        """Whether it is made of messages."""
        return not isinstance(next(iter(self.fields.values())), str)

    @property
    def prompt(self) -> Any:
        """Returns the part before the first reply; rows with the same prompt are held out together."""
        if "messages" in self.fields:
            messages: list[Message] = self.fields["messages"]
            first = next(at for at, message in enumerate(messages) if message["role"] == "assistant")
            return messages[:first]
        return self.fields.get("prompt", self.fields.get("text"))


def read(path: Path, method: str) -> list[TrainRow]:
    """Returns the rows of the file at `path` for `method`, in order.

    Raises DataError with the first problems, each with its line, and for a file without rows.
    """
    problems: list[str] = []
    read_rows: list[TrainRow] = []
    for row in rows(path):
        if not row.problems:
            fields = _preference(row) if method == "dpo" else _example(row)
            if not row.problems:
                read_rows.append(TrainRow(row.location, fields))
        problems += [f"{row.location}: {text}" if row.location else text for text in row.problems]
        if len(problems) >= MAX_SHOWN:
            raise DataError(str(path), [*problems[:MAX_SHOWN], "and perhaps more"])
    if not problems:
        problems = list(_mixed(read_rows)) or ([] if read_rows else ["has no rows"])
    if problems:
        raise DataError(str(path), problems)
    return read_rows


def hold_out(read_rows: Sequence[TrainRow], count: int, seed: int) -> tuple[list[TrainRow], list[TrainRow]]:
    """Returns the rows to train on, and about `count` others drawn with `seed`; both in their order.

    Rows with the same prompt are on one side. Raises UsageError when no row is left to train on.
    """
    if not count:
        return list(read_rows), []
    groups: dict[str, list[int]] = {}
    for at, row in enumerate(read_rows):
        groups.setdefault(digest(row.prompt), []).append(at)
    drawn: set[int] = set()
    for key in random.Random(seed).sample(sorted(groups), len(groups)):
        if len(drawn) >= count:
            break
        drawn.update(groups[key])
    if len(drawn) == len(read_rows):
        raise UsageError(
            f"held_out = {count} leaves no row to train on: the file has {len(read_rows)} rows with "
            f"{len(groups)} different prompts; hold out fewer."
        )
    return (
        [row for at, row in enumerate(read_rows) if at not in drawn],
        [read_rows[at] for at in sorted(drawn)],
    )


def _preference(row: FileRow) -> dict[str, Any]:
    """Returns the fields of a preference; problems go to `row`."""
    if _absent(row, "dpo", ("prompt", "chosen", "rejected")):
        return {}
    if isinstance(row.values["prompt"], str):
        fields: dict[str, Any] = {name: row.text(name) for name in ("prompt", "chosen", "rejected")}
    else:
        prompt = _messages(row, "prompt")
        if prompt and prompt[-1]["role"] == "assistant":
            row.problems.append("`prompt` ends with a message of the assistant; it ends before the reply")
        fields = {"prompt": prompt}
        for name in ("chosen", "rejected"):
            fields[name] = reply = _messages(row, name)
            if reply and [message["role"] for message in reply] != ["assistant"]:
                row.problems.append(f"`{name}` must be one message of the assistant")
    if not row.problems and fields["chosen"] == fields["rejected"]:
        row.problems.append("`chosen` and `rejected` are the same, so that there is nothing to prefer")
    return fields


def _example(row: FileRow) -> dict[str, Any]:
    """Returns the fields of an example; problems go to `row`."""
    if "messages" in row.values:
        messages = _messages(row, "messages")
        if messages and messages[-1]["role"] != "assistant":
            row.problems.append("`messages` must end with a message of the assistant, which is learned")
        return {"messages": messages}
    if "text" in row.values:
        return {"text": row.text("text")}
    if _absent(row, "sft", ("prompt", "completion")):
        return {}
    if isinstance(row.values["prompt"], str):
        return {name: row.text(name) for name in ("prompt", "completion")}
    messages = [*_messages(row, "prompt"), *_messages(row, "completion")]
    if messages and messages[-1]["role"] != "assistant":
        row.problems.append("`completion` must end with a message of the assistant, which is learned")
    return {"messages": messages}


def _absent(row: FileRow, method: str, names: Sequence[str]) -> bool:
    """Returns whether one of `names` is absent, which is then the row's problem."""
    lacking = [name for name in names if name not in row.values]
    if not lacking:
        return False
    other = "sft" if "messages" in row.values else "dpo" if "rejected" in row.values else ""
    advice = f"; a row like this one is for method {other}" if other and other != method else ""
    if "known" in row.values and "ratio" in row.values:
        advice = "; this is a label of a judge: `ragc data slimplm-judge` writes them as messages"
    listed = ", ".join(f"`{name}`" for name in lacking)
    row.problems.append(f"{listed} is missing; method {method} needs {_NEEDED[method]}{advice}")
    return True


def _messages(row: FileRow, name: str) -> list[Message]:
    """Returns the list of messages under `name`; problems go to `row`."""
    messages: list[Message] = []
    for at, item in row.enumerate_items(row.items(name, needed=True)):
        spot = f"`{name}[{at}]`"
        if not isinstance(item, dict):
            row.problems.append(f"{spot} is {kind(item)}, an object with `role` and `content` is needed")
            continue
        role, content = item.get("role"), item.get("content")
        if role not in ROLES:
            row.problems.append(
                f"{spot} has the role {short_repr(role)}; roles are {', '.join(ROLES[:-1])} and {ROLES[-1]}"
            )
        elif not isinstance(content, str):
            row.problems.append(f"{spot} has {kind(content)} as `content`, a string is needed")
        elif role == "assistant" and not content.strip():
            row.problems.append(f"{spot} is an empty reply")
        else:
            shown = content if role == "assistant" else escape_markers(content)
            messages.append({"role": str(role), "content": shown})
    return messages if not row.problems else []


def _mixed(read_rows: Sequence[TrainRow]) -> Iterator[str]:
    """Yields the problem of the first row that has another format than the one before it."""
    for before, row in pairwise(read_rows):
        if set(before.fields) != set(row.fields) or before.conversational != row.conversational:
            yield f"{row.location} has another format ({_format(row)}) than those before ({_format(before)})"
            return


def _format(row: TrainRow) -> str:
    return f"{', '.join(row.fields)} as {'messages' if row.conversational else 'text'}"
