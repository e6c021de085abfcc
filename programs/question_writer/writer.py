"""Writes questions about candidates with the role `teacher`, and checks them with it.

Each step is a typed call through the call store, so that a run that was stopped goes on where it was. What a
call cannot say in its types is a rejected question, not an error.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ragc.core.event_loop import gather_or_cancel
from ragc.corpora.embed.base import Embedder
from ragc.errors import ParseFailure, RequestRefused
from ragc.programs.calls.field_logprobs import field_tokens
from ragc.programs.calls.predict import RagPredict
from ragc.programs.question_writer import examples
from ragc.programs.question_writer.base import (
    MIN_CONFIRMED,
    WEIGHTS,
    CheckedQuestion,
    DraftQuestion,
    Excerpt,
    Topic,
    WritingCost,
)
from ragc.programs.question_writer.checks import (
    CHECKS,
    KnownQuestions,
    answer_to,
    overlap_of,
    same_answer,
)
from ragc.programs.question_writer.choose import WINDOW_WORDS, Rows, nearest
from ragc.programs.question_writer.details import KINDS_OF_SUBJECT, kind_said, open_details
from ragc.programs.question_writer.spans import sole_spans
from ragc.programs.runtime import Runtime
from ragc.signatures.answer import UNKNOWN, ClosedBookAnswer, ShortAnswer, abstaining, limit_options
from ragc.signatures.question import (
    AskAgain,
    AskComparison,
    AskLinked,
    AskMissing,
    AskSentence,
    ConfirmAnswer,
    NameKind,
)
from ragc.signatures.wording import worded
from ragc.targets.base import Role, Sampling

PAIRS = ("two_passage", "comparison")
"""The kinds that need a second passage."""

NEIGHBOURS = 3
"""The passages that must not answer an unanswerable question, beside its own."""

_WRITE, _ANSWER, _SAY = Sampling(max_tokens=140), Sampling(max_tokens=48), Sampling(max_tokens=16)
_INSTRUCTION_TOKENS = 420
_TOKENS_A_WORD = 1.5

MENDED = ("self_contained", "own_words")
"""The checks whose failure has the question written once more."""


def bound(tries: int, kinds: Sequence[str]) -> WritingCost:
    """Returns the most that `tries` questions of `kinds` take: one call writes, one may write again, and
    three check; or one may name the subject's kind, two write, and one checks.
    """
    share = sum(WEIGHTS[kind] for kind in kinds if kind in PAIRS) / sum(WEIGHTS[kind] for kind in kinds)
    excerpts = 1 + share
    most_shown = WINDOW_WORDS * _TOKENS_A_WORD * (2 * excerpts + max(excerpts, NEIGHBOURS))
    prompt = int(tries * (5 * _INSTRUCTION_TOKENS + most_shown))
    reply = 2 * (_WRITE.max_tokens + _ANSWER.max_tokens) + _SAY.max_tokens
    return WritingCost(tries, 5 * tries, prompt, tries * reply)


def _pass_over(error: ParseFailure | RequestRefused) -> None:
    """Raises `error` unless it is of one text: an unreadable reply, or one that is filtered or too long."""
    if isinstance(error, RequestRefused) and error.kind == "failed":
        raise error


class QuestionWriter:
    """Writes and checks questions on the targets of `runtime`, worded for the knob `wording`.

    `embedder` compares questions by meaning; without one their words are compared.
    """

    def __init__(self, runtime: Runtime, wording: str = "full", embedder: Embedder | None = None) -> None:
        self.role: Role = "teacher" if "teacher" in runtime.targets else "main"
        self.target = runtime.target(self.role)
        self._embedder = embedder
        self._limit = asyncio.Semaphore(max(1, self.target.concurrency))
        self._runtime, self._wording = runtime, wording
        call = self._call
        self._single = call(AskSentence, _WRITE, examples.ASK)
        self._again = call(AskAgain, _WRITE, *examples.AGAIN)
        self._kind = call(limit_options(NameKind, "kind", KINDS_OF_SUBJECT), _ANSWER, *examples.KIND)
        self._linked, self._comparison = call(AskLinked, _WRITE), call(AskComparison, _WRITE)
        self._answer = call(abstaining(ShortAnswer), _ANSWER)
        self._alone = call(ClosedBookAnswer, _ANSWER)
        self._confirm = call(ConfirmAnswer, _SAY)
        self._confirm.logprobs = "logprobs" in self.target.capabilities

    def _call(self, signature: Any, sampling: Sampling, *examples: Mapping[str, str]) -> RagPredict:
        own = worded(signature, self._wording)
        call = RagPredict(own, self._runtime, role=self.role, sampling=sampling)
        call.demos = list(examples)
        return call

    async def write(
        self,
        candidates: Sequence[Topic],
        rows: Rows,
        known: KnownQuestions,
        step: Callable[[], None] = lambda: None,
    ) -> list[CheckedQuestion]:
        """Writes a question about each candidate and checks it; in the order of `candidates`.

        `known` receives those that pass. `rows` opens the corpus, for second passages and neighbours. Raises
        TargetError where the target fails.
        """
        drafts = await gather_or_cancel(map(self._draft, _with_partners(candidates, rows)))
        checked = await gather_or_cancel(self._mend(_first_checks(draft)) for draft in drafts)
        open_ones = {
            one.draft.candidate.id: one.draft
            for one in checked
            if not one.failed and one.draft.candidate.kind == "unanswerable"
        }
        neighbours = nearest(rows, {key: draft.question for key, draft in open_ones.items()}, NEIGHBOURS)

        async def finish(one: CheckedQuestion) -> CheckedQuestion:
            result = one
            if not one.failed:
                result = await self._ask_model(one, neighbours.get(one.draft.candidate.id, ()))
            step()
            return result

        return self._without_duplicates(await gather_or_cancel(map(finish, checked)), known)

    async def answer(self, question: str, excerpts: Sequence[Excerpt]) -> str:
        """Returns the answer that `excerpts` give to `question`; "" where they give none, or no reply can be
        read.
        """
        try:
            async with self._limit:
                reply = await self._answer.acall(question=question, passages=[one.shown for one in excerpts])
        except (ParseFailure, RequestRefused) as error:
            _pass_over(error)
            return ""
        text = str(reply.answer).strip()
        return "" if _is_unknown(text) else text

    async def _draft(self, candidate: Topic) -> DraftQuestion:
        if candidate.kind in PAIRS and len(candidate.excerpts) < 2:
            return DraftQuestion(candidate, problem="no_second_passage")
        first = candidate.excerpts[0]
        pair = {"first": first.shown, "second": candidate.excerpts[-1].shown}
        if candidate.kind == "unanswerable":
            return await self._draft_missing(candidate)
        inputs: dict[str, tuple[RagPredict, dict[str, str]]] = {
            "single": (
                self._single,
                {"title": first.title, "passage": first.text, "sentence": first.sentence},
            ),
            "two_passage": (self._linked, pair),
            "comparison": (self._comparison, pair),
        }
        call, values = inputs[candidate.kind]
        if candidate.kind == "single" and (options := sole_spans(first.sentence, first.title)):
            call = self._call(limit_options(AskSentence, "answer", options), _WRITE, examples.ASK)
        try:
            async with self._limit:
                reply = await call.acall(**values)
        except (ParseFailure, RequestRefused) as error:
            _pass_over(error)
            return DraftQuestion(candidate, problem="unreadable")
        question = _line(reply.question)
        answer = answer_to(question, str(reply.answer).strip().rstrip("."))
        return DraftQuestion(candidate, question, answer)

    async def _draft_missing(self, candidate: Topic) -> DraftQuestion:
        """Writes a question for a detail of which the passage has no word."""
        first = candidate.excerpts[0]
        text = f"{first.title}\n{first.whole}"
        kind = kind_said(text)
        try:
            if not kind:
                async with self._limit:
                    kind = str((await self._kind.acall(title=first.title, passage=first.text)).kind)
            options = open_details(kind, text, candidate.id)
            if not options:
                return DraftQuestion(candidate, problem="no_open_detail")
            ask = self._call(limit_options(AskMissing, "missing", options), _WRITE, examples.MISSING)
            async with self._limit:
                reply = await ask.acall(subject=first.title, passage=first.text)
        except (ParseFailure, RequestRefused) as error:
            _pass_over(error)
            return DraftQuestion(candidate, problem="unreadable")
        return DraftQuestion(candidate, _line(reply.question), detail=str(reply.missing))

    async def _mend(self, one: CheckedQuestion) -> CheckedQuestion:
        """Has a question that does not name its subject, or repeats its passage, written once more.

        What comes of it takes the place of the draft if it passes the checks without a model.
        """
        draft = one.draft
        first, *others = draft.candidate.excerpts
        if one.failed not in MENDED or others or not _rest_passes(draft):
            return one
        values = {"title": first.title, "sentence": first.sentence, "answer": draft.answer}
        try:
            async with self._limit:
                reply = await self._again.acall(**values, draft=draft.question)
        except (ParseFailure, RequestRefused) as error:
            _pass_over(error)
            return one
        question = _line(reply.question)
        again = _first_checks(replace(draft, question=question, answer=answer_to(question, draft.answer)))
        return one if again.failed else again

    async def _ask_model(self, one: CheckedQuestion, neighbours: Sequence[Excerpt]) -> CheckedQuestion:
        """Checks a question against what the model answers with its passages, and without any."""
        draft = one.draft
        excerpts = draft.candidate.excerpts
        if draft.candidate.kind == "unanswerable":
            shown = [excerpts[0], *(n for n in neighbours if n.passage != excerpts[0].passage)]
            shown_answer = await self.answer(draft.question, shown[: NEIGHBOURS + 1])
            return _with_check(one, "unanswered", passed=not shown_answer)
        shown_answer = await self.answer(draft.question, excerpts)
        one = _with_check(
            one, "answerable", passed=bool(shown_answer) and same_answer(shown_answer, draft.answer)
        )
        if one.failed:
            return one
        try:
            async with self._limit:
                reply = await self._alone.acall(question=draft.question)
            alone = str(reply.answer)
        except (ParseFailure, RequestRefused) as error:
            _pass_over(error)
            alone = ""
        one = _with_check(one, "needs_passage", passed=not same_answer(alone, draft.answer))
        return one if one.failed else _with_check(one, "confirmed", passed=await self._is_confirmed(draft))

    async def _is_confirmed(self, draft: DraftQuestion) -> bool:
        """Returns whether the model says, and is sure, that the passages give the answer to the question.

        A small model says yes to nearly all, but to wrong ones with a lower probability.
        """
        passage = "\n\n".join(one.shown for one in draft.candidate.excerpts)
        try:
            async with self._limit:
                reply = await self._confirm.acall(
                    passage=passage, question=draft.question, answer=draft.answer
                )
        except (ParseFailure, RequestRefused) as error:
            _pass_over(error)
            return False
        tokens = field_tokens(reply.get("logprobs") or (), "right", reply.right)
        sure = math.exp(sum(token.logprob for token in tokens)) if tokens else 1.0
        return bool(reply.right == "yes" and sure >= MIN_CONFIRMED)

    def _without_duplicates(
        self, checked: Sequence[CheckedQuestion], known: KnownQuestions
    ) -> list[CheckedQuestion]:
        results = []
        for one in checked:
            result = one
            if not one.failed:
                question = one.draft.question
                passages = [excerpt.passage for excerpt in one.draft.candidate.excerpts]
                facts = (question, one.answers, passages, self.vector_of(question))
                new = not known.has(*facts)
                result = _with_check(one, "no_duplicate", passed=new)
                if new:
                    known.add(*facts)
            results.append(result)
        return results

    def vector_of(self, question: str) -> Sequence[float]:
        """Returns the vector of a question, of length 1; empty without an embedder."""
        if self._embedder is None:
            return ()
        return [float(x) for x in self._embedder.embed([question])[0]]


def _with_partners(candidates: Sequence[Topic], rows: Rows) -> list[Topic]:
    """Returns `candidates`, those of pairs with the nearest other passage as their second excerpt."""
    pairs = {one.id: one for one in candidates if one.kind in PAIRS}
    texts = {key: f"{one.excerpts[0].title} {one.excerpts[0].sentence}" for key, one in pairs.items()}
    own = {key: one.excerpts[0].passage for key, one in pairs.items()}
    partners = nearest(rows, texts, 1, own) if texts else {}
    return [
        Topic(one.id, one.kind, (*one.excerpts, *partners[one.id])) if one.id in partners else one
        for one in candidates
    ]


def _first_checks(draft: DraftQuestion) -> CheckedQuestion:
    if draft.problem:
        return CheckedQuestion(draft, (), draft.problem)
    share, passed = overlap_of(draft), list[str]()
    for name, check in CHECKS.items():
        if not check(draft):
            return CheckedQuestion(draft, tuple(passed), name, share)
        passed.append(name)
    return CheckedQuestion(draft, tuple(passed), "", share)


def _line(text: Any) -> str:
    return " ".join(str(text).split())


def _rest_passes(draft: DraftQuestion) -> bool:
    """Returns whether a draft passes the checks that writing it again does not help with."""
    return all(check(draft) for name, check in CHECKS.items() if name not in MENDED)


def _with_check(one: CheckedQuestion, name: str, *, passed: bool) -> CheckedQuestion:
    if passed:
        return CheckedQuestion(one.draft, (*one.passed, name), "", one.overlap)
    return CheckedQuestion(one.draft, one.passed, name, one.overlap)


_REFUSALS = ("not stated", "not mentioned", "not specified", "not provided", "not given", "n/a", "none")


def _is_unknown(text: str) -> bool:
    """Returns whether an answer says that there is none."""
    plain = text.strip(" .\"'").casefold()
    return not plain or plain in _REFUSALS or plain.startswith((UNKNOWN, "i don't know"))
