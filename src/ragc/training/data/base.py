"""What makes training data: collects the items of one question, then chooses rows among all of them.

A row is a JSON object. Rows of pairs and conversations hold messages as chat templates take them, `role` and
`content`. An item is a candidate for a row, with the class that the card counts it under.
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
    """What one question gave: items, and why others were dropped, with counts."""

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

    `needs_gold` says whether gold answers decide anything. `roles` are the roles that are called, and
    `most_calls` the typed calls of one question at most. `longest_reply` is in tokens. `facts` are for the
    card.
    """

    @property
    def needs_gold(self) -> bool: ...  # noqa: D102 - described above

    @property
    def roles(self) -> tuple[str, ...]: ...  # noqa: D102

    @property
    def facts(self) -> Mapping[str, Any]: ...  # noqa: D102

    @property
    def most_calls(self) -> int: ...  # noqa: D102

    @property
    def longest_reply(self) -> int: ...  # noqa: D102

    async def collect(self, question: Question) -> Gathered:
        """The items of `question`, and what was dropped. Raises TargetError and BudgetExhausted."""
        ...

    def select(self, gathered: Sequence[Gathered]) -> Selection:
        """The rows among what the questions gave, in the order in which they are written.

        Raises RagcError where no choice is possible.
        """
        ...


def as_run(program: RagProgram, task: Task, *, checked: bool = False) -> Any:
    """`program` with the prompts that the recipe of `task` names for its own program.

    Raises RecipeError as `give_prompts`; with `checked` what they lose was said before.
    """
    program.method = task.method
    return give_prompts(program, task.recipe, checked=checked)


def conversation(call: RagPredict, inputs: Mapping[str, Any]) -> list[Message]:
    """The messages that `call` sends for `inputs`, cut to its context as a run cuts them."""
    messages = call.messages(**inputs)
    if not call.surely_fits(messages):
        _, messages = cut_to_fit(call, dict(inputs))
    return [{"role": message.role, "content": message.content} for message in messages]


def reply(call: TypedPrompt, outputs: Mapping[str, Any]) -> Message:
    """The reply that `call` should get, `outputs` in its layout, as its demonstrations show replies.

    Role markers in the outputs are escaped, so that what a passage made a model say ends no message.
    """
    shown = plain({name: outputs[name] for name in call.signature_sent.output_fields})
    values = {name: _escaped(value) for name, value in shown.items()}
    text = adapter(call.layout).format_assistant_message_content(call.signature_sent, values)
    return {"role": "assistant", "content": text}


def _escaped(value: Any) -> Any:
    """A JSON value with role markers in its texts escaped."""
    match value:
        case str():
            return escape_markers(value)
        case list():
            return [_escaped(item) for item in value]
        case dict():
            return {name: _escaped(item) for name, item in value.items()}
    return value


def drop_repeated(items: Sequence[Item]) -> Selection:
    """`items` without rows that came before."""
    unique: dict[str, Item] = {}
    for item in items:
        unique.setdefault(digest(item.row), item)
    repeats = len(items) - len(unique)
    return Selection(tuple(unique.values()), {"a repeated row": repeats} if repeats else {})


def all_items(gathered: Sequence[Gathered]) -> list[Item]:
    """The items of all questions, in their order."""
    return [item for one in gathered for item in one.items]


def teacher_call(like: RagPredict, signature: Any, *, sampling: Sampling) -> RagPredict:
    """A call of the target `teacher` in the layout of `like`; a teacher gets the full wording."""
    from ragc.signatures.wording import worded

    return RagPredict(
        worded(signature, "full"), like.runtime, role="teacher", layout=like.layout, sampling=sampling
    )
