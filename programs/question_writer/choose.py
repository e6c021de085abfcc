"""Which sentences of a corpus are asked about, and which other passages are nearest to a question.

Both read the rows of a corpus as a stream and hold a few excerpts only. The choice depends on ids and texts
alone: a sentence is chosen again after other documents changed. Documents take turns, so that one long file
does not fill the set.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from ragc.corpora.sources.terms import analyze, query_terms
from ragc.programs.question_writer.base import WEIGHTS, Excerpt, Topic
from ragc.programs.question_writer.details import may_leave_open
from ragc.programs.question_writer.spans import names_something, sole_spans
from ragc.programs.sentences import all_sentences

Rows = Callable[[], Iterable[Mapping[str, Any]]]
"""Opens the rows of a corpus, with `id`, `title`, `text` and perhaps `source`, from the first."""

WINDOW_WORDS = 140
"""The most words of an excerpt, unless one sentence has more."""

_MIN_TERMS, _MAX_TERMS = 5, 60
_K1, _B = 1.2, 0.75


def digest_of(title: str, text: str) -> str:
    """Returns the digest of a passage, 16 hexadecimal digits."""
    return hashlib.sha256(f"{title}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]


def digests(rows: Rows, ids: Iterable[str]) -> dict[str, str]:
    """Returns the digests of those passages among `ids` that the corpus holds."""
    wanted = set(ids)
    return {row["id"]: digest_of(row["title"], row["text"]) for row in rows() if row["id"] in wanted}


def candidates(rows: Rows, n: int, kinds: Sequence[str]) -> list[Topic]:
    """Returns the first `n` sentences to ask about, each with the kind of its question.

    The first sentence of every document comes first, in an order drawn from the ids, then every second one;
    in a document, those come first that have the only name, number or date of its kind around them. Sentences
    in which each has a rival are not asked about.
    """
    chosen: list[tuple[int, str, Topic]] = []
    for _, passages in groupby(rows(), key=_document):
        in_document = heapq.nsmallest(
            n, (one for row in passages for one in _of_passage(row, kinds)), key=_rank
        )
        turns = ((turn, one.id, one) for turn, one in enumerate(in_document))
        chosen = heapq.nsmallest(n, [*chosen, *turns], key=lambda entry: entry[:2])
    return [one for _, _, one in chosen]


def _rank(one: Topic) -> tuple[int, str]:
    """Returns 0 with an answer that has no rival around the sentence, 2 without names and numbers, else 1."""
    first = one.excerpts[0]
    if one.kind != "single":
        return 1, one.id
    if sole_spans(first.sentence, first.title, first.text):
        return 0, one.id
    return (1 if names_something(first.sentence, first.title) else 2), one.id


def _document(row: Mapping[str, Any]) -> str:
    return str(row.get("source") or row["id"])


def _of_passage(row: Mapping[str, Any], kinds: Sequence[str]) -> Iterator[Topic]:
    """Yields the sentences of a passage to ask about; those that would leave a detail open are asked about
    themselves where the passage is about nothing of which a detail is known.
    """
    title = str(row["title"])
    sentences = all_sentences(str(row["text"]))
    closed = "unanswerable" in kinds and not may_leave_open(f"{title}\n{row['text']}")
    left = [kind for kind in kinds if not (closed and kind == "unanswerable")]
    for at, sentence in enumerate(sentences):
        if not _is_statement(sentence) or not left:
            continue
        name = hashlib.sha256(f"{row['id']}\n{sentence}".encode("utf-8", "replace")).hexdigest()
        kind = _kind(name, kinds)
        kind = kind if kind in left else _kind(name, left)
        if kind != "single" or sole_spans(sentence, title) or not names_something(sentence, title):
            yield Topic(f"w-{name[:12]}", kind, (_excerpt(row, sentences, at),))


def _is_statement(sentence: str) -> bool:
    """Returns whether a sentence may hold a fact: prose of a usual length, no heading, row of a table or
    question.
    """
    if sentence.startswith(("#", "|", "```", "!", "<")) or sentence.endswith(("?", ":")):
        return False
    return _MIN_TERMS <= len(analyze(sentence)) <= _MAX_TERMS


def _kind(name: str, kinds: Sequence[str]) -> str:
    slots = [kind for kind in kinds for _ in range(WEIGHTS[kind])]
    return slots[int(name[-8:], 16) % len(slots)]


def _excerpt(row: Mapping[str, Any], sentences: Sequence[str], at: int) -> Excerpt:
    first = last = at
    words = len(sentences[at].split())
    while first > 0 or last + 1 < len(sentences):
        before = len(sentences[first - 1].split()) if first else WINDOW_WORDS
        after = len(sentences[last + 1].split()) if last + 1 < len(sentences) else WINDOW_WORDS
        if words + min(before, after) > WINDOW_WORDS:
            break
        first, last = (first - 1, last) if before <= after else (first, last + 1)
        words += min(before, after)
    title, text = str(row["title"]), str(row["text"])
    return Excerpt(
        str(row["id"]),
        _document(row),
        title,
        " ".join(sentences[first : last + 1]),
        sentences[at],
        text,
        digest_of(title, text),
    )


def nearest(
    rows: Rows, texts: Mapping[str, str], k: int, exclude: Mapping[str, str] | None = None
) -> dict[str, list[Excerpt]]:
    """Returns the `k` passages nearest to each of `texts` by their words (BM25), best first, by the key of
    the text.

    `exclude` names one passage for a key that is left out.
    """
    left_out = exclude or {}
    terms = {key: dict.fromkeys(query_terms(text)) for key, text in texts.items()}
    lookup_keys: dict[str, list[str]] = {}
    for key, own in terms.items():
        for term in own:
            lookup_keys.setdefault(term, []).append(key)
    n, length, frequency = 0, 0, Counter[str]()
    for row in rows():
        words = analyze(f"{row['title']} {row['text']}")
        n, length = n + 1, length + len(words)
        frequency.update(lookup_keys.keys() & set(words))
    usual = length / n if n else 1.0
    weights = {t: math.log(1 + (n - frequency[t] + 0.5) / (frequency[t] + 0.5)) for t in lookup_keys}
    best: dict[str, list[tuple[float, int, Mapping[str, Any]]]] = {key: [] for key in texts}
    for number, row in enumerate(rows()):
        words = analyze(f"{row['title']} {row['text']}")
        counts = Counter(word for word in words if word in lookup_keys)
        norm = _K1 * (1 - _B + _B * len(words) / usual)
        scores = Counter[str]()
        for term, times in counts.items():
            for key in lookup_keys[term]:
                scores[key] += weights[term] * times / (times + norm)  # type: ignore[assignment]
        for key, score in scores.items():
            if left_out.get(key) != row["id"]:
                heap = best[key]
                heapq.heappush(heap, (float(score), -number, row))
                if len(heap) > k:
                    heapq.heappop(heap)
    return {
        key: [_around(row, terms[key]) for _, _, row in sorted(heap, key=lambda hit: (-hit[0], -hit[1]))]
        for key, heap in best.items()
    }


def _around(row: Mapping[str, Any], terms: Mapping[str, None]) -> Excerpt:
    """Returns the excerpt of a passage around the sentence with most of `terms`."""
    sentences = all_sentences(str(row["text"])) or [str(row["text"])]
    at = max(range(len(sentences)), key=lambda n: (len(terms.keys() & set(analyze(sentences[n]))), -n))
    return _excerpt(row, sentences, at)
