"""`pydocs`: questions about Python, answered from the language reference inside the interpreter.

The corpus is `pydoc_data.topics`, which is part of every CPython; nothing is downloaded or copied. The
questions are ours, in `pydocs/questions.jsonl`. The reference varies slightly between versions. A question
therefore names its evidence by short quotes, and the ids of the passages that contain them are looked up on
loading.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, groupby, pairwise, zip_longest
from pathlib import Path
from platform import python_version
from pydoc_data.topics import topics
from typing import cast

from ragc.corpora.files.records import read_questions
from ragc.errors import DataError
from ragc.records import Passage, Question

TARGET_WORDS, MAX_WORDS = 110, 160

_QUESTIONS = Path(__file__).parent / "pydocs" / "questions.jsonl"
_UNDERLINES = '*=-~^"'
_HEADING = re.compile(r"^(?:(\S.*)\n([*=\-~^\"])\2{2,}|-\[ Footnotes \]-)$", re.MULTILINE)
_MARKER = re.compile(r" *(\*|\d+\.|[IVX]+\.|\[\d+\]) ")
_ASIDES = ("New in ", "Added in ", "Changed in ", "Deprecated ", "Raises an auditing")
_FREE, _ITEM, _SENTENCE, _CODE, _TERM = 0, 400, 1500, 6000, 60000


@dataclass(frozen=True, slots=True)
class _Block:
    """An uncuttable piece of text, the cost of a cut before it, its separator, and its signature."""

    text: str
    price: int
    joint: str = "\n\n"
    term: str = ""


def normalise(text: str) -> str:
    """Returns `text` as lower-case words: case, spacing, footnote marks, quotes and punctuation dropped."""
    return " ".join(re.findall(r"\w+", re.sub(r"(^|\s)\[\d+\]", " ", text).casefold()))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _reflow(lines: Iterable[str]) -> str:
    """Returns the lines joined into one; words broken at a hyphen are joined."""
    return re.sub(r"\s+", " ", re.sub(r"(?<=\w-)\n(?=\w)", "", "\n".join(line.strip() for line in lines)))


def _sections(topic: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields the sections of a topic, each with its headings, outermost first."""
    path: tuple[str, ...] = ()
    start = 0
    for heading in _HEADING.finditer(topic):
        yield path, topic[start : heading.start()]
        name, underline = heading.groups()
        path = (*path[: _UNDERLINES.index(underline)], name) if name else (*path[:1], "Footnotes")
        start = heading.end()
    yield path, topic[start:]


def _table(chunk: Sequence[str]) -> Iterator[str]:
    """Yields the rows of a drawn table, each on one line, cells separated by ` | `."""
    edges = [i for i, char in enumerate(chunk[0]) if char == "+"]
    for is_rule, lines in groupby(chunk, key=lambda line: line.lstrip().startswith(("+", "|="))):
        if not is_rule:
            row = list(lines)
            cells = (_reflow(line[a + 1 : b] for line in row).strip() for a, b in pairwise(edges))
            yield " | ".join(filter(None, cells))


def _prose(chunk: Sequence[str]) -> Iterator[str]:
    """Yields the items of a list, the entries of a definition list, or the one paragraph of a chunk."""
    base = _indent(chunk[0])
    entries: list[list[str]] = []
    defined = len(chunk) > 1 and _indent(chunk[1]) == base + 3 and not _MARKER.match(chunk[0])
    for line in chunk:
        if not entries or _MARKER.match(line) or (defined and _indent(line) == base):
            entries.append([])
        entries[-1].append(line)
    for entry in entries:
        named = defined and len(entry) > 1
        yield f"{entry[0].strip()}\n{_reflow(entry[1:])}" if named else _reflow(entry)


def _split_long(text: str) -> list[str]:
    """Returns a paragraph, split into sentences (a code block: into lines) if it is too long."""
    if len(text.split()) <= MAX_WORDS:
        return [text]
    if text.startswith("    "):
        return text.split("\n")
    return re.split(r"(?<=[.!?])\s+(?=[A-Z\"“(*])|(?<=;)\s+", text)


def _is_term(chunk: Sequence[str], following: Sequence[str]) -> bool:
    """Returns whether the chunk is a signature, or another short term, that the next chunk describes."""
    return (
        _indent(following[0]) == _indent(chunk[0]) + 3
        and not following[0].strip().startswith(">>>")
        and not re.search(r"([.:;,]|\b(to|code))$", chunk[-1])
        and (len(chunk[0].split()) <= 4 or bool(re.search(r"[(\[]", chunk[0])))
    )


def _blocks(text: str) -> Iterator[_Block]:
    """Yields the pieces of a section, in order. Code is indented at least three columns more than prose."""
    left, code_left, term, term_left, lead = 0, -1, "", 0, _FREE
    chunks = [run.split("\n") for run in re.split(r"\n\s*\n", text.strip("\n")) if run]
    for chunk, following in zip_longest(chunks, chunks[1:], fillvalue=[""]):
        first, indent = chunk[0].strip(), _indent(chunk[0])
        term = term if indent > term_left else ""
        listed = code_left < 0 and _MARKER.match(chunk[0])
        deeper = indent >= (code_left if code_left >= 0 else left + 3) and not listed
        after = _FREE
        if first.startswith("+--"):
            code_left = -1
            parts = [part for row in _table(chunk) for part in _split_long(row)]
            blocks = [(part, _ITEM if n else max(lead, _SENTENCE), "\n") for n, part in enumerate(parts)]
        elif deeper or first.startswith(">>>") or any("::=" in line for line in chunk):
            base = indent if code_left < 0 else min(code_left, indent)
            code_left = base if deeper else -1
            parts = _split_long("\n".join("    " + line[base:] for line in chunk))
            blocks = [(part, _CODE, "\n" if n else "\n\n") for n, part in enumerate(parts)]
        elif _is_term(chunk, following):
            left, code_left, term, term_left = indent + 3, -1, first, indent
            blocks, after = [("\n".join(line.strip() for line in chunk), lead, "\n\n")], _TERM
        else:
            marker = _MARKER.match(chunk[-1])
            left, code_left = len(marker.group()) if marker else _indent(chunk[-1]), -1
            lead = max(lead, _SENTENCE if first.startswith(_ASIDES) else _ITEM if term else _FREE)
            blocks = []
            for number, entry in enumerate(_prose(chunk)):
                item = number > 0 or bool(_MARKER.match(entry))
                for nth, part in enumerate(_split_long(entry)):
                    price = _SENTENCE if nth else _ITEM if item else _FREE
                    joint = " " if nth else "\n" if item else "\n\n"
                    blocks.append((part, price if blocks else max(lead, price), joint))
            after = _SENTENCE if chunk[-1].endswith(":") else _FREE
            after = _TERM if first.endswith(":") and len(first.split()) < 3 else after
        yield from (_Block(*block, term) for block in blocks)
        lead = after


def _pack(blocks: Sequence[_Block]) -> Iterator[Sequence[_Block]]:
    """Yields the blocks in groups of at most `MAX_WORDS` words, near `TARGET_WORDS`, at the least cost."""
    sizes = [0, *accumulate(len(block.text.split()) for block in blocks)]
    best: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    for end in range(1, len(sizes)):
        options = []
        for start in range(end):
            words = sizes[end] - sizes[start]
            if words <= MAX_WORDS or start == end - 1:
                price = (words - TARGET_WORDS) ** 2 + (blocks[start].price if start else 0)
                options.append((best[start][0] + price, (*best[start][1], start)))
        best.append(min(options))
    for start, end in pairwise((*best[-1][1], len(blocks))):
        yield blocks[start:end]


def _slug(text: str) -> str:
    words = re.sub(r"\W+", " ", text.replace("*", " star ").casefold().replace("_", " ")).split()
    return "-".join(words[1:] if words[:1] == ["the"] and len(words) > 1 else words)[:48].strip("-")


def _name(term: str) -> str:
    """Returns a signature without its arguments; a debugger command such as `b(reak) [...]` in full."""
    name = re.sub(r"^(\w+)\((\w+)\)(?= \[)", r"\1\2", term).partition(" [")[0]
    return re.sub(r"\(.*", "()", name.removeprefix("class").removeprefix("method").strip())


def _drafts(topic: str, text: str) -> Iterator[Passage]:
    """Yields the passages of one topic; ids are counted within it, so that merging topics does not change
    them.
    """
    drafts: list[tuple[str, str, str]] = []
    for path, section in _sections(text):
        for run in _pack(list(_blocks(section))):
            terms = {block.term for block in run}
            term = _name(terms.pop()) if len(terms) == 1 else ""
            body = run[0].text + "".join(block.joint + block.text for block in run[1:])
            drafts.append((_slug(term or path[-1]), " > ".join([*path, term] if term else path), body))
    totals, counts = Counter(slug for slug, _, _ in drafts), Counter[str]()
    for slug, title, body in drafts:
        counts[slug] += 1
        yield Passage(f"{topic}/{slug}" + f"-{counts[slug]}" * (totals[slug] > 1), title, body)


@cache
def passages() -> tuple[Passage, ...]:
    """Returns the corpus, by topic and in reading order: titled passages of at most `MAX_WORDS` words.

    A passage repeated in several topics is included once, with its id in the shortest of them and its title
    in the longest. A passage contained in another one is left out.
    """
    same: dict[str, list[tuple[int, Passage]]] = {}
    for topic, text in sorted(topics.items()):
        for passage in _drafts(topic, text):
            same.setdefault(normalise(passage.text), []).append((len(text), passage))
    unique: list[Passage] = []
    everything = "\n".join(f" {words} " for words in same)
    for words, copies in same.items():
        if everything.count(f" {words} ") == 1:  # no other contains it
            shortest, longest = (choose(copies, key=lambda copy: copy[0])[1] for choose in (min, max))
            unique.append(replace(shortest, title=longest.title))
    return tuple(sorted(unique, key=lambda passage: passage.id.partition("/")[0]))


@cache
def questions() -> tuple[Question, ...]:
    """Returns all questions, in file order, with the passages that contain their evidence as gold.

    `extra` has the `kind`: `one` passage answers it, `two` are needed, or a `false_premise` makes it
    unanswerable. Raises DataError for a quote that no passage contains.
    """
    corpus = {passage.id: f" {normalise(passage.text)} " for passage in passages()}
    questions = []
    for question in read_questions(_QUESTIONS).questions:
        gold: dict[str, None] = {}
        for quote in cast(list[str], question.extra["evidence"]):
            holders = [id for id, text in corpus.items() if f" {normalise(quote)} " in text]
            if not holders:
                raise DataError(
                    str(_QUESTIONS), [f"{question.id}: Python {python_version()} never says {quote!r}"]
                )
            gold |= dict.fromkeys(holders)
        questions.append(replace(question, gold_ids=tuple(gold), extra={"kind": question.extra["kind"]}))
    return tuple(questions)
