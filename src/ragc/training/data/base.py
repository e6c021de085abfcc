"""Collectors of training data: they collect the items of each question, then choose rows among all of them.

A row is a JSON object. Rows of pairs and conversations hold messages as chat templates take them, `role` and
`content`. An item is a candidate for a row, with its class in the card.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ragc.core.digest import digest
from ragc.core.text import escape_markers
from ragc.programs.base import RagProgram
from ragc.programs.calls.demos import plain
from ragc.programs.calls.fit_context import cut_to_fit
from ragc.programs.calls.layouts import adapter
from ragc.programs.calls.predict import RagPredict
from ragc.programs.calls.prompt import TypedPrompt
from ragc.records import Question
from ragc.targets.base import Sampling
from ragc.task.base import Task
from ragc.task.prompts import give_prompts

Message = dict[str, str]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """A candidate for a row, and its class."""

    row: Row
    label: str


@dataclass(slots=True)
class Gathered:
    """The result of one question: items, and why others were dropped, with counts."""

    question: Question
    items: list[Item] = field(default_factory=list)
    drops: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows that are written, and why items were left out, with counts."""

    items: Sequence[Item]
    drops: Mapping[str, int] = field(default_factory=dict)


class Collector(Protocol):
    """One kind of training data over a task.

    `needs_gold` says whether gold answers are needed. `roles` are the roles that are called, and `calls`
    the typed calls of the longest way through one question. `longest_reply` is in tokens. `facts` are for the
    card.
    """

    @property
    def needs_gold(self) -> bool: ...  # noqa: D102 - described above

    @property
    def roles(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def facts(self) -> Mapping[str, Any]: ...  # noqa: D102

    @property
    def calls(self) -> int: ...  # noqa: D102

    @property
    def longest_reply(self) -> int: ...  # noqa: D102

    async def collect(self, question: Question) -> Gathered:
        """Returns the items of `question`, and what was dropped. Raises TargetError and BudgetExhausted."""
        ...

    def select(self, gathered: Sequence[Gathered]) -> Selection:
        """Selects the rows from the results of all questions, in the order in which they are written.

        Raises RagcError if no choice is possible.
        """
        ...


def as_run(program: RagProgram, task: Task) -> Any:
    """Returns `program` with the prompts that the recipe of `task` names for its own program.

    Raises RecipeError as `give_prompts`.
    """
    program.method = task.method
    return give_prompts(program, task.recipe)


def conversation(call: RagPredict, inputs: Mapping[str, Any]) -> list[Message]:
    """Returns the messages that `call` sends for `inputs`, cut to its context as in a run."""
    messages = call.messages(**inputs)
    if not call.surely_fits(messages):
        _, messages = cut_to_fit(call, dict(inputs))
    return [{"role": message.role, "content": message.content} for message in messages]


def reply(call: TypedPrompt, outputs: Mapping[str, Any]) -> Message:
    """Returns the reply that `call` should get: `outputs` in its layout, as in its demonstrations.

    Role markers in the outputs are escaped, so that a text copied from a passage ends no message.
    """
    shown = plain({name: outputs[name] for name in call.signature_sent.output_fields})
    values = {name: _escaped(value) for name, value in shown.items()}
    text = adapter(call.layout).format_assistant_message_content(call.signature_sent, values)
    return {"role": "assistant", "content": text}


def _escaped(value: Any) -> Any:
    """Returns a JSON value with role markers in its texts escaped."""
    match value:
        case str():
            return escape_markers(value)
        case list():
            return [_escaped(item) for item in value]
        case dict():
            return {name: _escaped(item) for name, item in value.items()}
    return value


def drop_repeated(items: Sequence[Item]) -> Selection:
    """Returns `items` without repeated rows."""
    unique: dict[str, Item] = {}
    for item in items:
        unique.setdefault(digest(item.row), item)
    repeats = len(items) - len(unique)
    return Selection(tuple(unique.values()), {"a repeated row": repeats} if repeats else {})


def longest_reply(program: RagProgram) -> int:
    """Returns the greatest limit of a reply of any call of `program`, in tokens."""
    return max(int(call.sampling.max_tokens) for _, call in program.named_calls())


def all_items(gathered: Sequence[Gathered]) -> list[Item]:
    """Returns the items of all questions, in their order."""
    return [item for one in gathered for item in one.items]


def teacher_call(like: RagPredict, signature: Any, *, sampling: Sampling) -> RagPredict:
    """Returns a call of the target `teacher` in the layout of `like`; a teacher gets the full wording."""
    from ragc.signatures.wording import worded

    return RagPredict(
        worded(signature, "full"), like.runtime, role="teacher", layout=like.layout, sampling=sampling
    )
