"""Chooses sentences of a corpus, and has questions about them written and checked by the role `teacher`.

Three calls: one writes a question with its answer and a quote, one answers it from its passage, one answers
it without. Each is a typed call through the call store, so that a run that was stopped goes on where it was.
A reply that cannot be read rejects its question, and is no error. No call needs log probabilities.

The choice of sentences depends on ids and texts alone: a sentence is chosen again after other documents
changed. Documents take turns, so that one long file does not fill the set.
"""

from __future__ import annotations

import asyncio
import heapq
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from ragc.core.digest import digest
from ragc.core.event_loop import gather_or_cancel
from ragc.corpora.sources.bm25 import build_in_memory
from ragc.corpora.sources.terms import analyze, query_terms, words
from ragc.errors import ParseFailure, RequestRefused
from ragc.programs.calls.predict import RagPredict
from ragc.programs.question_writer.checks import (
    CHECKS,
    KINDS,
    Excerpt,
    Known,
    WrittenQuestion,
    is_new,
    is_sole,
    known_of,
    mentions,
    same_answer,
    year_of,
)
from ragc.programs.runtime import Runtime
from ragc.programs.sentences import all_sentences
from ragc.records import Passage
from ragc.signatures.answer import UNKNOWN, ClosedBookAnswer, ShortAnswer, abstaining
from ragc.signatures.question import ASK, MISSING, AskComparison, AskLinked, AskMissing, AskSentence
from ragc.signatures.wording import worded
from ragc.targets.base import Role, Sampling

Rows = Callable[[], Iterable[Mapping[str, Any]]]  # opens a corpus: `id`, `title`, `text`, perhaps `source`

WINDOW_WORDS = 140  # the most of an excerpt, unless one sentence has more
NEIGHBOURS = 3  # the passages that must not answer an unanswerable question, besides its own

_WRITE, _ANSWER = Sampling(max_tokens=260), Sampling(max_tokens=48)
# A whole sentence: no heading, item, row of a table or question, and no half of one.
_WHOLE = re.compile(r"[\"'\u201c\u2018(]*[^\W_a-z].*[.!\u2026\u3002\uff01][\"'\u201d\u2019)\]]*")
_REFUSALS = ("not stated", "not mentioned", "not specified", "not provided", "not given", "n/a", "none")


def topics(rows: Rows, n: int, kinds: Sequence[str]) -> list[WrittenQuestion]:
    """Returns the first `n` sentences to ask about, as questions that are not written yet.

    The first sentence of every document comes first, in an order drawn from the ids, then every second one.
    """
    chosen: list[tuple[int, str, WrittenQuestion]] = []
    for _, passages in groupby(rows(), key=_document):
        in_document = (topic for row in passages for topic in _of_passage(row, kinds))
        first = heapq.nsmallest(n, in_document, key=lambda topic: topic.id)
        chosen += [(turn, topic.id, topic) for turn, topic in enumerate(first)]
        chosen = heapq.nsmallest(n, chosen, key=lambda entry: entry[:2])
    return [topic for _, _, topic in chosen]


def _document(row: Mapping[str, Any]) -> str:
    return str(row.get("source") or row["id"])


def _of_passage(row: Mapping[str, Any], kinds: Sequence[str]) -> Iterator[WrittenQuestion]:
    """Yields the whole sentences of a passage to ask about, for an answer only those where a name or number
    has no rival, or that have none. Without a title nothing is left open.
    """
    title = str(row["title"])
    slots = [kind for kind in kinds if title or kind != "unanswerable" for _ in range(KINDS[kind])]
    sentences = all_sentences(str(row["text"]))
    for place, sentence in enumerate(sentences if slots else ()):
        name = digest([row["id"], sentence])
        kind, named = slots[int(name[-8:], 16) % len(slots)], mentions(sentence, title)
        has_answer = not named or any(is_sole(text, sentence, title) for text in named)
        is_usual = _WHOLE.fullmatch(sentence) and 5 <= len(words(sentence)) <= 60
        if is_usual and (kind != "single" or has_answer):
            yield WrittenQuestion(f"w-{name[:12]}", kind, (_excerpt(row, sentences, place),))


def _excerpt(row: Mapping[str, Any], sentences: Sequence[str], place: int) -> Excerpt:
    windows = (" ".join(sentences[max(0, place - side) : place + side + 1]) for side in (3, 2, 1))
    shown = next((window for window in windows if len(window.split()) <= WINDOW_WORDS), sentences[place])
    return Excerpt(_passage(row), _document(row), shown, sentences[place])


def _passage(row: Mapping[str, Any]) -> Passage:
    return Passage(str(row["id"]), str(row["title"]), str(row["text"]))


def bound(tries: int, kinds: Sequence[str]) -> dict[str, int]:
    """Returns the most that `tries` questions of `kinds` take: one call writes, and two check.

    Instructions are taken to have 420 tokens, and a word of a passage 1.5.
    """
    pairs = sum(KINDS[kind] for kind in kinds if kind != "single") / sum(KINDS[kind] for kind in kinds)
    prompt = int(tries * (3 * 420 + WINDOW_WORDS * 1.5 * (1 + pairs + NEIGHBOURS + 1)))
    return {
        "tries": tries,
        "calls": 3 * tries,
        "prompt_tokens": prompt,
        "reply_tokens": tries * (_WRITE.max_tokens + 2 * _ANSWER.max_tokens),
    }


class QuestionWriter:
    """Writes and checks questions about the corpus `rows` on the targets of `runtime`, worded for the knob
    `wording`.
    """

    def __init__(self, runtime: Runtime, rows: Rows, wording: str = "full") -> None:
        self.role: Role = "teacher" if "teacher" in runtime.targets else "main"
        self.target = runtime.target(self.role)
        self._limit = asyncio.Semaphore(max(1, self.target.concurrency))
        self._rows = {str(row["id"]): row for row in rows()}
        self._index = build_in_memory(list(map(_passage, self._rows.values())), k1=1.2, b=0.75)

        def call(signature: Any, sampling: Sampling, *demos: Any) -> RagPredict:
            predictor = RagPredict(worded(signature, wording), runtime, role=self.role, sampling=sampling)
            predictor.demos = list(demos)
            return predictor

        self._write = {
            "single": call(AskSentence, _WRITE, ASK),
            "unanswerable": call(AskMissing, _WRITE, MISSING),
            "two_passage": call(AskLinked, _WRITE),
            "comparison": call(AskComparison, _WRITE),
        }
        self._answer, self._alone = call(abstaining(ShortAnswer), _ANSWER), call(ClosedBookAnswer, _ANSWER)

    def nearest(self, text: str, k: int, exclude: str = "") -> list[Excerpt]:
        """Returns the `k` passages nearest to a text by their words, best first, without the one with the id
        `exclude`; each around the sentence with most words of the text.
        """
        terms, excerpts = set(query_terms(text)), list[Excerpt]()
        for hit in self._index.search(text, k + 1):
            sentences = all_sentences(hit.passage.text) or [hit.passage.text]
            shared = [len(terms & set(analyze(sentence))) for sentence in sentences]
            excerpts.append(_excerpt(self._rows[hit.passage.id], sentences, shared.index(max(shared))))
        return [excerpt for excerpt in excerpts if excerpt.passage.id != exclude][:k]

    async def write(
        self, chosen: Sequence[WrittenQuestion], known: list[Known], step: Callable[[], None] = lambda: None
    ) -> list[WrittenQuestion]:
        """Writes a question about each of the chosen topics and checks it; in their order.

        `known` receives those that pass. Raises TargetError where the target fails.
        """

        async def write_one(topic: WrittenQuestion) -> WrittenQuestion:
            written = await self._draft(topic)
            for check in CHECKS[topic.kind]:
                written = (
                    written if written.failed else written.with_check(check.__name__, passed=check(written))
                )
            written = written if written.failed else await self._ask_model(written)
            step()
            return written

        results = await gather_or_cancel(map(write_one, chosen))
        for place, written in enumerate(results):
            asked = known_of(written.question, written.answers, [each.passage.id for each in written.sources])
            if not written.failed:
                results[place] = written.with_check("no_duplicate", passed=is_new(asked, known))
                known.append(asked)
        return results

    async def answer(self, question: str, excerpts: Sequence[Excerpt]) -> str:
        """Returns the answer that `excerpts` give to `question`; "" where they give none, or no reply can be
        read.
        """
        return await self._short(self._answer, question=question, passages=[each.shown for each in excerpts])

    async def _draft(self, topic: WrittenQuestion) -> WrittenQuestion:
        first = topic.excerpts[0]
        inputs = {"title": first.passage.title, "passage": first.text, "sentence": first.sentence}
        if topic.kind != "single":
            others = self.nearest(f"{first.passage.title} {first.sentence}", 1, first.passage.id)
            if not others:
                return replace(topic, failed="no_second_passage")
            topic = replace(topic, excerpts=(first, *others))
            inputs = {"first": first.shown, "second": others[0].shown}
        reply = await self._ask(self._write[topic.kind], **inputs)
        if reply is None:
            return replace(topic, failed="unreadable")
        question = " ".join(str(reply.question).split())
        answer = year_of(question, str(reply.get("answer", "")).strip().rstrip("."))
        return replace(topic, question=question, answer=answer, quote=str(reply.get("quote", "")))

    async def _ask_model(self, written: WrittenQuestion) -> WrittenQuestion:
        """Checks a question against what the model answers with its passages, and without any."""
        question, excerpts = written.question, list(written.sources)
        if written.kind == "unanswerable":
            excerpts += self.nearest(question, NEIGHBOURS, excerpts[0].passage.id)
            return written.with_check("unanswered", passed=not await self.answer(question, excerpts))
        if not same_answer(await self.answer(question, excerpts), written.answer):
            return written.with_check("answerable", passed=False)
        alone = await self._short(self._alone, question=question)
        passed = written.with_check("answerable", passed=True)
        return passed.with_check("needs_passage", passed=not same_answer(alone, written.answer))

    async def _short(self, call: RagPredict, **inputs: Any) -> str:
        """Returns the answer of a call; "" where it says that there is none."""
        reply = await self._ask(call, **inputs)
        text = "" if reply is None else str(reply.answer).strip()
        plain = text.strip(" .\"'").casefold()
        return "" if plain in _REFUSALS or plain.startswith((UNKNOWN, "i don't know")) else text

    async def _ask(self, call: RagPredict, **inputs: Any) -> Any:
        """Returns the reply; None where it cannot be read, or the request is filtered or too long."""
        try:
            async with self._limit:
                return await call.acall(**inputs)
        except (ParseFailure, RequestRefused) as error:
            if isinstance(error, RequestRefused) and error.kind == "failed":
                raise
            return None
