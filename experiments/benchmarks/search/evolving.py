"""Evolving instructions beside GEPA on three scripted tasks: answers until the best text is near the top.

    PYTHONPATH=src python -m experiments.benchmarks.search.evolving [--seeds N] [--first SEED]

An instruction holds facts. A scripted model writes the marks of the facts that it holds and that apply to a
question, and is right if these are exactly the marks that the question needs. `add`: each of eight kinds of
questions needs one fact. `together`: each of three kinds needs two facts, one alone changes nothing.
`hurt`: six kinds need one fact each, and a seventh fact helps few questions and hurts more.

One scripted teacher serves both systems. It knows only what it is shown: the marks in the instruction, and of
each failed question what was expected and what was answered. It takes in half of the failed questions; of
each it adds one missing mark, or drops one that should not be there.

Both run through ragc on equal terms (`search.optimizer`): ragc's study with `SETTINGS`, and dspy.GEPA at its
defaults. Counted are questions answered by the program, of train and dev, each pair of instruction and
question once, so that GEPA's repeats are free. Dev questions decide in both which instruction is best: the
one with the highest mean of those that all dev questions saw. Printed is the number of answers until its true
score, over the kinds and not the questions, reaches 95% of the greatest possible one: the median over seeds
and the seeds that reached it, and beside it the number until any instruction that was tried does.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import combinations
from math import inf, isfinite
from pathlib import Path
from statistics import median
from typing import Any

from ragc import recipe as recipes
from ragc.optimizers import compile as compiling
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget

TRAIN, DEV = 60, 60
SHARE = 0.95
"""The share of the greatest true score that counts as near the top."""

SETTINGS = {"instructions": 1, "instruction_rounds": 8, "trials": 8, "batch": 1}
"""The keys of `[search]` of ragc's study."""

GEPA_TRIALS = 20
"""GEPA's budget in full evaluations on dev."""

RECIPE = """
program = "no_retrieval"
seed = {seed}
concurrency = 1
[search]
knobs = []
objectives = ["em"]
{search}
[data]
questions = "questions.jsonl"
[targets.main]
kind = "embedded"
[metrics]
report = ["em"]
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """Questions of one kind: their share, the facts they need and those that hurt them."""

    share: float
    needs: frozenset[str] = frozenset()
    hurt_by: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class World:
    """A task: its kinds of questions by name."""

    kinds: Mapping[str, Kind]

    @property
    def facts(self) -> tuple[str, ...]:
        """All facts."""
        return tuple(sorted({fact for kind in self.kinds.values() for fact in (*kind.needs, *kind.hurt_by)}))

    def right(self, kind: str, held: frozenset[str]) -> bool:
        """Whether a question of `kind` is answered well by an instruction with the facts `held`."""
        one = self.kinds[kind]
        return one.needs <= held and not one.hurt_by & held

    def score(self, held: frozenset[str]) -> float:
        """The true score of an instruction with the facts `held`."""
        return sum(one.share for name, one in self.kinds.items() if self.right(name, held))

    @property
    def top(self) -> float:
        """The greatest true score of any set of facts."""
        facts = self.facts
        sets = (frozenset(chosen) for n in range(len(facts) + 1) for chosen in combinations(facts, n))
        return max(map(self.score, sets))


def _needing(*needs: str, share: float, hurt_by: Sequence[str] = ()) -> Kind:
    return Kind(share, frozenset(needs), frozenset(hurt_by))


WORLDS: Mapping[str, World] = {
    "add": World(
        {
            "plain": _needing(share=0.2),
            **{f"kind{n}": _needing(f"mark{n}", share=0.1) for n in range(8)},
        }
    ),
    "together": World(
        {
            "plain": _needing(share=0.25),
            **{f"kind{n}": _needing(f"mark{2 * n}", f"mark{2 * n + 1}", share=0.25) for n in range(3)},
        }
    ),
    "hurt": World(
        {
            "plain": _needing(share=0.1, hurt_by=["mark6"]),
            **{f"kind{n}": _needing(f"mark{n}", share=0.1) for n in range(4)},
            **{f"kind{n}": _needing(f"mark{n}", share=0.2, hurt_by=["mark6"]) for n in (4, 5)},
            "kind6": _needing("mark6", share=0.1),
        }
    ),
}
"""The three tasks."""

MARK = re.compile(r"\bmark\d+\b")
_ASKED = re.compile(r"entry (\d+) of the (\w+) ledger")
_SHOWN = re.compile(r'Expected: "([^"]*)"(?: or "[^"]*")*\. Answered: "([^"]*)"')


def questions(world: World, n: int, split: str, seed: int) -> Iterator[dict[str, Any]]:
    """`n` questions of `split`, of kinds drawn by their shares."""
    rng = random.Random(f"{split} {seed}")
    names = list(world.kinds)
    for number in range(n):
        kind = rng.choices(names, [one.share for one in world.kinds.values()])[0]
        entry = rng.randrange(10**6)
        yield {
            "id": f"{split}{number}",
            "question": f"What is entry {entry} of the {kind} ledger?",
            "answers": [" ".join([str(entry), *sorted(world.kinds[kind].needs)])],
            "split": split,
        }


@dataclass(slots=True)
class Answers:
    """What the scripted model was asked: instruction, question and whether it was right, in order."""

    world: World
    dev: frozenset[str]
    log: list[tuple[str, str, bool]] = field(default_factory=list)

    def reached(self) -> tuple[float, float]:
        """The answers until the best text on dev, and until any text, is near the top; infinite if never."""
        goal = SHARE * self.world.top - 1e-9
        seen: dict[str, dict[str, bool]] = {}
        best, leader, tried = -1.0, inf, inf
        for number, (text, question, right) in enumerate(self.log, start=1):
            near = self.world.score(marks(text)) >= goal
            tried = min(tried, number) if near else tried
            if question not in self.dev:
                continue
            scores = seen.setdefault(text, {})
            scores[question] = right
            if len(scores) == len(self.dev) and (mean := sum(scores.values()) / len(scores)) > best:
                best, leader = mean, (min(leader, number) if near else inf)
        return leader, tried


def marks(text: str) -> frozenset[str]:
    """The facts that an instruction holds."""
    return frozenset(MARK.findall(text))


def instruction(held: frozenset[str]) -> str:
    """An instruction with the facts `held`."""
    return " ".join(["Answer the question.", *(f"Write {fact} where it applies." for fact in sorted(held))])


def teach(prompt: str, draw: str, instructed: frozenset[str]) -> str:
    """A new instruction after reading `prompt`; chances depend on the prompt and the `draw`."""
    rng = random.Random(sha256(f"{prompt}{draw}".encode()).hexdigest())
    held = set(instructed)
    for expected, answered in _SHOWN.findall(prompt.replace('\\"', '"')):  # it may be quoted JSON
        missing = sorted(marks(expected) - marks(answered))
        extra = sorted(marks(answered) - marks(expected))
        if not (missing or extra) or rng.random() < 0.5:
            continue
        if extra:
            held.discard(rng.choice(extra))
        else:
            held.add(rng.choice(missing))
    return instruction(frozenset(held))


def instructed_by(prompt: str) -> frozenset[str]:
    """The facts of the instructions that a teacher's prompt shows, apart from its examples."""
    return frozenset(re.findall(r"Write (mark\d+) where it applies", prompt))


def script(world: World, answers: Answers) -> Callable[[ChatRequest], dict[str, Any]]:
    """The scripted model, which also teaches."""

    def reply(request: ChatRequest) -> dict[str, Any]:
        prompt = "\n".join(message.content for message in request.messages)
        if "new_instruction" in json.dumps(request.schema):
            return {"new_instruction": teach(prompt, str(request.sample), instructed_by(prompt))}
        entry, kind = _ASKED.findall(request.messages[-1].content)[-1]
        text, one = request.messages[0].content, world.kinds[kind]
        held = marks(text)
        shown = sorted(held & (one.needs | one.hurt_by))
        answers.log.append((text, entry, world.right(kind, held)))
        return {"answer": " ".join([entry, *shown])}

    return reply


def run(name: str, system: str, seed: int, settings: Mapping[str, int] = SETTINGS) -> tuple[float, float]:
    """The answers until the leader, and until any instruction, is near the top (`Answers.reached`)."""
    world = WORLDS[name]
    with tempfile.TemporaryDirectory() as at:
        folder = Path(at)
        rows = [*questions(world, TRAIN, "train", seed), *questions(world, DEV, "dev", seed)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / "questions.jsonl").write_text(text, "utf-8")
        search = settings if system == "ragc" else {"trials": GEPA_TRIALS}
        lines = [f'optimizer = "{system}"', *(f"{key} = {value}" for key, value in search.items())]
        (folder / "recipe.toml").write_text(RECIPE.format(seed=seed, search="\n".join(lines)), "utf-8")
        dev = frozenset(_ASKED.findall(row["question"])[0][0] for row in rows if row["split"] == "dev")
        answers = Answers(world, dev)
        target = ScriptedTarget(script(world, answers), identity=f"{name} {seed}")
        recipe = recipes.load(folder / "recipe.toml")
        compiling.compile(recipe, folder / "out", store=CallStore(None), targets={"main": target})
        return answers.reached()


def main() -> None:
    """Runs all tasks and prints a line for each system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--tasks", nargs="*", default=list(WORLDS))
    parser.add_argument("--systems", nargs="*", default=["ragc", "gepa"])
    parser.add_argument("--set", nargs="*", default=[], help="other settings of ragc's study, KEY=NUMBER")
    args = parser.parse_args()
    settings = SETTINGS | {key: int(value) for key, _, value in (text.partition("=") for text in args.set)}
    print(f"{'task':10}{'system':8}{'median':>8}{'reached':>9}{'tried':>8}  answers by seed")
    for name in args.tasks:
        for system in args.systems:
            seeds = range(args.first, args.first + args.seeds)
            results = [run(name, system, seed, settings) for seed in seeds]
            leaders, tried = zip(*results, strict=True)
            reached = sum(map(isfinite, leaders))
            line = " ".join("-" if value == inf else str(value) for value in leaders)
            print(
                f"{name:10}{system:8}{median(leaders):8g}{reached:6d}/{len(leaders):<3}"
                f"{median(tried):7g}  {line}",
                flush=True,
            )


if __name__ == "__main__":
    main()
