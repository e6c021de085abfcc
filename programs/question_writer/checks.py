"""A written question, and its checks that take no model, in the order in which they are made.

What is checked raised the share of good questions on the labels of blind readers, see experiments/LOG.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rapidfuzz import fuzz

from ragc.corpora.sources.terms import analyze, query_terms, words
from ragc.metrics.short_answer import f1, normalise
from ragc.records import Passage

# The kinds of questions, and how often each is written: answered by one sentence of a passage; about its
# subject, and answered by no passage; answered by one passage, which another one is needed to find; comparing
# the subjects of two.
KINDS: Mapping[str, int] = {"single": 4, "unanswerable": 1, "two_passage": 2, "comparison": 1}

DEFAULT_KINDS = ("single", "unanswerable")

# The gold answers of an unanswerable question.
NO_ANSWER = ("unknown", "I don't know", "not stated")

# The greatest share of a question's content words that may stand in one of its passages, 0 to 1.
# Nine in ten questions of people are below it: the 90th percentile is .83 on HotpotQA (the nearer of its two
# passages) and .86 on Natural Questions.
OVERLAP_CAP = 0.85

# The least ratio of the sorted words of two questions that ask the same, 0 to 100.
ALIKE = 90

# The least ratio of a quote and the part of its passage that is most like it, 0 to 100.
QUOTED = 95

# The least token F1 of two answers that say the same.
MIN_F1 = 0.5

# Words that point to the passage, and those that begin a second question.
_POINTS = re.compile(
    r"\b(?:passages?|excerpts?|paragraphs?|above|aforementioned)\b"
    r"|\b(?:the|this|that|given|following|provided) (?:text|sentence|snippet|context|information|statement)\b"
    r"|\b(?:the|this|that|given|following) (?:article|section|document|author|table|page|chapter|title)\b"
    r"(?! (?:of|on|for|about|that|who|which|by|in|and|to|\d))"
    r"|\b(?:mentioned|described|stated|listed|discussed|provided|shown)\b\W*$"
    r"|\baccording to (?:the|this|it)\b"
    r"|\b(?:and|or),? (?:(?:by|in|on|at|for|to|from|with) )?"
    r"(?:who|whom|whose|when|where|which|what|why|how)\b"
    r"|\b(?:what|which) (?:[a-z]+ )?[a-z]+ and [a-z]+ (?:did|do|does|was|were|is|are|has|have|had)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(
    r"\b(?:he|she|him|his|her|hers|they|them|their|it|its|this|these|those)\b", re.IGNORECASE
)
_NAME = re.compile(r"(?<=\s)[\"'\u201c\u2018(]?([^\W\d_a-z][\w-]*)")
_BRACKETS = re.compile(r"\([^()]*\)")
# Something that the reader cannot know, unless the question names it elsewhere.
_SOME = re.compile(
    r"\bthe (?:\d+(?:th|st|nd|rd|s)? )?(?:film|movie|series|show|play|book|novel|story|album|song|single|band"
    r"|group|game|match|event|concert|team|club|company|organi[sz]ation|person|man|woman|actor|author|singer"
    r"|player|village|town|city|place|building|school|product|tool|program|dog|character)\b"
    r"(?! (?:of|that|who|which|[^\W\d_a-z\"']))"
)
_NUMBER = re.compile(r"\d+")
_YEAR = re.compile(r"\b\d{4}\b")
_YEAR_ASKED = re.compile(r"(?:\w+ )?(?:what|which) year\b", re.IGNORECASE)
# A quoted title, a number, or a name.
_MENTION = re.compile(
    r"[\"\u201c]([^\"\u201c\u201d]{2,60})[\"\u201d]|\d(?:[\d.,:/-]*\d)?"
    r"|\b[^\W\d_a-z][\w'\u2019&-]*(?:(?:\s(?:of|the|de|la|von|van|der|for)){0,2}\s[^\W\d_a-z][\w'\u2019&-]*)*"
)


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a passage: the sentences around the one that is asked about.

    `document` is the file that the passage is from.
    """

    passage: Passage
    document: str
    text: str
    sentence: str

    @property
    def shown(self) -> str:
        """The excerpt as a call shows it: the title, then the text."""
        return f"{self.passage.title}\n{self.text}".lstrip("\n")

    @property
    def whole(self) -> str:
        """Title and text of the passage."""
        return f"{self.passage.title}\n{self.passage.text}"


@dataclass(frozen=True, slots=True)
class WrittenQuestion:
    """A question of a `kind` about excerpts, with its answer and the `quote` of the passage that gives it.

    A second excerpt is of the nearest other passage: the other half of a question about two, or the fact that
    an unanswerable one asks of the first. `passed` names the checks in order, `failed` the one that it did
    not pass, or why there is no question, "" for none.
    """

    id: str
    kind: str
    excerpts: tuple[Excerpt, ...]
    question: str = ""
    answer: str = ""
    quote: str = ""
    passed: tuple[str, ...] = ()
    failed: str = ""

    @property
    def answers(self) -> tuple[str, ...]:
        """The gold answers."""
        return NO_ANSWER if self.kind == "unanswerable" else (self.answer,)

    @property
    def sources(self) -> tuple[Excerpt, ...]:
        """The excerpts that the question rests on."""
        return self.excerpts[:1] if self.kind == "unanswerable" else self.excerpts

    @property
    def overlap(self) -> float:
        """The largest share of the question's content words that stand in one of its passages, 0 to 1."""
        terms = query_terms(self.question)
        passages = (
            set(analyze(f"{excerpt.passage.title} {excerpt.passage.text}")) for excerpt in self.sources
        )
        return max(sum(term in words for term in terms) / max(1, len(terms)) for words in passages)

    def with_check(self, name: str, *, passed: bool) -> WrittenQuestion:
        """Returns the question after the check `name`."""
        return replace(self, passed=(*self.passed, name)) if passed else replace(self, failed=name)


def well_formed(written: WrittenQuestion) -> bool:
    """Returns whether this is one question of 4 to 35 words."""
    question = written.question.replace("\uff1f", "?")
    return question.endswith("?") and question.count("?") == 1 and 4 <= len(words(question)) <= 35


def self_contained(written: WrittenQuestion) -> bool:
    """Returns whether the question can be understood by somebody who has not seen the passage, and asks for
    one thing.
    """
    before, *after = _PRONOUN.split(written.question, maxsplit=1)
    is_clear = not after or _NAME.search(before) is not None
    return is_clear and not _POINTS.search(written.question) and names_its_subject(written)


def names_its_subject(written: WrittenQuestion) -> bool:
    """Returns whether the question has a name and nothing like "the film", or the words of a passage's title.

    Of a title that is a name, such as "Lake Hope", two words are needed; of another one any. An unanswerable
    question has all, and no name that its passage has not: what else it names is not what its fact is of.
    """
    terms, names = set(query_terms(written.question)), _NAME.findall(written.question)
    for excerpt in written.sources:
        title = _BRACKETS.sub(" ", excerpt.passage.title)
        words = set(query_terms(title))
        if written.kind == "unanswerable":
            known = set(analyze(excerpt.whole))
            return words <= terms and known.issuperset(query_terms(" ".join(names)))
        if len(words & terms) > (len(words) > 1 and bool(_NAME.search(title))):
            return True
    return bool(names) and not _SOME.search(written.question)


def hides_answer(written: WrittenQuestion) -> bool:
    """Returns whether the question has not all words of its answer."""
    return not set(query_terms(written.answer)) <= set(query_terms(written.question))


def stated(written: WrittenQuestion) -> bool:
    """Returns whether the passage has the quote, and the quote the answer, of at most 12 words; where two are
    linked the second passage alone, so that both are needed.
    """
    *others, last = (excerpt.whole for excerpt in written.excerpts)
    alike = fuzz.partial_ratio(normalise(written.quote), normalise(last))
    is_quoted = alike >= QUOTED and len(words(written.quote)) >= 4 and len(words(written.answer)) <= 12
    has_answer = [contains(text, written.answer) for text in (written.quote, last, *others)]
    return is_quoted and has_answer == [True, True, *(False for _ in others)]


def names_one(written: WrittenQuestion) -> bool:
    """Returns whether a comparison is answered by yes or no, or by words of a passage."""
    texts = ["yes", "no", *(excerpt.whole for excerpt in written.excerpts)]
    return any(contains(text, written.answer) for text in texts)


def no_rival(written: WrittenQuestion) -> bool:
    """Returns whether the answer is the only name, year or number of its quote but for those of the title: of
    two a small model takes the wrong one, and a question often fits both.
    """
    return is_sole(written.answer, written.quote, written.excerpts[0].passage.title)


def one_fact(written: WrittenQuestion) -> bool:
    """Returns whether the numbers of the question stand in the quote of its answer, or in the title."""
    given = f"{written.excerpts[0].passage.title} {written.quote}"
    return set(_NUMBER.findall(given)).issuperset(_NUMBER.findall(written.question))


def own_words(written: WrittenQuestion) -> bool:
    """Returns whether enough of the question's content words are not those of its passage."""
    return written.overlap <= OVERLAP_CAP


# The checks of each kind. `answerable` and `needs_passage`, or `unanswered`, follow with calls of the model,
# then `no_duplicate`.
CHECKS: Mapping[str, Sequence[Callable[[WrittenQuestion], bool]]] = {
    "single": (well_formed, self_contained, hides_answer, stated, no_rival, one_fact, own_words),
    "unanswerable": (well_formed, self_contained, own_words),
    "two_passage": (well_formed, self_contained, hides_answer, stated, own_words),
    "comparison": (well_formed, self_contained, names_one, own_words),
}


def mentions(sentence: str, title: str = "") -> list[str]:
    """Returns the names, numbers and quoted titles of a sentence that are not in the `title`.

    The capital with which the sentence begins makes no name.
    """
    found = _MENTION.finditer(sentence, 0 if sentence[:1].isdigit() else 1)
    return [text for text in (match[1] or match[0] for match in found) if not contains(title, text)]


def is_sole(answer: str, sentence: str, title: str = "") -> bool:
    """Returns whether no other name, year or number than `answer` stands in its sentence."""
    return all(
        contains(answer, text) or contains(text, answer) or _sort(text) != _sort(answer)
        for text in mentions(sentence, title)
    )


def _sort(text: str) -> str:
    return "year" if _YEAR.search(text) else "number" if _NUMBER.search(text) else "name"


def year_of(question: str, answer: str) -> str:
    """Returns the year of a date that answers "in which year"; other answers as they are (English)."""
    years = _YEAR.findall(answer)
    return years[0] if len(years) == 1 and _YEAR_ASKED.match(question) else answer


def same_answer(first: str, second: str) -> bool:
    """Returns whether two short answers say the same: enough words in common, or one contains the other."""
    return f1(first, [second]) >= MIN_F1 or contains(first, second) or contains(second, first)


def contains(text: str, part: str) -> bool:
    """Returns whether the words of `part` stand in `text`, in a row."""
    inner = normalise(part)
    return bool(inner) and f" {inner} " in f" {normalise(text)} "


# A question, and its facts: each answer with the passages that give it.
Known = tuple[str, frozenset[tuple[str, ...]]]


def known_of(question: str, answers: Iterable[str], passages: Sequence[str]) -> Known:
    """Returns what tells a question from others."""
    facts = ((normalise(answer), *sorted(passages)) for answer in answers if answer not in NO_ANSWER)
    return question, frozenset(facts if passages else ())


def is_new(known: Known, others: Iterable[Known]) -> bool:
    """Returns whether none of `others` has nearly the same words and the same numbers, or a fact of it."""
    question, facts = known
    return not any(
        facts & others_facts
        or (
            _NUMBER.findall(question) == _NUMBER.findall(other)
            and fuzz.token_sort_ratio(normalise(question), normalise(other)) >= ALIKE
        )
        for other, others_facts in others
    )
