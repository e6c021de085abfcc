"""How well SlimPLM's judge tells right drafts of its proxy from wrong ones, and known subjects from obscure.

    python -m experiments.benchmarks.scoring.known_drafts RECIPE QUESTIONS [--limit N]
        [--by text|confidence|logprobs ...] [--wording full|brief ...] [--set KEY=VALUE ...] [--out FILE]

QUESTIONS are those of PopQA (Mallen et al. 2023, arXiv:2212.10511): the official table, or JSON lines with
`id`, `question`, `answers` or `possible_answers`, and `s_pop`, the monthly page views of the subject. The
target [targets.proxy] of RECIPE, or [targets.main] where there is none, drafts each question with the prompts
of SlimPLM and judges the draft: with both values of `judge_asks`, in each wording, by each kind of judgement.
By default that is logprobs where the target gives them, else confidence. A draft is right where a gold answer
stands in it, case aside. N questions are drawn with a fixed seed.

FILE (known_drafts.jsonl) gets one JSON line a judgement as soon as it is made; the same command goes on where
it was ended. Lines of another model, of other prompts or of questions that are not drawn stay, and are not
counted. Printed are, for each form, wording and kind of judgement:

    known if right, if wrong   shares of the drafts that pass for known, by the word, or above one half
    right                      area under the ROC curve: a right draft is scored above a wrong one
    popular                    the same for subjects with more page views than the median one

with 95% intervals, then the area of correctness less that of style on the same drafts, and what page views
alone would tell. What cannot be read has the score 0, as the program takes it, and is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from experiments.benchmarks.scoring.resumed import Resumed
from ragc import recipe
from ragc.core import event_loop
from ragc.core.digest import digest
from ragc.corpora.datasets import popqa
from ragc.corpora.files.rows import rows
from ragc.errors import DataError
from ragc.metrics.short_answer import popqa_match
from ragc.metrics.stats.intervals import Interval
from ragc.metrics.stats.separation import difference, separation
from ragc.programs.knobs import WORDINGS
from ragc.programs.runtime import Runtime
from ragc.programs.slimplm import METHOD, SlimPLMKnobs
from ragc.programs.slimplm.program import SlimPLM, probability
from ragc.signatures.claims import JUDGED
from ragc.store.call_store import CallStore, open_store
from ragc.targets import build as build_target
from ragc.targets.base import Target
from ragc.testing import ListSource

SEED = 0
KINDS = ("text", "confidence", "logprobs")


@dataclass(frozen=True, slots=True)
class PopQuestion:
    """A question of PopQA with its gold answers and the page views of its subject."""

    id: str
    question: str
    answers: tuple[str, ...]
    popularity: int


@dataclass(frozen=True, slots=True)
class Judged:
    """One judgement of a draft: whether it passes for known, and its score from 0 to 1.

    `judge` is a digest of the model and its prompts. `draft` is empty where the proxy gave none; it is not
    judged. `score` is None where the judgement could not be read.
    """

    judge: str
    id: str
    wording: str
    asks: str
    by: str
    draft: str
    right: bool
    popularity: int
    known: bool
    score: float | None

    @property
    def key(self) -> tuple[str, ...]:
        """What no two judgements share."""
        return (self.judge, self.id, self.wording, self.asks, self.by)


def read_questions(path: Path) -> list[PopQuestion]:
    """The questions at `path`. Raises DataError for a row without question, answers or page views."""
    questions: list[PopQuestion] = []
    problems: list[str] = []
    for row in rows(path):
        if not row.problems and "answers" in row.values:
            row.values.setdefault("possible_answers", row.values["answers"])
        question, _ = popqa.read(row)
        if "s_pop" not in question.extra:
            row.problems.append("`s_pop` is missing, the page views of the subject")
        problems += [f"{row.location}: {text}" for text in row.problems]
        views = question.extra.get("s_pop", 0)
        questions.append(PopQuestion(question.id, question.question, question.answers, int(str(views))))
    if problems or not questions:
        raise DataError(str(path), problems[:20] or ["has no questions"])
    return questions


def draw(questions: Sequence[PopQuestion], limit: int | None) -> list[PopQuestion]:
    """`limit` of the questions, drawn with a fixed seed; all of them without a limit."""
    if limit is None or limit >= len(questions):
        return list(questions)
    return random.Random(SEED).sample(list(questions), limit)


def judge_of(target: Target, store: CallStore, wording: str, asks: str, by: str) -> SlimPLM:
    """SlimPLM on `target`, of which the draft and the judge are called."""
    runtime = Runtime({"main": target, "proxy": target}, {"local": ListSource([])}, store=store)
    knobs = {"wording": wording, "judge_asks": asks, "judge_by": by, "use_qr": False}
    program: SlimPLM = METHOD.build(runtime, knobs)
    return program


def name_of(program: SlimPLM) -> str:
    """A digest of the model of `program` and of the prompts of its draft and judge."""
    sent = [
        program.draft.messages(question=""), program.judge.messages(question="", heuristic_answer="")
    ]  # fmt: skip
    model = program.runtime.target("proxy").identity
    return digest([model, [[message.content for message in messages] for messages in sent]])[:16]


async def judge(program: SlimPLM, question: PopQuestion) -> Judged:
    """The judgement of the proxy's draft for one question."""
    knobs: SlimPLMKnobs = program.knobs
    reply = await program.draft.try_call(question=question.question)
    draft = reply.heuristic_answer.strip() if reply else ""
    verdict = (
        await program.judge.try_call(question=question.question, heuristic_answer=draft) if draft else None
    )
    score: float | None = None
    if verdict is not None:
        match knobs.judge_by:
            case "text":
                score = float(verdict.known == "yes")
            case "confidence":
                score = verdict.confidence / 100
            case _:
                score = probability(verdict)
    return Judged(
        judge=name_of(program),
        id=question.id,
        wording=knobs.wording,
        asks=knobs.judge_asks,
        by=knobs.judge_by,
        draft=draft,
        right=bool(draft) and popqa_match(draft, question.answers) > 0,
        popularity=question.popularity,
        known=score is not None and score > 0.5,
        score=score,
    )


async def judge_all(
    target: Target,
    questions: Sequence[PopQuestion],
    out: Path,
    *,
    store: CallStore,
    kinds: Sequence[str],
    wordings: Sequence[str],
) -> list[Judged]:
    """The judgements of every question; those that `out` lacks are made and added to it."""
    await target.open(None)
    free = asyncio.Semaphore(target.concurrency)
    programs = [
        judge_of(target, store, wording, asks, by) for wording in wordings for asks in JUDGED for by in kinds
    ]
    with Resumed(out) as lines:
        there = {one.key: one for one in (Judged(**row) for row in lines.there)}

        async def one(program: SlimPLM, question: PopQuestion) -> Judged:
            knobs: SlimPLMKnobs = program.knobs
            key = (name_of(program), question.id, knobs.wording, knobs.judge_asks, knobs.judge_by)
            if key in there:
                return there[key]
            async with free:
                judged = await judge(program, question)
            lines.add(asdict(judged))
            return judged

        return await asyncio.gather(
            *(one(program, question) for question in questions for program in programs)
        )


def report(judged: Iterable[Judged]) -> Iterator[str]:
    """The table of all forms, wordings and kinds, then differences and what page views tell."""
    groups: dict[tuple[str, str, str], dict[str, Judged]] = {}
    empty = 0
    for one in judged:
        if one.draft:
            groups.setdefault((one.wording, one.by, one.asks), {})[one.id] = one
        else:
            empty += 1
    yield f"{empty} judgements left out, whose draft is empty or could not be read"
    yield f"{'judge':<34}{'drafts':>7} {'right':>6} {'unread':>7}  known if right, if wrong   right / popular"
    for (wording, by, asks), group in groups.items():
        yield _line(f"{wording}, {by}, {asks}", list(group.values()))
    for wording, by in dict.fromkeys((wording, by) for wording, by, _ in groups):
        yield from _comparison(f"{wording}, {by}", *(groups.get((wording, by, asks), {}) for asks in JUDGED))
    for wording in dict.fromkeys(wording for wording, _, _ in groups):
        drafts = next(group for key, group in groups.items() if key[0] == wording)
        views = [float(one.popularity) for one in drafts.values()]
        area = _area(views, [one.right for one in drafts.values()])
        yield f"page views alone, {wording} drafts: right {area}"


def _line(name: str, group: Sequence[Judged]) -> str:
    scores = [one.score or 0.0 for one in group]
    rights = [one.right for one in group]
    middle = median(one.popularity for one in group)
    shares = [_share([one.known for one in group if one.right is right]) for right in (True, False)]
    unread = sum(one.score is None for one in group)
    areas = (_area(scores, rights), _area(scores, [one.popularity > middle for one in group]))
    return (
        f"{name:<34}{len(group):>7} {sum(rights):>6} {unread:>7}  {shares[0]:>14}, {shares[1]:>8}   "
        f"{areas[0]} / {areas[1]}"
    )


def _comparison(name: str, style: dict[str, Judged], correctness: dict[str, Judged]) -> Iterator[str]:
    common = [id for id in style if id in correctness]
    rights = [style[id].right for id in common]
    if len(set(rights)) == 2:
        first, second = ([group[id].score or 0.0 for id in common] for group in (style, correctness))
        gain = difference(first, second, rights, seed=SEED)
        yield f"correctness less style, {name}: {_shown(gain, sign='+')} on {gain.n} drafts"


def _share(flags: Sequence[bool]) -> str:
    return f"{sum(flags) / len(flags):.2f}" if flags else "-"


def _area(scores: Sequence[float], positive: Sequence[bool]) -> str:
    if len(set(positive)) < 2:
        return "cannot be told"
    return _shown(separation(scores, positive, seed=SEED))


def _shown(interval: Interval, sign: str = "") -> str:
    return f"{interval.mean:{sign}.3f} [{interval.low:{sign}.3f}, {interval.high:{sign}.3f}]"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--by", nargs="+", choices=KINDS, default=())
    parser.add_argument("--wording", nargs="+", choices=WORDINGS, default=WORDINGS)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--out", type=Path, default=Path("known_drafts.jsonl"))
    args = parser.parse_args(arguments)
    specs = recipe.load(args.recipe, args.sets).target_specs()
    target = build_target(specs["proxy" if "proxy" in specs else "main"])
    kinds = args.by or ("logprobs" if "logprobs" in target.capabilities else "confidence",)
    questions = draw(read_questions(args.questions), args.limit)
    judged = event_loop.run(
        judge_all(target, questions, args.out, store=open_store(), kinds=kinds, wordings=args.wording)
    )
    print(f"{target.name}, {len(questions)} questions")
    print("\n".join(report(judged)))


if __name__ == "__main__":
    main()
