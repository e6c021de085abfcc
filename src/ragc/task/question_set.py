"""The questions of a project that `ragc new` writes: written from its passages, or those that people asked.

    <out>/questions.jsonl     the questions that are asked
    <out>/set_aside.jsonl     those that are not, each with its reason

What a person edited or reviewed is never overwritten. Files are replaced after every wave of questions, and
replies come from the call store, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc.core import event_loop
from ragc.core.display import dollars, quantity
from ragc.core.progress import Progress
from ragc.corpora.files.records import Questions
from ragc.errors import RagcError, UnknownName, UsageError
from ragc.programs.question_writer import file
from ragc.programs.question_writer.checks import DEFAULT_KINDS, KINDS, WrittenQuestion, contains, known_of
from ragc.programs.question_writer.file import FAILED, QUESTIONS, SET_ASIDE
from ragc.programs.question_writer.writer import QuestionWriter, Rows, bound, topics
from ragc.programs.runtime import Runtime
from ragc.recipe import Recipe
from ragc.store.calls import open_store
from ragc.targets import build as build_target
from ragc.targets.base import Target
from ragc.targets.prices import price_of
from ragc.task.run import Measurement, measure

COUNT = 60
"""How many questions are written unless a number is given."""

TRIES = 2
"""Questions that are tried for each one that is wanted."""

FIRST_TRIES = 12
"""Questions that are tried first; where none of them passes the checks, no more are written."""

_PASSAGES_SHOWN = 3
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written: at most `count` questions of `kinds`, or answers to those of a `log`."""

    count: int = COUNT
    kinds: tuple[str, ...] = DEFAULT_KINDS
    log: Questions | None = None

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise UnknownName("kind of question", kind, KINDS)
        if self.count < 1 or not self.kinds:
            raise UsageError(f"At least 1 question of one kind can be written, found {self.count}.")


@dataclass(slots=True)
class QuestionSet:
    """The questions of a project after a run: rows of both files, and sentences on what was done.

    `problem` says why the run ended early, "" where it did not.
    """

    questions: list[file.Row]
    aside: list[file.Row]
    lines: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def count(self) -> int:
        """The number of questions with an answer."""
        return len(self.questions)

    @property
    def grouped(self) -> bool:
        """Whether any question names its document."""
        return any(row.get("document") for row in self.questions)


def estimate(target: Target, plan: Plan, tries: int) -> dict[str, Any]:
    """Returns a bound on what `tries` questions take: calls, tokens, and dollars, None where no price is
    known.
    """
    cost, price = bound(tries, plan.kinds), price_of(target)
    usd = None if price is None else price.most(cost["prompt_tokens"], cost["reply_tokens"])
    return {"model": target.name, **cost, "usd": usd}


def teacher_runtime(recipe: Recipe, teacher: Target | None = None) -> Runtime:
    """Returns a runtime with the role `teacher` of `recipe`, or `main` where it has none; `teacher` replaces
    both.
    """
    store = open_store()
    if teacher is not None:
        return Runtime({"teacher": teacher}, store=store)
    specs = recipe.target_specs()
    role = "teacher" if "teacher" in specs else "main"
    return Runtime({role: build_target(specs[role])}, store=store)


def corpus_rows(path: Path) -> Rows:
    """Opens the rows of a corpus that `ragc new` wrote."""

    def opened() -> Iterator[Mapping[str, Any]]:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)

    return opened


def make(
    folder: Path,
    corpus: Path,
    recipe: Recipe,
    plan: Plan,
    progress: Progress,
    teacher: Target | None = None,
) -> QuestionSet:
    """Writes the questions of the project in `folder`, and returns them.

    An error of the target ends the run with what there is, and `problem` says so. Raises DataError where a
    file of questions is damaged.
    """
    rows = corpus_rows(corpus)
    questions, aside = file.read(folder / QUESTIONS), file.read(folder / SET_ASIDE)
    added = _new_from_log(plan, [*questions, *aside])
    questions += [row for row in added if row["answers"]]
    open_rows = [row for row in added if not row["answers"]]
    named = file.passages_of([*questions, *aside])
    present = {row["id"]: file.digest_of(row["title"], row["text"]) for row in rows() if row["id"] in named}
    reasons = [file.gone(row, present) for row in questions]
    staying = [row for row, reason in zip(questions, reasons, strict=True) if not reason]
    going = [{**row, "reason": reason} for row, reason in zip(questions, reasons, strict=True) if reason]
    result = QuestionSet(staying, [*aside, *going])
    result.lines += _gone_lines(going)
    work = _Work(folder, rows, recipe, plan, progress, result, present)
    try:
        work.run(open_rows, teacher)
    except RagcError as error:
        result.problem = str(error)
    work.save()
    result.lines += _summary(result, plan)
    return result


def _new_from_log(plan: Plan, known: Sequence[Mapping[str, Any]]) -> list[file.Row]:
    """Returns the questions of the plan's log that are not `known`."""
    if plan.log is None:
        return []
    ids, texts = {row.get("id") for row in known}, {row["question"] for row in known}
    return [row for row in file.read_log(plan.log) if row["id"] not in ids and row["question"] not in texts]


@dataclass(slots=True)
class _Work:
    folder: Path
    rows: Rows
    recipe: Recipe
    plan: Plan
    progress: Progress
    result: QuestionSet
    present: Mapping[str, str]

    def run(self, open_rows: list[file.Row], teacher: Target | None) -> None:
        """Writes or answers what is wanted, after a line on what it costs at most."""
        chosen = [] if self.plan.log else self._candidates()
        if not chosen and not open_rows:
            return
        runtime = teacher_runtime(self.recipe, teacher)
        wording = "full" if "teacher" in runtime.targets else str(self.recipe.knobs.get("wording", "full"))
        writer = QuestionWriter(runtime, self.rows, wording)
        self.progress.note(_cost_line(estimate(writer.target, self.plan, len(chosen) or len(open_rows))))
        measured = Measurement()
        try:
            event_loop.run(runtime.open(self.progress.download))
            with measure() as measured:
                event_loop.run(self._answer(writer, open_rows) if open_rows else self._write(writer, chosen))
        finally:
            cost = measured.spent
            sent = quantity(int(cost.sent), "request") + (" was" if cost.sent == 1 else " were")
            self.result.lines.append(
                f"{sent} sent to {writer.target.name}, {cost.replayed:,} replayed: "
                f"{cost.tokens:,} tokens, {dollars(cost.usd)}."
            )

    def _candidates(self) -> list[WrittenQuestion]:
        """Returns sentences to ask about that no question of the project is about."""
        wanted = self.plan.count - len(self.result.questions)
        if wanted <= 0:
            return []
        done = {row.get("id") for row in self.result.questions}
        done |= {row.get("id") for row in self.result.aside if self._is_settled(row)}
        offered = topics(self.rows, TRIES * self.plan.count + len(done), self.plan.kinds)
        return [one for one in offered if one.id not in done][: TRIES * wanted]

    def _is_settled(self, row: Mapping[str, Any]) -> bool:
        """Returns whether a question that was set aside is not to be written again."""
        known: Mapping[str, str] = row.get("passages", {})
        return file.is_own(row) or all(self.present.get(name) == before for name, before in known.items())

    async def _write(self, writer: QuestionWriter, chosen: Sequence[WrittenQuestion]) -> None:
        asked = [*self.result.questions, *filter(file.is_own, self.result.aside)]
        known = [known_of(row["question"], row.get("answers", ()), row.get("gold_ids", ())) for row in asked]
        self.progress.phase("writing questions", len(chosen))
        tried = 0
        for wave in _waves(chosen):
            tried += len(wave)
            checked = await writer.write(wave, known, self.progress.step)
            new = [file.row_of(one, writer.target.name) for one in checked]
            space = max(0, self.plan.count - len(self.result.questions))
            passed = [row for row in new if "reason" not in row][:space]
            ids = {row["id"] for row in new}
            self.result.aside = [
                row for row in self.result.aside if row.get("id") not in ids or file.is_own(row)
            ]
            self.result.questions += passed
            self.result.aside += [row for row in new if "reason" in row]
            self.save()
            if len(self.result.questions) >= self.plan.count:
                return
            if not self.result.questions and FIRST_TRIES <= tried < len(chosen):
                self.result.lines.append(
                    f"None of the first {tried} questions passed the checks, so the other "
                    f"{len(chosen) - tried} were not tried; name a larger teacher, such as --set "
                    "targets.teacher.kind=vllm, or give questions that people asked with --questions FILE."
                )
                return

    async def _answer(self, writer: QuestionWriter, open_rows: Sequence[file.Row]) -> None:
        """Answers questions of the log from the passages nearest to them."""
        self.progress.phase("answering questions", len(open_rows))
        for row in open_rows:
            excerpts = writer.nearest(row["question"], _PASSAGES_SHOWN)
            answer = (await writer.answer(row["question"], excerpts)) if excerpts else ""
            source = next((excerpt for excerpt in excerpts if contains(excerpt.whole, answer)), None)
            more: file.Row = {"teacher": writer.target.name, "checks": ["stated"] if source else []}
            if source is not None:
                passage = source.passage
                more |= {"answers": [answer], "gold_ids": [passage.id], "document": source.document}
                more["passages"] = {passage.id: file.digest_of(passage.title, passage.text)}
            answered = {**row, **more}
            answered["written"] = file.own_digest(answered)
            if source is not None:
                self.result.questions.append(answered)
            else:
                failed = "stated" if answer else "answerable"
                self.result.aside.append({**answered, "reason": f"{FAILED}{failed}"})
            self.progress.step()

    def save(self) -> None:
        """Writes both files."""
        self.result.questions = file.marked(self.result.questions, self.result.aside)
        file.write(self.folder / QUESTIONS, self.result.questions)
        file.write(self.folder / SET_ASIDE, self.result.aside)


def _waves(chosen: Sequence[WrittenQuestion]) -> Iterator[Sequence[WrittenQuestion]]:
    """Yields a few topics, and then as many at a time as would do if all their questions were good."""
    size = max(1, -(-len(chosen) // TRIES))
    start, end = 0, min(FIRST_TRIES, size)
    while start < len(chosen):
        yield chosen[start:end]
        start, end = end, end + size


def _cost_line(cost: Mapping[str, Any]) -> str:
    usd = "at a price that is not known" if cost["usd"] is None else dollars(cost["usd"])
    return (
        f"Up to {quantity(cost['tries'], 'question')} by {cost['model']}: at most {cost['calls']:,} calls "
        f"with about {cost['prompt_tokens']:,} prompt and {cost['reply_tokens']:,} reply tokens, {usd}."
    )


def _gone_lines(going: Iterable[Mapping[str, Any]]) -> list[str]:
    going = list(going)
    lines = [f"Set aside: {row['question']!r}, as {row['reason']}." for row in going[:_NAMED]]
    if len(going) > _NAMED:
        lines.append(f"Set aside with them: {len(going) - _NAMED} more, all in {SET_ASIDE}.")
    return lines


def _summary(result: QuestionSet, plan: Plan) -> list[str]:
    """Returns sentences on how many questions there are, how good they are, and how alike to their
    passages.
    """
    share = file.share_of(result.questions, result.aside)
    counts: dict[str, int] = {}
    for row in result.aside:
        if (reason := str(row.get("reason", ""))).startswith(FAILED):
            name = reason.removeprefix(FAILED)
            counts[name] = counts.get(name, 0) + 1
    lines = [f"{quantity(len(result.questions), 'question')} in {QUESTIONS}."]
    if counts:
        listed = ", ".join(f"{name} {n}" for name, n in sorted(counts.items(), key=lambda item: -item[1]))
        lines.append(f"Rejected by a check: {listed}; they are in {SET_ASIDE}.")
    if alike := file.overlap_line(result.questions):
        lines.append(alike)
    if result.questions and share.for_trying:
        what = "were kept in the review" if share.least == file.MIN_GOOD else "passed the checks"
        lines.append(
            f"For trying only: {share.share:.0%} of the questions {what}, and a verdict needs "
            f"{share.least:.0%}. A larger teacher writes better ones; `ragc questions review` lets a person "
            "decide."
        )
    return lines
