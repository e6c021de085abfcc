"""Random histories of compiles and evaluations: no question that taught or chose a program tests it unmarked.

A history has two machines (homes), one data set of 30 questions and some editions of its file. In an edition
each question has another id and may be spelled otherwise: zero-width characters, case, full-width letters,
punctuation, white space, labels in front. Steps are compiles (recipes of other sizes, seeds and editions, cut
off and resumed, with and without `include_seen`), evaluations of any program on any machine with other seeds,
sizes and editions, and `ragc.headroom`. Which question a row is, is known here by where it came from, not by
its text. After each step every scored row is held against what was used so far:

- a question that taught or chose a program is not scored as its test, or its row is marked;
- a question that an earlier search on the machine used is not scored by a compile, or its row is marked;
- where a row is scored in spite of that, the verdict or the remark says so;
- no other question is left out or marked.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc import recipe as recipes
from ragc.compiled.access import Access
from ragc.compiled.evaluate import score
from ragc.compiled.opened import open_program
from ragc.errors import UsageError
from ragc.optimizers import compile as compiling
from ragc.optimizers.plan.headroom import probe
from ragc.optimizers.search.storage import study_directory
from ragc.store.calls import CallStore
from ragc.targets.base import ChatRequest
from ragc.task.data import RecipeData
from ragc.task.passages import CorpusIds
from ragc.testing import ScriptedTarget

MACHINES = ("first", "second")
QUESTIONS = 30
STEPS = (3, 6)
"""The fewest and the most steps of a history."""

RECIPE = """
program = "vanilla"
concurrency = 4
[search]
knobs = ["top_k"]
demos = 0
objectives = ["em"]
[data]
questions = "questions-0.jsonl"
corpus = "corpus.jsonl"
[sources.local]
kind = "bm25"
[targets.main]
kind = "embedded"
"""

SUBJECTS = ("harbour", "railway", "library", "orchard", "museum", "lighthouse")
PLACES = ("Bergen", "Lisbon", "Quito", "Nairobi", "Osaka")


LABELS = (
    *("Q: ", "q:", "Q{n}: ", "Question: ", "Question {n}: ", "**Q:** ", "No. {n}: ", "#{n}: ", "#{n} "),
    *("Q.{n} ", "Q-{n}: ", "Example {n}: ", "Ex. {n}: ", "Question {n} of 99: "),
    *("### Question {n}\n", "**Question {n}**\n\n"),
    *("{n}. ", "{n}.{n}. ", "{n}) ", "({n}) ", "[{n}] ", "{n} - ", "a) ", "- ", "• "),
)
"""What stands in front of questions in lists."""


class Killed(BaseException):
    """Stands for a process that dies."""


class Broken(AssertionError):
    """A step did what it must not do; the text says which."""


def base_text(origin: int) -> str:
    """The question number `origin` as it was first written."""
    return f"Who built the old {SUBJECTS[origin % 6]} of {PLACES[origin // 6]}?"


def edited(text: str, rng: random.Random) -> str:
    """`text` as somebody else may write the same question."""
    for change in rng.sample(EDITS, rng.randint(0, 3)):
        text = change(text, rng)
    return text


def _invisible(text: str, rng: random.Random) -> str:
    signs = "\u200b\u200c\u200d\u2060\u00ad\ufeff\u202a\u202e\u2066\u2069\ufe0f\u180e\u061c"
    for _ in range(rng.randint(1, 4)):
        at = rng.randint(0, len(text))
        text = text[:at] + rng.choice(signs) + text[at:]
    return text


def _case(text: str, rng: random.Random) -> str:
    return rng.choice([text.upper(), text.lower(), text.title(), text.swapcase()])


def _full_width(text: str, rng: random.Random) -> str:
    return "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" and rng.random() < 0.5 else c for c in text)


def _punctuation(text: str, rng: random.Random) -> str:
    return rng.choice([text.rstrip("?"), f"{text}?!", f'"{text}"', text.replace(" of", ", of"), f"{text} …"])


def _spaces(text: str, rng: random.Random) -> str:
    return re.sub(" ", lambda _: rng.choice([" ", "  ", "\u00a0", "\t", " \u2003"]), f" {text} ")


def _label(text: str, rng: random.Random) -> str:
    number = rng.randint(1, 99)
    return rng.choice(LABELS).format(n=number) + text


EDITS = (_invisible, _case, _full_width, _punctuation, _spaces, _label)


def reply(request: ChatRequest) -> dict[str, str]:
    """An answer that is right for some questions."""
    text = request.messages[-1].content
    return {"answer": "Ada" if sum(map(ord, text)) % 3 else "nobody"}


def dying(after: int) -> ScriptedTarget:
    """Says what `reply` says, and dies at the request that follows `after` others."""
    sent = 0

    def answer(request: ChatRequest) -> dict[str, str]:
        nonlocal sent
        sent += 1
        if sent > after:
            raise Killed
        return reply(request)

    return ScriptedTarget(answer)


@dataclass
class Program:
    """A compiled program, and the questions that taught or chose it, by where they came from."""

    path: Path
    used: frozenset[int]
    earlier: frozenset[int]


@dataclass
class History:
    """One history in `folder`: what each machine's searches used, and the programs that there are."""

    folder: Path
    rng: random.Random
    searched: dict[str, set[int]] = field(default_factory=lambda: {name: set() for name in MACHINES})
    programs: list[Program] = field(default_factory=list)
    editions: int = 0
    rows: int = 0
    left_out: int = 0
    marked: int = 0

    def run(self) -> None:
        """Runs some steps. Raises Broken."""
        self._write_edition(lambda text: text)
        corpus = [
            {"id": f"d{n}", "title": base_text(n)[:-1], "text": "Ada built it."} for n in range(QUESTIONS)
        ]
        _write(self.folder / "corpus.jsonl", corpus)
        (self.folder / "recipe.toml").write_text(RECIPE, "utf-8")
        for step in range(self.rng.randint(*STEPS)):
            if self.rng.random() < 0.5:
                self._write_edition(lambda text: edited(text, self.rng))
            with machine(self.folder, self.rng.choice(MACHINES)) as name:
                kinds = [self._compile, self._compile, self._headroom] + 3 * [self._evaluate] * bool(
                    self.programs
                )
                self.rng.choice(kinds)(name, step)

    def _write_edition(self, change: Any) -> None:
        rows = [
            {
                "id": f"{self.editions}-{self.rng.randrange(10**6)}-{origin}",
                "question": change(base_text(origin)),
                "answers": ["Ada" if origin % 2 else "Bo"],
                "gold_ids": [f"d{origin}"],
            }
            for origin in range(QUESTIONS)
        ]
        self.rng.shuffle(rows)
        _write(self.folder / f"questions-{self.editions}.jsonl", rows)
        self.editions += 1

    def _sets(self) -> list[str]:
        rng = self.rng
        edition = rng.randrange(self.editions)
        train, dev = rng.randint(0, 6), rng.randint(3, 8)
        return [
            f"seed={rng.randrange(50)}",
            f'data.questions="questions-{edition}.jsonl"',
            f"data.train={train}",
            f"data.dev={dev}",
            f"data.test={rng.randint(4, 12)}",
            "search.trials=1",
        ]

    def _splits(self, sets: Sequence[str]) -> dict[str, frozenset[int]]:
        """The questions of each split, by where they came from, as they are drawn."""
        drawn = RecipeData(recipes.load(self.folder / "recipe.toml", sets)).splits(CorpusIds(()))
        return {name: frozenset(map(_origin, (q.id for q in held))) for name, held in drawn.items()}

    def _compile(self, name: str, step: int) -> None:
        sets, include = self._sets(), self.rng.random() < 0.3
        splits = self._splits(sets)
        recipe = recipes.load(self.folder / "recipe.toml", sets)
        out = self.folder / f"out-{step}"
        store = CallStore(self.folder / f"store-{step}")
        own = splits.get("train", frozenset()) | splits["dev"]
        earlier = splits["test"] & self.searched[name]
        more: dict[str, Any] = {"store": store, "include_seen": include}
        try:
            if self.rng.random() < 0.3:
                try:
                    target = dying(self.rng.randint(1, 12))
                    compiling.compile(recipe, out, targets={"main": target}, **more)
                except (Killed, BaseExceptionGroup):
                    self.searched[name] |= own
                    self._other_search(name)
                more["resume"] = True
            result = compiling.compile(recipe, out, targets={"main": ScriptedTarget(reply)}, **more)
        except UsageError as error:
            _hold("none is left to test on" in str(error) and splits["test"] <= earlier, f"refused: {error}")
            return
        self.searched[name] |= own
        path = study_directory(out) / "test-winner.jsonl"
        rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        marks = {_origin(row["id"]): row.get("seen", "") for row in rows}
        self._check(marks, splits["test"], earlier, include)
        if include and earlier:
            _hold("were seen before" in result.verdict, f"the verdict {result.verdict!r} hides what was seen")
        self.programs.append(Program(out, own, earlier))

    def _other_search(self, name: str) -> None:
        """Another search between a kill and its resume, on other questions."""
        sets = self._sets()
        recipe = recipes.load(self.folder / "recipe.toml", [*sets, "data.test=0"])
        target = {"main": ScriptedTarget(reply)}
        compiling.compile(recipe, self.folder / "between", targets=target, store=CallStore(None))
        splits = self._splits([*sets, "data.test=0"])
        self.searched[name] |= splits["dev"] | splits.get("train", frozenset())

    def _headroom(self, name: str, step: int) -> None:
        sets = [*self._sets(), "data.dev=8"]
        recipe = recipes.load(self.folder / "recipe.toml", sets)
        self.searched[name] |= self._splits(sets)["dev"]
        probe.headroom(recipe, calls=60, store=CallStore(None), targets={"main": ScriptedTarget(reply)})

    def _evaluate(self, name: str, step: int) -> None:
        program, sets = self.rng.choice(self.programs), self._sets()
        include = self.rng.random() < 0.3
        opened = open_program(
            program.path,
            sets,
            store=CallStore(None),
            targets={"main": ScriptedTarget(reply)},
            access=Access(self.folder, targets=True),
        )
        test = self._splits(sets)["test"]
        used = test & (program.used | program.earlier)
        try:
            result = score(opened, include_seen=include)
        except UsageError as error:
            _hold("none is left to test on" in str(error) and test <= used, f"refused: {error}")
            return
        finally:
            opened.close()
        marks = {_origin(row.question.id): row.seen for row in result.rows}
        self._check(marks, test, used, include)
        if include and used:
            _hold("flatter" in result.remark, f"the remark {result.remark!r} hides what was seen")

    def _check(
        self, marks: dict[int, str], test: frozenset[int], used: frozenset[int], include: bool
    ) -> None:
        """Holds the scored questions, with their marks, against those of the split that were used."""
        unmarked = {origin for origin, mark in marks.items() if not mark}
        _hold(not unmarked & used, f"scored unmarked though used: {sorted(unmarked & used)}")
        _hold(unmarked == test - used, f"left out or marked for nothing: {sorted(test - used - unmarked)}")
        _hold(marks.keys() == (test if include else test - used), "scored other questions than asked for")
        self.rows += len(marks)
        self.left_out += len(test) - len(marks)
        self.marked += len(marks) - len(unmarked)


def _hold(condition: bool, message: str) -> None:
    if not condition:
        raise Broken(message)


def _origin(id: str) -> int:
    return int(id.rpartition("-")[2])


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


@contextmanager
def machine(folder: Path, name: str) -> Iterator[str]:
    """The home of the machine `name` stands in the environment meanwhile."""
    before = os.environ.get("RAGC_HOME")
    os.environ["RAGC_HOME"] = str(folder / name)
    try:
        yield name
    finally:
        if before is None:
            del os.environ["RAGC_HOME"]
        else:
            os.environ["RAGC_HOME"] = before


def run_history(seed: int, folder: Path) -> History:
    """The history number `seed`, run in the empty `folder`. Raises Broken."""
    history = History(folder, random.Random(f"history {seed}"))
    history.run()
    return history
