"""Checks of a written question that take no model, in the order in which they are made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragc.corpora.files.near_duplicates import THRESHOLD, Trigrams, overlap, trigrams
from ragc.corpora.sources.terms import analyze, query_terms
from ragc.metrics.short_answer import f1, normalise
from ragc.programs.question_writer.base import NO_ANSWER, OVERLAP_CAP, DraftQuestion, Excerpt
from ragc.programs.question_writer.details import asks_for
from ragc.programs.question_writer.spans import YEAR, abbreviates

ALIKE = 0.9
"""The least cosine of the vectors of two questions that ask for the same."""

MIN_F1 = 0.5
"""The least token F1 of two answers that say the same."""

_POINTS = re.compile(
    r"\b(?:passages?|excerpts?|paragraphs?|above|aforementioned)\b"
    r"|\b(?:the|this|that|given|following|provided) (?:text|sentence|snippet|context|information|statement)\b"
    r"|\b(?:the|this|that|given|following) (?:article|section|document|author|table|page|chapter|title)\b"
    r"(?! (?:of|on|for|about|that|who|which|by|in|and|to|\d))"
    r"|\b(?:mentioned|described|stated|listed|discussed|provided|shown)\b\W*$"
    r"|\baccording to (?:the|this|it)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:he|she|him|his|her|hers|they|them|their|it|its|this|these|those)\b", re.IGNORECASE
)
_NAME = re.compile(r"(?<=\s)[\"'\u201c\u2018(]?([^\W\d_a-z][\w-]*)")
_BRACKETS = re.compile(r"\([^()]*\)")
_SOME = re.compile(
    r"\bthe (?:\d+(?:th|st|nd|rd|s)? )?(?:film|movie|series|show|play|book|novel|story|album|song|single|band"
    r"|group|game|match|event|concert|team|club|company|organi[sz]ation|person|man|woman|actor|author|singer"
    r"|player|village|town|city|place|building|school|product|tool|program|dog|character)\b"
    r"(?! (?:of|that|who|which|[^\W\d_a-z\"']))"
)
"""Something that the reader cannot know, unless the question names it elsewhere."""
_THE_MANY = re.compile(r"\bthe [a-z]+s\b(?! (?:of|in|on|at|for|from|to|with|that|who|which|[^\W_a-z\"']))")
"""Several such things."""
_NUMBER = re.compile(r"\d+")
_YEAR_ASKED = r"(?:\w+ )?(?:what|which) year\b"
_COUNTED = r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozen|hundred|thousand)\b"
_DAYS = (
    r"\d|\b(?:january|february|march|april|may|june|july|august|september|october|november|december|spring|summer"
    r"|autumn|fall|winter|[a-z]+day)\b"
)
_FITS: Sequence[tuple[re.Pattern[str], re.Pattern[str]]] = tuple(
    (re.compile(begins, re.IGNORECASE), re.compile(wanted, re.IGNORECASE))
    for begins, wanted in (
        (_YEAR_ASKED, r".*\b\d{3,4}\b"),
        (r"(?:\w+ )?(?:what|which) (?:decade|century)\b", r".*\d|.*century"),
        (r"when\b|(?:on )?(?:what|which) (?:date|day)\b", rf".*(?:{_DAYS})"),
        (r"how many\b", rf".*(?:{_COUNTED})"),
        (r"(?:who|whom|whose|where)\b", r"\D"),
    )
)
"""What a question begins with, or asks, and what its answer then is."""
_TWO = re.compile(
    r"\b(?:and|or),? (?:(?:by|in|on|at|for|to|from|with) )?"
    r"(?:who|whom|whose|when|where|which|what|why|how)\b"
    r"|\b(?:what|which) (?:[a-z]+ )?[a-z]+ and [a-z]+ (?:did|do|does|was|were|is|are|has|have|had)\b",
    re.IGNORECASE,
)
_WORDS = (4, 35)
_ANSWER_WORDS = 12


def well_formed(draft: DraftQuestion) -> bool:
    """Returns whether the draft is one question of a usual length, with a short answer."""
    question, terms = draft.question, analyze(draft.question)
    marks = question.count("?") + question.count("\uff1f")
    short = draft.candidate.kind == "unanswerable" or 0 < len(analyze(draft.answer)) <= _ANSWER_WORDS
    ends = question.endswith(("?", "\uff1f"))
    one = marks == 1 and "\n" not in question and not _TWO.search(question)
    return ends and one and _WORDS[0] <= len(terms) <= _WORDS[1] and short


def self_contained(draft: DraftQuestion) -> bool:
    """Returns whether the question can be understood by somebody who has not seen the passage."""
    if _POINTS.search(draft.question) or not _names_its_subject(draft):
        return False
    pronoun = _PRONOUN.search(draft.question)
    return pronoun is None or _NAME.search(draft.question[: pronoun.start()]) is not None


def _names_its_subject(draft: DraftQuestion) -> bool:
    """Returns whether the question has a name and nothing like "the film", or the words of a passage's title.

    Of a title that is a name, such as "Lake Hope", two words are needed, one of them of the name itself; of
    another one any. An unanswerable question has all, as what else it names is not what its detail is of.
    """
    terms = set(query_terms(draft.question))
    titles = [_BRACKETS.sub(" ", one.title) for one in draft.candidate.excerpts]
    words = [set(query_terms(title)) for title in titles]
    shared = [(title, terms & own) for title, own in zip(titles, words, strict=True)]
    if any(own and not _NAME.search(title) for title, own in shared):
        return True
    if draft.candidate.kind == "unanswerable":
        return any(own <= terms for own in words)
    if any(
        len(own) >= min(2, len(set(query_terms(title)))) and own & _name_words(title) for title, own in shared
    ):
        return True
    if _NAME.search(draft.question) is None:
        return False
    unknown = _SOME.search(draft.question) or _THE_MANY.search(draft.question)
    return unknown is None or any(own for _, own in shared)


def _name_words(title: str) -> set[str]:
    """Returns the words of a title that have a capital, and its first one."""
    return set(query_terms(" ".join(_NAME.findall(title)))) | set(analyze(title)[:1])


def knows_names(draft: DraftQuestion) -> bool:
    """Returns whether the names in an unanswerable question are those of its passage, not made up ones."""
    if draft.candidate.kind != "unanswerable":
        return True
    known = {word for one in draft.candidate.excerpts for word in analyze(f"{one.title} {one.whole}")}
    names = _NAME.findall(draft.question)
    return all(word in known for name in names for word in query_terms(name))


def asks_detail(draft: DraftQuestion) -> bool:
    """Returns whether an unanswerable question asks for the detail that it was to ask for."""
    return asks_for(draft.detail, draft.question)


def hides_answer(draft: DraftQuestion) -> bool:
    """Returns whether the question does not contain its answer, nor the title that the answer abbreviates; a
    comparison names what it chooses between.
    """
    if draft.candidate.kind in ("unanswerable", "comparison"):
        return True
    short = any(abbreviates(draft.answer, one.title) for one in draft.candidate.excerpts)
    words = set(query_terms(draft.answer))
    in_pieces = bool(words) and words <= set(query_terms(draft.question))
    return not short and not in_pieces and not _contains(draft.question, draft.answer)


def stated(draft: DraftQuestion) -> bool:
    """Returns whether the answer stands in a passage; in the second where two are linked, so that both are
    needed.

    A comparison may be answered by yes or no.
    """
    kind, excerpts = draft.candidate.kind, draft.candidate.excerpts
    if kind == "unanswerable" or (kind == "comparison" and normalise(draft.answer) in ("yes", "no")):
        return True
    if kind == "two_passage":
        return _contains(excerpts[1].whole, draft.answer) and not _contains(excerpts[0].whole, draft.answer)
    return any(states(one, draft.answer) for one in excerpts)


def fits_answer(draft: DraftQuestion) -> bool:
    """Returns whether the answer is of the kind that the question asks for: a year for "in which year"."""
    if draft.candidate.kind != "single":
        return True
    return all(wanted.match(draft.answer) for begins, wanted in _FITS if begins.match(draft.question))


def answer_to(question: str, answer: str) -> str:
    """Returns the year of a date that answers "in which year"; other answers as they are (English)."""
    years = YEAR.findall(answer)
    return years[0] if len(years) == 1 and re.match(_YEAR_ASKED, question, re.IGNORECASE) else answer


def one_fact(draft: DraftQuestion) -> bool:
    """Returns whether the numbers of the question stand in the sentence of its answer, or in the title."""
    if draft.candidate.kind != "single":
        return True
    first = draft.candidate.excerpts[0]
    known = set(_NUMBER.findall(f"{first.title} {first.sentence}"))
    return known.issuperset(_NUMBER.findall(draft.question))


def overlap_of(draft: DraftQuestion) -> float:
    """Returns the largest share of the question's content words that stand in one of its passages, 0 to 1."""
    terms = query_terms(draft.question)
    if not terms:
        return 0.0
    passages = (set(analyze(f"{one.title} {one.whole}")) for one in draft.candidate.excerpts)
    return max(sum(term in words for term in terms) / len(terms) for words in passages)


def own_words(draft: DraftQuestion) -> bool:
    """Returns whether enough of the question's content words are not those of its passage."""
    return overlap_of(draft) <= OVERLAP_CAP


CHECKS: Mapping[str, Callable[[DraftQuestion], bool]] = {
    "well_formed": well_formed,
    "self_contained": self_contained,
    "knows_names": knows_names,
    "asks_detail": asks_detail,
    "hides_answer": hides_answer,
    "stated": stated,
    "fits_answer": fits_answer,
    "one_fact": one_fact,
    "own_words": own_words,
}
"""The checks by name. `no_duplicate` follows them, and those that take a call of the model: `answerable`,
`needs_passage`, `confirmed` and `unanswered`.
"""


def same_answer(one: str, other: str) -> bool:
    """Returns whether two short answers say the same: enough words in common, or one contains the other."""
    return f1(one, [other]) >= MIN_F1 or _contains(one, other) or _contains(other, one)


def states(excerpt: Excerpt, answer: str) -> bool:
    """Returns whether the words of `answer` stand in the passage of `excerpt`, in a row."""
    return _contains(f"{excerpt.title}\n{excerpt.whole}", answer)


def _contains(text: str, part: str) -> bool:
    """Returns whether the words of `part` stand in `text`, in a row."""
    inner = normalise(part)
    return bool(inner) and f" {inner} " in f" {normalise(text)} "


@dataclass(frozen=True, slots=True)
class _Known:
    grams: Trigrams
    terms: frozenset[str]
    numbers: tuple[str, ...]
    vector: Sequence[float]

    @classmethod
    def of(cls, question: str, vector: Sequence[float]) -> _Known:
        numbers = tuple(re.findall(r"\d+", question))
        return cls(trigrams(question), frozenset(query_terms(question)), numbers, vector)

    def asks_same(self, other: _Known) -> bool:
        """Returns whether both ask the same; questions with other numbers never do."""
        if self.numbers != other.numbers:
            return False
        shared, both = len(self.terms & other.terms), len(self.terms | other.terms)
        if overlap(self.grams, other.grams) >= THRESHOLD or shared >= THRESHOLD * both:
            return True
        pairs = zip(self.vector, other.vector, strict=False)
        return sum(mine * theirs for mine, theirs in pairs) >= ALIKE


class KnownQuestions:
    """The questions of a set so far, and whether another one asks the same.

    Two ask the same if they are near duplicates, if most of their content words are the same, or if they
    have one answer in one passage. Where there are vectors, also if their cosine is at least `ALIKE`.
    """

    def __init__(self) -> None:
        self._known: list[_Known] = []
        self._facts: set[tuple[str, str]] = set()

    def add(
        self, question: str, answers: Iterable[str], passages: Iterable[str], vector: Sequence[float] = ()
    ) -> None:
        """Adds a question with its answers, the ids of its passages, and its vector of length 1 if known."""
        self._known.append(_Known.of(question, vector))
        self._facts |= _facts(answers, passages)

    def has(
        self, question: str, answers: Iterable[str], passages: Iterable[str], vector: Sequence[float] = ()
    ) -> bool:
        """Returns whether a question asks what one of the set asks."""
        if _facts(answers, passages) & self._facts:
            return True
        mine = _Known.of(question, vector)
        return any(mine.asks_same(other) for other in self._known)


def _facts(answers: Iterable[str], passages: Iterable[str]) -> set[tuple[str, str]]:
    """Returns the pairs of answer and passage that a question asks for; none for one without an answer."""
    named = [normalise(answer) for answer in answers if answer not in NO_ANSWER]
    listed = sorted(passages)
    return {(answer, "\n".join(listed)) for answer in named if answer and listed}
