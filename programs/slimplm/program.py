"""SlimPLM: a small proxy model decides when to search and what for; the main model is called once.

Paper: SlimPLM, sections 3.1 to 3.3, with the ablations and the costs of 4.6; queries, references and cap
are those of the authors' code. The proxy answers, its answer is judged, and if the question passes for
known the main model answers without passages. Else the proxy's answer is taken apart into claims, those
that pass for known are left out, and the rest are searched. SlimPLM, section 4.4 and the authors' code;
markers of Wikipedia dumps are those of KILT.
Differs: the fine-tuned judge and rewriter are prompts, and each of their uses is a call of its own that can
be tuned alone: the question and the proxy's answer are taken apart at once by two calls, question and
claims are judged by two. The proxy answers in a few sentences, and five claims and five parts of the
question count at most. An empty proxy answer counts as not known, without a judging call. Claims and parts
without a word of what they are taken from are dropped, and queries of the same words are one, where the
authors' code takes over all that it can read (`usable_items`, `unique_queries`). A score is a stated
confidence or the probability of the judgement's word, in the place of the difference of two likelihoods.
The prompts of the judge look at how a draft is put; with `judge_asks = "correctness"` they ask what the
paper's judge is trained on, whether it is right, claims keep words of doubt, and labels come with
instructions of their own. The main model answers as briefly as in the other methods unless `answer_format`
says otherwise. `top_k` 1 and a repetition penalty are not sent. What cannot be read counts as no claims, or
as not known. The labels that the paper fine-tunes its judge on are demonstrations here: `fit` drafts the
train questions, labels the drafts and shows as many right ones as wrong ones; claims are judged without.
References are dealt across queries first; from page to page in the order of queries, as in the code, those
of the first two or three queries fill all places. Without an embedder among the sources paragraphs are
ranked by BM25 among all paragraphs found, where the authors embed them with E5. Each page is taken whole,
since no more than the references shown can come from one; passages cut from the same page count as one
page; a line that only repeats the title is no paragraph. A paragraph of more than `PARAGRAPH_TOKENS`, as of
a page without line breaks, is cut at its sentences.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any, Literal

import dspy

from ragc.core import counters, event_loop
from ragc.corpora.chunking.chunk import chunk_passage
from ragc.corpora.sources.terms import analyze, query_terms
from ragc.errors import CapabilityMissing, UsageError
from ragc.metrics.base import Scorer
from ragc.metrics.short_answer import slim_em
from ragc.programs.base import LearnsLabels, format_passage, unless_failed
from ragc.programs.calls.demos import forced_values
from ragc.programs.calls.field_logprobs import field_tokens
from ragc.programs.calls.predict import RagPredict
from ragc.programs.likeness import Likeness
from ragc.programs.runtime import Runtime
from ragc.programs.slimplm import SlimPLMKnobs
from ragc.programs.trace import Call, Event, Note, UnreadableReply, above, record, recorded_events, together
from ragc.records import Hit, Passage, Question
from ragc.signatures.answer import with_question
from ragc.signatures.claims import MOST, ProxyAnswer, QuestionSplit, judgements, reader
from ragc.signatures.wording import worded

PARAGRAPH_TOKENS = 300
"""The longest paragraph in tokens: twice the share of each of 20 references in a prompt of 3000 tokens."""

Page = tuple[Passage, ...]
"""The paragraphs of a page."""

_MARKED = re.compile(r"^(?:BULLET|Section)::::", re.MULTILINE)
_BLANK = re.compile(r"(?:[ \t]*\n){2,}")
_LINE = re.compile(r"\s*\n\s*")


@dataclass(frozen=True, slots=True)
class Results:
    """The `pages` that all queries found, in the order first found, and which of them each query found.

    `by_query` has numbers of pages, for each query in the order of its hits.
    """

    pages: tuple[Page, ...]
    by_query: tuple[tuple[int, ...], ...]


def found_pages(hit_lists: Iterable[Sequence[Hit]]) -> Results:
    """Returns the hits of all queries as pages of paragraphs in reading order.

    A page found twice counts once; one without paragraphs is left out.
    """
    parts: dict[str, dict[int, Passage]] = {}
    parents: list[tuple[str, ...]] = []
    for hits in hit_lists:
        for hit in hits:
            page = parts.setdefault(hit.passage.parent, {})
            for paragraph in paragraphs(hit.passage):
                page.setdefault(paragraph.start, paragraph)
        parents.append(tuple(dict.fromkeys(hit.passage.parent for hit in hits)))
    numbers = {parent: at for at, parent in enumerate(parent for parent, page in parts.items() if page)}
    pages = tuple(tuple(page[start] for start in sorted(page)) for page in parts.values() if page)
    return Results(pages, tuple(tuple(numbers[p] for p in names if p in numbers) for names in parents))


def paragraphs(passage: Passage) -> Iterator[Passage]:
    """Yields the paragraphs of a passage: between blank lines, or lines where there are none or in a marked
    dump.

    One of more than `PARAGRAPH_TOKENS` is cut at sentences, or words where it has none. A passage of one
    paragraph is its own. Others have the id `parent#start`; `start` is the offset in the parent's text.
    """
    text = passage.text
    for start, end in _spans(text):
        part = text[start:end].rstrip()
        if not part.strip() or _MARKED.match(part) or part.strip() == passage.title:
            continue
        for piece in chunk_passage(replace(passage, text=part, start=0), PARAGRAPH_TOKENS):
            if piece.text == text.rstrip():
                yield passage
            else:
                at = passage.start + start + piece.start
                yield replace(passage, id=f"{passage.parent}#{at}", text=piece.text, start=at)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    by_line = _MARKED.search(text) or not _BLANK.search(text)
    start = 0
    for between in (_LINE if by_line else _BLANK).finditer(text):
        yield start, between.start()
        start = between.end()
    yield start, len(text)


Scores = Sequence[Sequence[float]]
"""How well each paragraph of each page fits the question."""


def deal(results: Results, scores: Scores, *, by: str, shortest: bool) -> Page:
    """Returns all paragraphs in the order in which they are shown, the best of each page first.

    `by` "page" takes every page's first, then every page's second, and so on, in the order in which pages
    were found. "query" does so among the pages of each query, and takes from one query after the other; a
    paragraph is not repeated. "score" takes the best of all pages first. With `shortest` a round over pages
    ends with the shortest of them, as in the authors' code.
    """
    scored = [
        sorted(zip(values, page, strict=True), key=lambda pair: -pair[0])
        for values, page in zip(scores, results.pages, strict=True)
    ]
    if by == "score":
        every = (pair for page in scored for pair in page)
        return tuple(paragraph for _, paragraph in sorted(every, key=lambda pair: -pair[0]))
    ranked: list[Page] = [tuple(paragraph for _, paragraph in page) for page in scored]
    if by == "page":
        return _round_robin(ranked, shortest=shortest)
    hands = [
        iter(_round_robin([ranked[at] for at in numbers], shortest=shortest)) for numbers in results.by_query
    ]
    dealt: dict[str, Passage] = {}
    while hands:
        for hand in tuple(hands):
            new = next((paragraph for paragraph in hand if paragraph.id not in dealt), None)
            if new is None:
                hands.remove(hand)
            else:
                dealt[new.id] = new
    return tuple(dealt.values())


def _round_robin(pages: Sequence[Page], *, shortest: bool) -> Page:
    """Returns every page's first, then every page's second, until all, or the `shortest`, are dealt."""
    rows = zip(*pages, strict=False) if shortest else zip_longest(*pages)
    return tuple(paragraph for row in rows for paragraph in row if paragraph is not None)


def probability(reply: Any) -> float:
    """Returns the probability of `yes` in the judgement `reply`; 0 or 1 if no token spells its word."""
    spelled = field_tokens(reply.logprobs, "known", reply.known)
    likely = math.exp(sum(token.logprob for token in spelled))
    return likely if reply.known == "yes" else 1 - likely


def usable_items(text: str, items: Sequence[Any], name: str) -> list[Any]:
    """Returns the first `MOST` items with a query whose field `name` shares a word with `text`.

    An item without a query that needs no search is left out; all others are counted as dropped.
    """
    words = set(analyze(text))
    meant = [item for item in items[:MOST] if item.query.strip() or item.need_search == "yes"]
    matching = [i for i in meant if i.query.strip() and not words.isdisjoint(query_terms(getattr(i, name)))]
    counters.count(dropped=len(items[MOST:]) + len(meant) - len(matching))
    return matching


def unique_queries(queries: Iterable[str]) -> list[str]:
    """Returns `queries` in order, only the first of those with the same words."""
    unique: dict[object, str] = {}
    for query in queries:
        unique.setdefault(tuple(analyze(query)) or query, query)
    return list(unique.values())


Label = tuple[str, str, Literal["yes", "no"]]
"""A train question, the proxy's draft, and whether the draft was right."""


def balanced(labels: Sequence[Label], most: int) -> tuple[Label, ...]:
    """Returns at most `most` of `labels`, one that is known and one that is not in turn, in their order."""
    known, other = ([label for label in labels if label[2] == word] for word in ("yes", "no"))
    pairs = list(zip(known, other, strict=False))[: most // 2]
    return tuple(label for pair in pairs for label in pair)


_REASONS = {
    "yes": "The first answer names what was asked for, and it is right.",
    "no": "What the first answer says is wrong, or leaves out what was asked for.",
}
"""Why a draft is labelled as it is, where a judgement gives its reason."""


def demonstration(label: Label, outputs: Container[str]) -> dict[str, Any]:
    """Returns `label` as an example of a judgement that has `outputs`."""
    question, draft, known = label
    judged = {"reason": _REASONS[known], "known": known, "confidence": 100 if known == "yes" else 0}
    values = {name: value for name, value in judged.items() if name in outputs}
    return {"question": question, "heuristic_answer": draft, **values}


PROXY_WEIGHT = 0.1
"""What a proxy call or token costs next to one of the main model (SlimPLM, section 4.6)."""


def costs_by_role(events: Iterable[Event]) -> dict[str, float]:
    """Returns calls and tokens of both roles, and their sum in units of the main model's cost."""
    names = ("calls", "prompt", "generated")
    spent = {f"{role}_{name}": 0.0 for name in names for role in ("main", "proxy")}
    for event in events:
        if isinstance(event, Call | UnreadableReply):
            amounts = (event.calls, event.prompt_tokens, event.completion_tokens)
            for name, amount in zip(names, amounts, strict=True):
                spent[f"{event.role}_{name}"] += amount
    weighted = {
        f"weighted_{name}": spent[f"main_{name}"] + PROXY_WEIGHT * spent[f"proxy_{name}"] for name in names
    }
    return spent | weighted


class SlimPLM(LearnsLabels):
    """Proxy calls for all decisions, one call of the main model, one search of `local` for each query.

    With q and c queries from question and claims: 2 proxy calls when known; else 4 + c, fewer if knobs switch
    some off, and at most 1 + q + c searches. Raises UsageError when the knobs ask for a proxy and there is
    none, CapabilityMissing when they ask for probabilities that it does not return.
    """

    def __init__(self, runtime: Runtime, knobs: SlimPLMKnobs) -> None:
        super().__init__(runtime, knobs)
        _check(runtime, knobs)
        most, self._judge_by = knobs.proxy_tokens, _judge_by(runtime, knobs)
        calls = judgements(knobs.judge_asks, self._judge_by)
        judging: dict[str, Any] = {
            "role": "proxy", "max_tokens": 128, "logprobs": self._judge_by == "logprobs"
        }  # fmt: skip
        self.draft = self.predictor(ProxyAnswer, role="proxy", max_tokens=most)
        self.judge = self.predictor(calls.draft, **judging)
        self.parts = self.predictor(QuestionSplit, role="proxy", max_tokens=most)
        self.claims = self.predictor(calls.split, role="proxy", max_tokens=most)
        self.claim_judge = self.predictor(calls.claim, **judging)
        self._judge_texts = tuple(
            worded(signature, knobs.wording).instructions for signature in (calls.draft, calls.labelled_draft)
        )
        plain, from_passages = reader(knobs.answer_format, knobs.own_knowledge)
        self.chat = self.answer_call(plain, cot=knobs.known_cot)
        self.local = self.cut_source("local")
        self.answer = self.answer_call(with_question(from_passages, knobs.query_pos))
        self.likeness = Likeness(runtime, knobs.encoder)
        self.labels = ()

    @property
    def labels(self) -> tuple[Label, ...]:
        """Train questions with the proxy's draft and whether it was right; `fit` sets them.

        If there are any, they replace other demonstrations of the question's judge, and its instructions
        refer to them unless they were changed. Raises UsageError for another label.
        """
        return self._labels

    @labels.setter
    def labels(self, labels: Iterable[Any]) -> None:
        checked: list[Label] = []
        for label in labels:
            match label:
                case (str(question), str(draft), "yes" | "no" as known):
                    checked.append((question, draft, known))
                case _:
                    raise UsageError(
                        f"A label is a question, a draft, and 'yes' or 'no', found {str(label)[:80]}."
                    )
        self._labels = tuple(checked)
        shown = checked[: self.knobs.judge_demos]
        text, other = self._judge_texts[:: 1 if shown else -1]
        if self.judge.signature.instructions == text != other:
            self.judge.signature = self.judge.signature.with_instructions(other)
        if shown:
            outputs = self.judge.signature.output_fields
            self.judge.demos = [demonstration(label, outputs) for label in shown]

    async def fit(self, questions: Sequence[Question], scorer: Scorer) -> None:
        """Labels the proxy's drafts for `questions`, which must be train questions.

        A draft is known if it contains more than `known_theta` of the gold answers. As many known as unknown
        ones are stored, `judge_demos` in all; none if all drafts have one label. `scorer` is not used: it
        measures the final answer. If a question comes twice the first counts.
        """
        if self.knobs.use_qj and self.knobs.judge_demos:
            self.labels = await event_loop.on_loop(self._label(questions))

    async def _label(self, questions: Sequence[Question]) -> tuple[Label, ...]:
        by_text: dict[str, Question] = {}
        for question in questions:
            by_text.setdefault(question.question, question)
        ask = self._run_recorded
        drafts = await together(*(unless_failed(ask(self._draft_alone, {"question": q})) for q in by_text))
        labels: list[Label] = []
        for question, draft in zip(by_text.values(), drafts, strict=True):
            if draft and draft.answer and question.answers:
                right = slim_em(draft.answer, question.answers) > self.knobs.known_theta
                labels.append((question.question, draft.answer, "yes" if right else "no"))
        return balanced(labels, self.knobs.judge_demos)

    async def _draft_alone(self, question: str) -> dspy.Prediction:
        """Returns the proxy's draft as an answer; an empty one if it is unreadable."""
        reply = await self.draft.try_call(question=question)
        return dspy.Prediction(answer=reply.heuristic_answer.strip() if reply else "", passages=())

    async def aforward(self, question: str, **context: Any) -> dspy.Prediction:
        """Answers `question` from what the main model knows, or from what is found for its queries.

        A run with a given answer, to show how it is read, searches for the question and asks no proxy.
        """
        taught = forced_values(self.answer.signature.output_fields) is not None
        queries = [question] if taught else await self._plan_queries(question)
        hit_lists = await together(
            *(self.search("local", q, self.knobs.pages_per_query, source=self.local) for q in queries)
        )
        results = found_pages(hit_lists)
        passages = await self._select_references(question, results)
        if passages:
            prediction = await self.answer_from(self.answer, question, passages)
        else:
            prediction = await self.chat.acall(question=question)
        ranked = 0 if self.likeness.embeds else sum(map(len, results.pages))
        tallies = {"bm25_ranked": ranked, **costs_by_role(recorded_events())}
        return dspy.Prediction(answer=prediction.answer, passages=passages, tallies=tallies)

    async def _plan_queries(self, question: str) -> list[str]:
        """Returns the search queries; none when the question counts as known."""
        knobs, draft = self.knobs, ""
        if knobs.use_qj or knobs.use_qr:
            reply = await self.draft.try_call(question=question)
            draft = reply.heuristic_answer.strip() if reply else ""
        if knobs.use_qj:
            inputs = {"question": question, "heuristic_answer": draft}
            known = bool(draft) and await self._is_known(self.judge, **inputs)
            record(Note("question", "known" if known else "not known"))
            if known:
                return []
        return await self._queries(question, draft) if knobs.use_qr else [question]

    async def _is_known(self, call: RagPredict, **inputs: str) -> bool:
        """Makes one judgement; an unreadable one is not known."""
        reply = await call.try_call(**inputs)
        if reply is None:
            return False
        if self._judge_by == "text":
            return bool(reply.known == "yes")
        sure = reply.confidence / 100 if self._judge_by == "confidence" else probability(reply)
        record(Note(call.name, f"{sure:.2f} sure that no search is needed"))
        return above("judge_threshold", sure, self.knobs.judge_threshold)

    async def _queries(self, question: str, draft: str) -> list[str]:
        """Returns the search queries, without repeats: the question, then its parts, then claims."""
        of_question, of_claims = await together(
            self._question_queries(question), self._claim_queries(question, draft)
        )
        first = [question] if self.knobs.include_original_query else []
        return unique_queries([*first, *of_question, *of_claims])

    async def _question_queries(self, question: str) -> list[str]:
        if not self.knobs.include_question_queries:
            return []
        reply = await self.parts.try_call(question=question)
        parts = usable_items(question, reply.questions, "question") if reply else []
        return [part.query.strip() for part in parts if part.need_search == "yes"]

    async def _claim_queries(self, question: str, draft: str) -> list[str]:
        if not draft:
            return []
        reply = await self.claims.try_call(question=question, heuristic_answer=draft)
        claims = usable_items(f"{question} {draft}", reply.claims, "claim") if reply else []
        if not self.knobs.use_qf:
            flagged = (
                claim for claim in claims if self.knobs.unfiltered == "all" or claim.need_search == "yes"
            )
            return [claim.query.strip() for claim in flagged]
        known = await together(
            *(self._is_known(self.claim_judge, query=c.query.strip(), claim=c.claim) for c in claims)
        )
        record(Note("claims", f"{sum(known)} of {len(claims)} known"))
        return [claim.query.strip() for claim, out in zip(claims, known, strict=True) if not out]

    async def _select_references(self, question: str, results: Results) -> tuple[Passage, ...]:
        """Returns the references dealt, at most `refs_max`, that fit under the cap and in the context."""
        knobs = self.knobs
        every = [paragraph for page in results.pages for paragraph in page]
        if every:
            what = f"{len(every)} paragraphs of {len(results.pages)} pages"
            record(Note("reranking", f"{what}, {self.likeness.name}"))
        values = iter(await self.likeness.scores(question, every))
        scores = [[next(values) for _ in page] for page in results.pages]
        dealt = deal(results, scores, by=knobs.deal_by, shortest=knobs.round_robin == "zip")
        chosen = dealt[: knobs.refs_max]

        def tokens(passages: Page) -> int:
            prompt = self.answer.messages(question=question, passages=[format_passage(p) for p in passages])
            own = f"{prompt[0].content}\n{prompt[-1].content}"  # demonstrations stand between
            return self.runtime.target(self.answer.role).count_tokens(own)

        capped = chosen
        while capped and tokens(capped) > knobs.prompt_token_cap:
            capped = capped[:-2]
        counters.count(trimmed=len(chosen) - len(capped))
        return self.passages_that_fit(self.answer, capped, question=question)


def _judge_by(runtime: Runtime, knobs: SlimPLMKnobs) -> str:
    """Returns how judgements are made: by the knob; `auto` is logprobs if the proxy has them, else text."""
    if knobs.judge_by != "auto":
        return knobs.judge_by
    able = "proxy" in runtime.targets and "logprobs" in runtime.target("proxy").capabilities
    return "logprobs" if able else "text"


def _check(runtime: Runtime, knobs: SlimPLMKnobs) -> None:
    """Raises if `knobs` ask for something that no target offers."""
    if not (knobs.use_qj or knobs.use_qr):
        return
    if "proxy" not in runtime.targets:
        raise UsageError(
            "SlimPLM asks a small model when and what to search, and no target has the role 'proxy'; add "
            "[targets.proxy], or set the knobs use_qj and use_qr to false to always search for the question."
        )
    target = runtime.target("proxy")
    judges = knobs.use_qj or knobs.use_qf
    if judges and knobs.judge_by == "logprobs" and "logprobs" not in target.capabilities:
        raise CapabilityMissing(
            f"judge_by = logprobs needs log probabilities from [targets.proxy], and {target.name} gives "
            "none; set the knob judge_by to text, confidence or auto."
        )
