"""The demo's program on recorded replies of its model: answers, scores and counters are those recorded.

A reply is found by the messages that it answers, so that the recording holds whatever keys of requests are.
After a change that is meant, with the weights of the embedded model (`ragc list targets`) in a file:
RECORD_DEMO=FILE python -m pytest tests/contracts/test_recorded_demo.py
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.names import ScriptedTarget, answer_with, reply_of, target_of

HERE = Path(__file__).with_name("recorded_demo")
REPLIES, ROWS = HERE / "replies.jsonl", HERE / "rows.jsonl"
METRICS = ("f1", "em", "recall@5")
COUNTED = ("lm_calls", "repairs", "searches", "dropped", "mended", "truncated", "trimmed", "tokens")
DEMOS = [
    {
        "question": "In which year was the tower of Ost built?",
        "passages": ["Ost\nThe tower of Ost was built in 1702."],
        "answer": "1702",
    },
    {
        "question": "Who found the cave of Lir?",
        "passages": ["Lir\nThe cave of Lir was found by Ada Moen."],
        "answer": "Ada Moen",
    },
]
"""Labelled demonstrations, as the demo compiles them."""


def messages_of(request: Any, left_out: int = 0) -> str:
    """The messages of a request, without the last ones."""
    messages = request.messages[: len(request.messages) - left_out]
    return json.dumps([[message.role, message.content] for message in messages])


class Recorded:
    """Replies in the place of the model; a request that none answers is a failure.

    A request that asks once more shows the reply that could not be read, and is answered by the second reply,
    whatever its words are.
    """

    def __init__(self, lines: Sequence[str]) -> None:
        self.replies = {json.dumps(line["messages"]): line["replies"] for line in map(json.loads, lines)}

    def __call__(self, request: Any) -> Any:
        first = self.replies.get(messages_of(request))
        return reply_of(*first[0]) if first else reply_of(*self.replies[messages_of(request, 2)][1])


def rows_on(target: Any = None, recipe: Path = HERE / "recipe.toml") -> Iterator[dict[str, Any]]:
    """The rows of all questions without demonstrations and with them."""
    for demos in ([], DEMOS):
        for row in answer_with(recipe, demos, METRICS, target):
            counters = {name: row["counters"][name] for name in COUNTED if row["counters"].get(name)}
            yield {"demonstrations": len(demos), **row, "counters": counters}


class Recording:
    """The embedded model, whose replies are kept."""

    def __init__(self, target: Any) -> None:
        self.target, self.kept = target, dict[str, list[Any]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def __deepcopy__(self, memo: object) -> Recording:
        return self

    async def complete(self, request: Any) -> Any:
        """Asks the model; a second reply stands with the first one."""
        reply = await self.target.complete(request)
        asked_again = messages_of(request, 2) in self.kept
        replies = self.kept.setdefault(messages_of(request, 2 * asked_again), [])
        replies.append([reply.text, reply.finish, reply.usage.prompt, reply.usage.completion])
        return reply


def record(weights: str, folder: Path) -> None:
    """Writes the replies of the model in the file `weights`, and the rows that they give."""
    recipe = folder / "recipe.toml"
    text = (HERE / "recipe.toml").read_text("utf-8")
    recipe.write_text(text.replace('kind = "embedded"', f'kind = "embedded"\nmodel = "{weights}"'), "utf-8")
    for name in ("questions.jsonl", "corpus.jsonl"):
        (folder / name).write_bytes((HERE / name).read_bytes())
    target = Recording(target_of(recipe))
    assert list(rows_on(target, recipe))
    lines = [
        {"messages": json.loads(messages), "replies": replies} for messages, replies in target.kept.items()
    ]
    REPLIES.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), "utf-8")
    rows = rows_on(ScriptedTarget(Recorded(REPLIES.read_text("utf-8").splitlines())))
    ROWS.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


@pytest.mark.skipif("RECORD_DEMO" not in os.environ, reason="records where RECORD_DEMO names the weights")
def test_the_recording_is_made(tmp_path: Path) -> None:
    record(os.environ["RECORD_DEMO"], tmp_path)


def test_answers_scores_and_counters_are_those_recorded() -> None:
    recorded = ScriptedTarget(Recorded(REPLIES.read_text("utf-8").splitlines()))
    expected = [json.loads(line) for line in ROWS.read_text("utf-8").splitlines()]
    assert json.loads(json.dumps(list(rows_on(recorded)))) == expected
