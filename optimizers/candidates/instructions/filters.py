"""Trims proposed instructions and selects those that may be candidates."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragc.core.text import escape_markers
from ragc.programs.trace import Search
from ragc.records import Passage, Question
from ragc.task.answering import Row

MAX_CHARACTERS = 1200
"""The most characters of an instruction; a longer one is cut at the end of a sentence or line."""

SHORTEST = 12
"""The least characters of an instruction."""

QUOTED = 12
"""The length in characters from which a gold answer inside an instruction counts as quoted."""

LISTED = 3
"""The number of different shorter answers, of at least four characters, that count as a list of answers."""

COPIED = 8
"""The number of consecutive words that count as copied, case and punctuation ignored.

Instructions in general English share up to 6 words in a row with questions and passages that they were not
written from: of 204 instructions and field descriptions of ours and of DSPy's, one shared 6 with 61,000
passages of seven corpora and none shared 7, with the passages or with 9,300 questions. 8 leaves a margin.
"""

SHORT_TEXT = 5
"""The least words of a question or an answer of fewer than COPIED words that counts as copied whole."""

QUOTES = ('""', "''", "``", "“”", "”“", "„“", "„”", "‘’", "‚‘", "«»", "»«", "‹›", "「」", "『』", "《》")
"""Marks that a model puts around a whole instruction, of several languages; an opening and a closing one."""

_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_PREFIX = re.compile(
    r"^[*#\s]*(?:(?:the|a)\s+)?(?:(?:new|proposed|improved|revised|updated)\s+)+instructions?\s*:\s*[*\s]*",
    re.IGNORECASE,
)
# Thai, Lao, Burmese, Khmer, kana, Chinese characters.
_CHARS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
_UNSPACED = re.compile(f"[{_CHARS}]+")
_BETWEEN = re.compile(rf"(?<=[{_CHARS}])[\W_]+(?=[{_CHARS}])")
_WORD = re.compile(rf"[{_CHARS}]+|(?:(?![{_CHARS}])[^\W_])+")
_APOSTROPHES = re.compile("['’ʼ]")
_ASCII = re.compile("[a-z0-9]+")
_BREAK = re.compile(r"[.!?:;](?=\s)|\n")


def trim(text: str) -> str:
    """Returns `text` without a model's wrapping around the instruction, at most MAX_CHARACTERS characters.

    Control characters, and those that reverse the direction of writing, are left out. "" if nothing remains.
    It is cut at the last end of a sentence or line in the second half, else at a word.
    """
    plain = _ACTING.sub("", re.sub(r"\r\n?", "\n", text)).strip()
    plain = _strip_fence(plain)
    plain = _PREFIX.sub("", plain).strip()
    while len(plain) > 1 and plain[0] + plain[-1] in QUOTES:
        plain = plain[1:-1].strip()
    plain = re.sub(r"[ \t]+", " ", re.sub(r"\n{3,}", "\n\n", plain))
    if len(plain) <= MAX_CHARACTERS:
        return plain
    ends = [
        match.end()
        for match in _BREAK.finditer(plain, 0, MAX_CHARACTERS)
        if match.end() >= MAX_CHARACTERS // 2
    ]
    return plain[: ends[-1]].rstrip() if ends else plain[:MAX_CHARACTERS].rpartition(" ")[0].rstrip()


def _strip_fence(text: str) -> str:
    inside = re.fullmatch(r"```[a-z]*\n(.*?)\n?```", text, re.DOTALL)
    return inside.group(1).strip() if inside else text


def usable(text: str, answers: Iterable[str]) -> bool:
    """Returns whether `text` may be an instruction.

    It is long enough, has no marker of an adapter or a chat template, and does not reveal `answers`: it
    quotes none of QUOTED or more characters, and fewer than LISTED different shorter ones.
    """
    if len(text) < SHORTEST or escape_markers(text) != text or "[[ ##" in text:
        return False
    folded_text = _fold(text)
    known = {folded for answer in answers if (folded := _fold(answer))}
    if any(len(answer) >= QUOTED and answer in folded_text for answer in known):
        return False
    short = {
        a for a in known if 4 <= len(a) < QUOTED and re.search(rf"(?<!\w){re.escape(a)}(?!\w)", folded_text)
    }
    return len(short) < LISTED


Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrainTexts:
    """The runs of words of train questions, their answers and passages, which no prompt may repeat.

    `runs` are those of COPIED words; `whole` are shorter questions and answers, by their number of words.
    """

    runs: Collection[Words] = frozenset()
    whole: Collection[Words] = frozenset()

    @classmethod
    def of(cls, questions: Iterable[Question], rows: Iterable[Row] = ()) -> TrainTexts:
        """Returns the texts of `questions`, and the passages that were shown when `rows` were answered."""
        texts = {w for q in questions for text in (q.question, *q.answers) for w in _both(text)}
        shown = {passage.text for row in rows for passage in _passages(row)}
        passages = {words for text in shown for words in _both(text)}
        runs = {run for text in (*texts, *passages) for run in _runs(text, COPIED)}
        return cls(runs, {text for text in texts if SHORT_TEXT <= len(text) < COPIED})

    def copied_in(self, text: str) -> str:
        """Returns the first words of `text` that repeat one of these texts, folded; "" for none."""
        words = _words(text)
        known = ((COPIED, self.runs), *((n, self.whole) for n in range(SHORT_TEXT, COPIED)))
        repeated = (run for n, texts in known for run in _runs(words, n) if run in texts)
        return " ".join(next(repeated, ()))


def _passages(row: Row) -> Iterator[Passage]:
    yield from row.passages
    for search in row.trace:
        if isinstance(search, Search):
            yield from (hit.passage for hit in search.hits)


def _words(text: str, start: int = 0) -> Words:
    """Returns the words of `text` without case, punctuation, accents, width of letters and invisible
    characters.

    A script without spaces has no words here: two of its characters count as one, from character number
    `start` of each stretch on, 0 or 1; one that is left over counts as none.
    """
    folded = text.casefold()
    if folded.isascii():
        return tuple(_ASCII.findall(folded.replace("'", "")))
    folded = unicodedata.normalize("NFKD", folded).casefold().translate(_LETTERS)
    folded = _BETWEEN.sub("", folded)
    words = list[str]()
    for word in _WORD.findall(_APOSTROPHES.sub("", folded)):
        if _UNSPACED.match(word):
            words += [word[at : at + 2] for at in range(start, len(word) - 1, 2)]
        else:
            words.append(word)
    return tuple(words)


def _both(text: str) -> set[Words]:
    """Returns the words of `text`, counted from both places where characters are counted."""
    return {_words(text, start) for start in ((0, 1) if _UNSPACED.search(text) else (0,))}


class _Letters(dict[int, int | None]):
    """A table for `str.translate` without marks on letters and without invisible characters."""

    def __missing__(self, code: int) -> int | None:
        kind = unicodedata.category(chr(code))
        self[code] = None if kind[0] == "M" or kind == "Cf" else code
        return self[code]


_LETTERS = _Letters()


def _runs(words: Words, n: int) -> Iterator[Words]:
    return (words[at : at + n] for at in range(len(words) - n + 1))


NO_TEXTS = TrainTexts()


def _fold(text: str) -> str:
    return " ".join(text.casefold().split())


def candidates(
    present: str, proposals: Sequence[str], answers: Iterable[str], n: int, *, train: TrainTexts = NO_TEXTS
) -> tuple[str, ...]:
    """Returns at most `n` instructions: `present`, then the first usable `proposals` without duplicates.

    Proposals are trimmed first; those that repeat a text of `train` are dropped. Case and white space are
    ignored when comparing.
    """
    return (present, *new_texts((present,), proposals, answers, n - 1, train=train))


def new_texts(
    known: Sequence[str], proposals: Sequence[str], answers: Iterable[str], n: int, *, train: TrainTexts
) -> tuple[str, ...]:
    """Returns at most `n` of `proposals`, trimmed: usable, without copies of `train`, and none of `known`."""
    golds, accepted = tuple(answers), list[str]()
    seen = {_fold(text) for text in known}
    for proposal in proposals:
        text = trim(proposal)
        fresh = len(accepted) < n and _fold(text) not in seen
        if fresh and usable(text, golds) and not train.copied_in(text):
            seen.add(_fold(text))
            accepted.append(text)
    return tuple(accepted)
