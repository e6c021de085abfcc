"""How far the judge of a recipe agrees with people, on the 1,490 answers of NQ301.

    python experiments/benchmarks/scoring/judge_agreement.py RECIPE FOLDER
        [--prompt matches|ragx|meta|claims|entails] [--entailment judge|lexical|nli:FOLDER] [--rows N]
        [--set KEY=VALUE ...] [--out FILE]

FOLDER holds NQ301_human.tsv, with people's verdicts, and NQ301_BEM.tsv, with the gold answers, of
https://github.com/ehsk/OpenQA-eval (Kamalloo et al. 2023, arXiv:2305.06984). The target [targets.judge] of
RECIPE judges, or [targets.main] where there is none. `claims` is the metric answer_correctness, whose claims
the entailment backend decides; the extra `dense` is needed. `entails` asks that backend whether question and
answer support question and a gold answer. N rows are drawn with a fixed seed. Prints what
decided how often, and the agreement: a value, its 95% interval and the answers it rests on. FILE
(judged.jsonl) gets one JSON line an answer. Calls that the store holds are replayed, so a run that broke off
goes on.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from experiments.benchmarks.scoring.agreement import read_judged
from ragc import recipe
from ragc.core import event_loop
from ragc.metrics import get
from ragc.metrics.base import Finding, Grader, GraderInputs, Outcome
from ragc.metrics.crag import CragAssessor
from ragc.metrics.entailment import make as make_entailer
from ragc.metrics.entailment.base import Entailer
from ragc.metrics.judge import JudgeAssessor
from ragc.metrics.judged.without_gold import GRADERS, WEIGHT
from ragc.metrics.reports.agreement import THRESHOLD
from ragc.metrics.settings import GraderSettings
from ragc.metrics.stats.agreement import Agreement, JudgedAnswer, agreement
from ragc.metrics.stats.separation import separation
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.store.call_store import open_store
from ragc.targets import build as build_target
from ragc.targets.base import Sampling, Target

SEED = 0
VERDICT, LISTED = Sampling(max_tokens=64), Sampling(max_tokens=768)
CLAIMS = "answer_correctness"


class TargetAsk:
    """Typed calls of a target."""

    def __init__(self, target: Target, sampling: Sampling) -> None:
        self.name, self._sampling = target.name, sampling
        self._runtime = Runtime({"judge": target}, store=open_store())

    async def __call__(self, signature: Any, /, **inputs: Any) -> Mapping[str, Any]:
        """The outputs of `signature` for `inputs`."""
        call = RagPredict(signature, self._runtime, role="judge", sampling=self._sampling)
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


class EntailmentAssessor:
    """Judges by an entailment backend: question and answer must support question and a gold answer."""

    family = "judge"

    def __init__(self, entailer: Entailer) -> None:
        self._entailer = entailer

    @property
    def backend(self) -> str:
        """The entailment backend."""
        return f"entailment {self._entailer.name}"

    async def assess(self, outcome: Outcome) -> dict[str, str]:
        """Returns the finding for `outcome`."""
        premise = f"{outcome.question}? {outcome.prediction}"
        pairs = [(premise, f"{outcome.question}? {gold}") for gold in outcome.answers]
        verdicts = await self._entailer.entails(pairs)
        right = any(verdicts)
        by = "unreadable" if None in verdicts and not right else "entailment"
        return {"verdict": "correct" if right else "wrong", "by": by}


def assessor(target: Target, prompt: str, entailment: str) -> Grader:
    ask = TargetAsk(target, LISTED if prompt == "claims" else VERDICT)
    if prompt == "entails":
        return EntailmentAssessor(make_entailer(entailment, ask))
    if prompt == "claims":
        kind = next(kind for kind in GRADERS if kind.family == CLAIMS)
        entailer = cache(lambda: make_entailer(entailment, ask))
        return kind.build(GraderInputs(GraderSettings(entailment=entailment), ask, entailer))
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
        graded = replace(outcome, findings={judge.family: Finding(verdict, judge.backend)})
        score = get(CLAIMS).score(graded) if judge.family == CLAIMS else None
        return {**fields, "human": human, "judge": verdict, "score": score}

    return await asyncio.gather(*(one(*row) for row in rows))


def claim_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The agreement of answer_correctness, and of its parts: a score of THRESHOLD or more is "correct"."""
    scored = [row for row in rows if row["score"] is not None]
    parts = {
        CLAIMS: [row["score"] for row in scored],
        "F1 of the claims alone": [(row["score"] - (1 - WEIGHT) * _cosine(row)) / WEIGHT for row in scored],
        "cosine alone": [_cosine(row) for row in scored],
    }
    human = [bool(row["human"]) for row in scored]
    shown = [f"{len(scored)} of {len(rows)} have a score"]
    for name, scores in parts.items():
        verdicts = [
            JudgedAnswer(right, score >= THRESHOLD) for right, score in zip(human, scores, strict=True)
        ]
        area = separation(scores, human, seed=SEED)
        shown += [f"{name}: area {area.mean:.3f} [{area.low:.3f}, {area.high:.3f}]"]
        shown += lines(agreement(verdicts, seed=SEED))
    return shown


def _cosine(row: Mapping[str, Any]) -> float:
    return float(row["judge"].get("cosine", 0.0))


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
    parser.add_argument(
        "--prompt", choices=("matches", "ragx", "meta", "claims", "entails"), default="matches"
    )
    parser.add_argument("--entailment", default="judge")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--out", type=Path, default=Path("judged.jsonl"))
    args = parser.parse_args()
    specs = recipe.load(args.recipe, args.sets).target_specs()
    target = build_target(specs["judge" if "judge" in specs else "main"])
    judge = assessor(target, args.prompt, args.entailment)
    rows = read_labels(args.folder)
    if args.rows:
        rows = random.Random(SEED).sample(rows, min(args.rows, len(rows)))
    verdicts = event_loop.run(judge_answers(target, judge, rows))
    args.out.write_text("".join(json.dumps(row) + "\n" for row in verdicts), encoding="utf-8")
    by = Counter(row["judge"]["by"] for row in verdicts)
    print(f"{judge.backend}\ndecided by {', '.join(f'{name} {n}' for name, n in by.most_common())}")
    shown = (
        claim_lines(verdicts)
        if args.prompt == "claims"
        else lines(agreement(read_judged(args.out), seed=SEED))
    )
    print("\n".join(shown))


if __name__ == "__main__":
    main()
