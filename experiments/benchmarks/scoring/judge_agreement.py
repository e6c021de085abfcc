"""How far the judge of a recipe agrees with people, on the 1,490 answers of NQ301.

    python experiments/benchmarks/scoring/judge_agreement.py RECIPE FOLDER
        [--prompt matches|ragx|meta] [--rows N] [--set KEY=VALUE ...] [--out FILE]

FOLDER holds NQ301_human.tsv, with people's verdicts, and NQ301_BEM.tsv, with the gold answers, of
https://github.com/ehsk/OpenQA-eval (Kamalloo et al. 2023, arXiv:2305.06984). The target [targets.judge] of
RECIPE judges, or [targets.main] where there is none. N rows are drawn with a fixed seed. Prints what decided
how often, and the agreement: a value, its 95% interval and the answers it rests on. FILE (judged.jsonl) gets
one JSON line an answer. Calls that the store holds are replayed, so a run that broke off goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.benchmarks.scoring.agreement import read_judged
from ragc import recipe
from ragc.core import event_loop
from ragc.metrics.base import Grader, Outcome
from ragc.metrics.crag import CragAssessor
from ragc.metrics.judge import JudgeAssessor
from ragc.metrics.settings import GraderSettings
from ragc.metrics.stats.agreement import Agreement, agreement
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.store.call_store import open_store
from ragc.targets import build as build_target
from ragc.targets.base import Sampling, Target

SEED = 0
VERDICT = Sampling(max_tokens=64)


class TargetAsk:
    """Typed calls of a target."""

    def __init__(self, target: Target) -> None:
        self.name = target.name
        self._runtime = Runtime({"judge": target}, store=open_store())

    async def __call__(self, signature: Any, /, **inputs: Any) -> Mapping[str, Any]:
        """The outputs of `signature` for `inputs`."""
        call = RagPredict(signature, self._runtime, role="judge", sampling=VERDICT)
        return dict((await call.acall(**inputs)).items())


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def read_labels(folder: Path) -> list[tuple[Outcome, bool]]:
    """Every answer with what people say of it; the two files hold the same answers in the same order."""
    rows = []
    for human, listed in zip(table(folder / "NQ301_human.tsv"), table(folder / "NQ301_BEM.tsv"), strict=True):
        assert human["Question"] == listed["Question"], f"the files differ at {human['Question']!r}"
        golds = tuple(part.strip() for part in listed["Gold answers"].split("|"))
        outcome = Outcome(human["Model answer"], golds, question=human["Question"])
        rows.append((outcome, human["Acceptable?"] == "Yes"))
    return rows


def assessor(ask: TargetAsk, prompt: str) -> Grader:
    if prompt == "matches":
        return JudgeAssessor(ask)
    return CragAssessor(ask, GraderSettings(crag_judge=prompt, alternatives=True))


async def judge_answers(
    target: Target, judge: Grader, rows: Sequence[tuple[Outcome, bool]]
) -> list[dict[str, Any]]:
    await target.open(None)
    free = asyncio.Semaphore(target.concurrency)

    async def one(outcome: Outcome, human: bool) -> dict[str, Any]:
        async with free:
            verdict = await judge.assess(outcome)
        fields = {"question": outcome.question, "answers": outcome.answers, "prediction": outcome.prediction}
        return {**fields, "human": human, "judge": verdict}

    return await asyncio.gather(*(one(*row) for row in rows))


def lines(result: Agreement) -> list[str]:
    cells = f"both correct {result.both}, judge only {result.judge_only}, people only {result.human_only}"
    shown = [f"{cells}, neither {result.neither}; unreadable {result.unreadable}"]
    for name in ("accuracy", "kappa", "precision", "recall"):
        part = getattr(result, name)
        text = (
            f"{part.mean:.3f}  [{part.low:.3f}, {part.high:.3f}]  of {part.n}" if part else "cannot be told"
        )
        shown.append(f"{name:<10}{text}")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--prompt", choices=("matches", "ragx", "meta"), default="matches")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--out", type=Path, default=Path("judged.jsonl"))
    args = parser.parse_args()
    specs = recipe.load(args.recipe, args.sets).target_specs()
    target = build_target(specs["judge" if "judge" in specs else "main"])
    judge = assessor(TargetAsk(target), args.prompt)
    rows = read_labels(args.folder)
    if args.rows:
        rows = random.Random(SEED).sample(rows, min(args.rows, len(rows)))
    verdicts = event_loop.run(judge_answers(target, judge, rows))
    args.out.write_text("".join(json.dumps(row) + "\n" for row in verdicts), encoding="utf-8")
    by = Counter(row["judge"]["by"] for row in verdicts)
    print(f"{judge.backend}\ndecided by {', '.join(f'{name} {n}' for name, n in by.most_common())}")
    print("\n".join(lines(agreement(read_judged(args.out), seed=SEED))))


if __name__ == "__main__":
    main()
