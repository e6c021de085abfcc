"""FLARE: writes the answer a sentence at a time, and looks up what the model is unsure of.

Paper: Active Retrieval Augmented Generation, sections 3.2 and 3.3, FLARE direct: search with the question;
draft the next sentence; when a token is less likely than theta, look it up and write the sentence again
from the new passages, which take the place of the earlier ones. The query (section 3.2.2) is the sentence
without its tokens below beta (`queries` = masked), or a question about each run of them (`queries` =
questions). As in the authors' code later drafts see the passages of the last lookup; the paper's section
3.2.1 drafts without any (`forget`).
Of a draft its first sentence counts, as in the paper; the rest is drafted again.
Differs: a draft that is cut by its limit of tokens before its first sentence ends is looked up if it is
unsure, and not kept; a last call takes the short answer from the draft (`finish` = short); at most
`sentences` sentences, `rounds` lookups, and four questions a lookup; a sentence that only repeats an earlier
one ends the draft and is dropped; words are left out whole where the paper leaves out tokens, whose remains
matched other things ("etano" of Donizetti); a query left empty by beta becomes the whole sentence; a
sentence whose probabilities are unknown (its reply was mended) is looked up whole. With `uncertainty` =
spans the model names the doubtful words itself and how sure it is of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import Any

import dspy

from ragc.core import counters
from ragc.errors import CapabilityMissing
from ragc.programs.base import RagProgram, format_passage
from ragc.programs.baselines.knobs import FlareKnobs
from ragc.programs.calls.field_logprobs import field_tokens
from ragc.programs.runtime import Runtime
from ragc.programs.sentences import first_sentence
from ragc.programs.trace import Note, at_least, record, together
from ragc.records import Passage
from ragc.signatures.draft import AskAboutSpan, Conclude, DraftSentence, UncertainSpans

_WIDE = "\u2e80"  # the first of the East Asian scripts
Part = tuple[str, float]
"""Words of a sentence and their probability."""


def whole_words(tokens: Sequence[Part]) -> tuple[Part, ...]:
    """Returns tokens joined to words, each as likely as its least likely token; a word ends before white
    space.

    Tokens of Chinese and Japanese, which are written without any, stay as they are.
    """
    words: list[Part] = []
    for text, probability in tokens:
        if words and text and not _is_word_end(words[-1][0][-1:], text[0]):
            before, least = words[-1]
            words[-1] = before + text, min(least, probability)
        else:
            words.append((text, probability))
    return tuple(words)


def drop_unsure(parts: Sequence[Part], beta: float) -> str:
    """Returns the sentence without its parts below `beta`; the whole if nothing would be left."""
    sure_text = "".join(words for words, probability in parts if probability >= beta)
    return _tidy(sure_text) or _tidy("".join(words for words, _ in parts))


def doubtful_spans(parts: Sequence[Part], beta: float) -> tuple[str, ...]:
    """Returns the runs of parts below `beta`, in reading order, each once."""
    runs = groupby(parts, key=lambda part: part[1] < beta)
    spans = (_tidy("".join(words for words, _ in run)) for low, run in runs if low)
    return tuple(dict.fromkeys(span for span in spans if any(map(str.isalnum, span))))


@dataclass(frozen=True, slots=True)
class Draft:
    """The first sentence of a reply. `whole` says whether the sentence, or the whole reply, ended.

    `tokens` are those of the sentence with their probabilities, empty if these are unknown.
    """

    sentence: str
    whole: bool
    tokens: tuple[Part, ...] = ()

    @property
    def kept_text(self) -> str:
        """Returns the sentence, or "" when its end is missing."""
        return self.sentence if self.whole else ""


def crop_parts(parts: Sequence[Part], length: int) -> tuple[Part, ...]:
    """Returns the first `length` characters of `parts`, white space before them not counted."""
    text = "".join(words for words, _ in parts)
    left = length + len(text) - len(text.lstrip())
    cropped: list[Part] = []
    for words, probability in parts:
        if left > 0:
            cropped.append((words[:left], probability))
        left -= len(words)
    return tuple(cropped)


def _is_word_end(before: str, after: str) -> bool:
    """Returns whether a word ends between two characters."""
    return before.isspace() or after.isspace() or max(before, after) >= _WIDE


def _tidy(text: str) -> str:
    return " ".join(text.replace("\ufffd", " ").split())


MAX_SENTENCE_QUESTIONS = 4
"""Questions asked about one sentence."""


class Flare(RagProgram):
    """One call a sentence, one more for each lookup, and one for the short answer.

    Spans take another call a sentence, questions up to four a lookup, side by side.
    """

    def __init__(self, runtime: Runtime, knobs: FlareKnobs) -> None:
        super().__init__(runtime, knobs)
        measured = knobs.uncertainty == "logprobs" and knobs.flare_theta > 0
        target = runtime.target("main")
        if measured and "logprobs" not in target.capabilities:
            raise CapabilityMissing(
                f"FLARE needs log probabilities and {target.name} gives none; "
                'set the knob uncertainty = "spans".'
            )
        if knobs.finish == "short":
            self.answer = self.answer_call(Conclude)
        self.local = self.cut_source("local")
        self.draft = self.predictor(self.reading(DraftSentence), max_tokens=80, logprobs=measured)
        if knobs.uncertainty == "spans":
            self.doubts = self.predictor(UncertainSpans, max_tokens=160)
        if knobs.queries == "questions":
            self.ask = self.predictor(AskAboutSpan, max_tokens=60)

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Drafts sentence by sentence, look up the unsure ones, then conclude."""
        passages = await self._retrieve([question]) if self.knobs.first else ()
        sentences: list[str] = []
        read: tuple[Passage, ...] = ()
        lookups = 0
        for _ in range(self.knobs.sentences):
            known = () if sentences and self.knobs.forget else passages
            draft, passages = await self._draft_sentence(question, known, sentences)
            read = passages or read
            sentence = draft.kept_text
            if draft.sentence and lookups < self.knobs.rounds and self.knobs.flare_theta > 0:
                queries = await self._queries(question, draft)
                evidence = await self._retrieve(queries)
                lookups += bool(queries)
                if evidence:
                    again, passages = await self._draft_sentence(question, evidence, sentences)
                    read = passages or read
                    sentence = again.kept_text or sentence
            if sentence in sentences:
                counters.count(dropped=1)
                record(Note("draft", "a sentence said before"))
                break
            if not sentence:
                break
            sentences.append(sentence)
        answer = " ".join(sentences)
        if self.knobs.finish != "text":
            reply = await self.answer.acall(question=question, draft=answer)
            answer = str(reply.answer)
        tallies = {"flare_sentences": len(sentences), "flare_lookups": lookups}
        return dspy.Prediction(answer=answer, passages=read, tallies=tallies)

    async def _retrieve(self, queries: Sequence[str]) -> tuple[Passage, ...]:
        """Returns `flare_k` passages: the best of each search, then the second of each, and so on."""
        k = self.knobs.flare_k
        rankings = await together(*(self.search("local", query, k, source=self.local) for query in queries))
        ranks = zip_longest(*rankings)
        return tuple(dict.fromkeys(hit.passage for rank in ranks for hit in rank if hit is not None))[:k]

    async def _draft_sentence(
        self, question: str, passages: Sequence[Passage], sentences: Sequence[str]
    ) -> tuple[Draft, tuple[Passage, ...]]:
        """Returns the next sentence, "" if unreadable, and the passages that its call was shown."""
        known: dict[str, Any] = {"question": question, "so_far": " ".join(sentences)}
        fit = self.passages_that_fit(self.draft, passages, **known)
        reply = await self.draft.try_call(passages=[format_passage(p) for p in fit], **known)
        return self._first_sentence(reply), fit

    @staticmethod
    def _first_sentence(reply: Any) -> Draft:
        """Returns the first sentence of `reply`; a cut one is counted as dropped."""
        sentence, ended = first_sentence(reply.sentence) if reply is not None else ("", True)
        whole = ended or not reply.get("truncated")
        if not whole:
            counters.count(dropped=1)
            record(Note("draft", f"cut before its end: {sentence}"))
        tokens = field_tokens(reply.get("logprobs") or (), "sentence", reply.sentence) if sentence else ()
        parts = [(token.token, math.exp(token.logprob)) for token in tokens]
        return Draft(sentence, whole, crop_parts(parts, len(sentence)))

    async def _queries(self, question: str, draft: Draft) -> Sequence[str]:
        """Returns the queries for the drafted sentence; none when the model is sure enough of it."""
        knobs, sentence = self.knobs, draft.sentence
        if knobs.uncertainty == "spans":
            parts = await self._split_at_doubts(question, sentence)
        else:  # a sentence whose probabilities are unknown is looked up whole
            parts = list(whole_words(draft.tokens)) or [(sentence, 0.0)]
            if not draft.tokens:
                record(Note("unsure", "no probabilities for this sentence"))
        least = min((probability for _, probability in parts), default=1.0)
        if at_least("flare_theta", least, knobs.flare_theta):
            return ()
        queries: Sequence[str] = ()
        if knobs.queries == "questions":
            queries = await self._write_queries(question, sentence, doubtful_spans(parts, knobs.flare_beta))
        queries = queries or (drop_unsure(parts, knobs.flare_beta),)
        record(Note("unsure", "; ".join(queries)))
        return queries

    async def _write_queries(self, question: str, sentence: str, spans: Sequence[str]) -> Sequence[str]:
        """Writes a question about each of the first `spans`, all at once; empty ones are dropped."""
        replies = await together(
            *(
                self.ask.try_call(question=question, sentence=sentence, doubtful=span)
                for span in spans[:MAX_SENTENCE_QUESTIONS]
            )
        )
        queries = [" ".join(one.query.split()) for one in replies if one is not None]
        counters.count(dropped=queries.count(""))
        return tuple(dict.fromkeys(query for query in queries if query))

    async def _split_at_doubts(self, question: str, sentence: str) -> list[Part]:
        """Returns the sentence cut at the spans that the model doubts, and drops spans that are not in it."""
        reply = await self.doubts.try_call(question=question, sentence=sentence)
        spans = reply.doubts.spans if reply is not None else []
        sure = [1.0] * len(sentence)
        for doubt in spans:
            at = sentence.find(doubt.span) if doubt.span else -1
            if at < 0:
                counters.count(dropped=1)
                record(Note("unsure", f"not in the sentence: {doubt.span!r}"))
                continue
            for i in range(at, at + len(doubt.span)):
                sure[i] = min(sure[i], doubt.confidence / 100)
        return list(zip(sentence, sure, strict=True))
