"""Rows of training data: how they are collected, and the files in which they and their card are written.

    FILE.jsonl   the rows, one JSON object a line
    FILE.md      the card; its last line has the digests of both, so that only ragc's own files are replaced

A collector collects the items of each question, then selects rows among all of them. Rows of pairs and
conversations hold messages as chat templates take them, `role` and `content`. An item is a candidate for a
row, with its class in the card.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ragc.core.digest import digest, file_digest
from ragc.core.display import describe
from ragc.core.extras import __version__
from ragc.core.files import Foreign, check_writable, put_file, read_text, resolve_out, sha256
from ragc.core.text import escape_surrogates, escape_value, json_text, visible
from ragc.errors import UnknownName, UsageError
from ragc.metrics.short_answer import normalise
from ragc.optimizers.grids.provenance import origin_of
from ragc.programs.base import RagProgram
from ragc.programs.calls.demos import plain
from ragc.programs.calls.fit_context import cut_to_fit
from ragc.programs.calls.layouts import adapter
from ragc.programs.calls.predict import RagPredict
from ragc.programs.calls.prompt import TypedPrompt
from ragc.records import Question
from ragc.signatures.wording import worded
from ragc.targets.base import Sampling
from ragc.task.base import Task
from ragc.task.prompts import give_prompts
from ragc.training import FORMATS, KINDS

PAIRS = "prefrag-dpo"
"""The kind whose rows are pairs."""

_SEAL = re.compile(r"\n<!-- ragc\.training-data/2 rows=(\w{64}) card=(\w{64}) -->\n\Z")

Row = dict[str, Any]
T = TypeVar("T")


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


class Collector:
    """One kind of training data over a task, collected by running `program`.

    `needs_gold` says whether gold answers are needed. `roles` are the roles that are called, and `calls` the
    typed calls of the longest way through one question. `questions` are the train questions, only the first
    of those with the same words. `facts` are for the card.
    """

    needs_gold = True
    roles: tuple[str, ...]
    calls: int
    program: RagProgram

    def __init__(self, task: Task) -> None:
        self.task = task
        self.questions = first_of_each(
            task.train, lambda question: normalise(question.question) or question.question
        )
        self.knobs: Any = task.recipe.settings()
        self.facts: Mapping[str, Any] = {}

    async def collect(self, question: Question) -> Gathered:
        """Returns the items of `question`, and what was dropped. Raises TargetError and BudgetExhausted."""
        raise NotImplementedError

    def select(self, items: Sequence[Item], drops: Counter[str]) -> Sequence[Item]:
        """Returns the rows to write among the `items` of all questions, and counts the others in `drops`.

        Raises RagcError if no choice is possible.
        """
        unique = first_of_each(items, lambda item: digest(item.row))
        drops["a repeated row"] += len(items) - len(unique)
        return unique

    def as_run(self, program: RagProgram) -> Any:
        """Returns `program` with the prompts of the recipe. Raises RecipeError."""
        program.method = self.task.method
        return give_prompts(program, self.task.recipe)


def conversation(call: RagPredict, inputs: Mapping[str, Any]) -> list[dict[str, str]]:
    """Returns the messages that `call` sends for `inputs`, cut to its context as in a run."""
    messages = call.messages(**inputs)
    if not call.surely_fits(messages):
        _, messages = cut_to_fit(call, dict(inputs))
    return [{"role": message.role, "content": message.content} for message in messages]


def reply(call: TypedPrompt, outputs: Mapping[str, Any]) -> dict[str, str]:
    """Returns the reply that `call` should get: `outputs` in its layout, as in its demonstrations.

    Role markers in the outputs are escaped, so that a text copied from a passage ends no message.
    """
    shown = escape_value(plain({name: outputs[name] for name in call.signature_sent.output_fields}))
    text = adapter(call.layout).format_assistant_message_content(call.signature_sent, shown)
    return {"role": "assistant", "content": text}


def first_of_each(values: Iterable[T], key: Callable[[T], str]) -> list[T]:
    """Returns `values` in order, only the first of those with the same key."""
    unique: dict[str, T] = {}
    for value in values:
        unique.setdefault(key(value), value)
    return list(unique.values())


def teacher_call(like: RagPredict, signature: Any, *, sampling: Sampling) -> RagPredict:
    """Returns a call of the target `teacher` in the layout of `like`; a teacher gets the full wording."""
    full = worded(signature, "full")
    return RagPredict(full, like.runtime, role="teacher", layout=like.layout, sampling=sampling)


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Training data on disk: rows, card, counts, and the requests of this run.

    `classes` and `drops` are numbers of rows by class, and of dropped items by reason. `counters` are
    requests sent and replayed, tokens, US dollars and seconds.
    """

    kind: str
    path: Path
    rows: Sequence[Row]
    classes: Mapping[str, int]
    drops: Mapping[str, int]
    counters: Mapping[str, float]

    @property
    def card(self) -> Path:
        """The file of the card."""
        return self.path.with_suffix(".md")

    def __repr__(self) -> str:
        return describe("TrainingData", repr(str(self.path)), **{"rows": len(self.rows), **self.classes})

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc data --json`."""
        return {
            "kind": self.kind,
            "out": str(self.path),
            "card": str(self.card),
            "rows": len(self.rows),
            "classes": dict(self.classes),
            "drops": dict(self.drops),
            "counters": dict(self.counters),
        }


class Output:
    """The file `out` for rows of a `kind` in a `format`, and its card, checked before anything is sent.

    Raises UsageError if they cannot be written, and Foreign if rows or card are not as ragc wrote them.
    """

    def __init__(self, out: str | Path, kind: str, format: str = "trl") -> None:
        if format not in FORMATS:
            raise UnknownName("format of training data", format, FORMATS)
        self.kind, self.format, self.rows = kind, format, resolve_out(out)
        if self.rows.suffix != ".jsonl":
            raise UsageError(f"--out names a file FILE.jsonl, found {str(out)!r}; its card is FILE.md.")
        self.card = self.rows.with_suffix(".md")
        existing = [path for path in (self.rows, self.card) if os.path.lexists(path)]
        text = read_text(self.card, errors="replace") if self.card.is_file() else ""
        seal = _SEAL.search(text)
        if existing and (seal is None or not existing[0].is_file()):
            raise Foreign(
                f"{existing[0]} exists and is no training data that ragc wrote; choose another --out or move "
                "it away."
            )
        # Rows may be missing: they are written last, and a kill left them out.
        same_rows = self.rows not in existing or (seal and seal[1] == file_digest(self.rows))
        if seal and not (same_rows and seal[2] == sha256(text[: seal.start()].encode())):
            changed = self.card if same_rows else self.rows
            raise Foreign(f"{changed} was changed since ragc wrote it; move it away or choose another --out.")
        check_writable(self.rows)

    def write(
        self,
        items: Sequence[Item],
        drops: Counter[str],
        facts: Mapping[str, Any],
        dataset: str,
        *remarks: str,
    ) -> TrainingData:
        """Writes the rows of `items` and their card: `remarks`, `facts`, the origin of the `dataset`, counts.

        Raises OSError.
        """
        rows = [item.row for item in items]
        if self.format == "llamafactory" and self.kind == PAIRS:  # one message where TRL wants a list
            rows = [{**row, "chosen": row["chosen"][0], "rejected": row["rejected"][0]} for row in rows]
        classes = dict(sorted(Counter(item.label for item in items).items()))
        left_out = dict(sorted((+drops).items(), key=lambda drop: (-drop[1], drop[0])))
        origin = origin_of(dataset)
        licence = "; ".join(dict.fromkeys(origin.get("licence", {}).values()))
        unknown = "not known to ragc; look where the questions and passages come from"
        about = {
            "rows": len(rows),
            "data set": dataset,
            "licence of the source": licence or unknown,
            "home of the source": origin.get("home") or unknown,
            **facts,
            "ragc": __version__,
        }
        entry = json.dumps({self.rows.stem: llamafactory_entry(self.rows.name, self.kind)}, indent=2)
        loading = (
            "TRL takes pairs and conversations as they are. LLaMA-Factory takes conversations, and pairs "
            "that were written with `--format llamafactory`, by this entry of `dataset_info.json`:\n\n"
            f"```json\n{entry}\n```"
        )
        parts = [
            f"# {_plain(self.rows.name)}",
            f"Written by `ragc data {self.kind}`: {KINDS[self.kind]}.",
            *map(_plain, remarks),
            _table(("", ""), about),
            "## Classes",
            _table(("class", "rows"), classes),
            "## Left out",
            _table(("reason", "number"), left_out) if left_out else "Nothing was left out.",
            *([] if self.kind == "slimplm-labels" else ["## Loading", loading]),
        ]
        card, content = "\n\n".join(parts) + "\n", "".join(f"{json_text(row)}\n" for row in rows).encode()
        seal = f"rows={sha256(content)} card={sha256(card.encode())}"
        self.rows.unlink(missing_ok=True)
        put_file(self.card, f"{card}\n<!-- ragc.training-data/2 {seal} -->\n".encode())
        put_file(self.rows, content)
        return TrainingData(self.kind, self.rows, rows, classes, left_out, {})


def llamafactory_entry(name: str, kind: str) -> dict[str, Any]:
    """Returns the entry of LLaMA-Factory's `dataset_info.json` for the file `name`."""
    pairs = {"ranking": True, "columns": {"messages": "prompt", "chosen": "chosen", "rejected": "rejected"}}
    columns = pairs if kind == PAIRS else {"columns": {"messages": "messages"}}
    roles = {f"{role}_tag": role for role in ("role", "content", "user", "assistant", "system")}
    return {"file_name": name, "formatting": "sharegpt", **columns, "tags": roles}


def _table(head: tuple[str, str], rows: Mapping[str, Any]) -> str:
    body = (f"| {_plain(key)} | {_plain(str(value))} |" for key, value in rows.items())
    return "\n".join([f"| {head[0]} | {head[1]} |", "| --- | --- |", *body])


def _plain(text: str) -> str:
    """Returns `text` on one line that ends no cell and holds no HTML."""
    line = escape_surrogates(" ".join(visible(text).split()))
    return line.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
