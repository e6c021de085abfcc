"""Packs the questions of a report into its page: an index of all of them, and details in parts.

    INDEX    the columns that the table shows and searches: ids, cut texts, scores, groups; one JSON object
    PARTS    details of consecutive questions, a JSON object each: texts, traces

A small report has them as they are. In a large one each is compressed (zlib, then base64), and the page
unpacks a part when one of its questions is opened. Texts are cut, and finally details left out, so that the
whole stays under a limit.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragc.core.text import repair_surrogates
from ragc.reports.questions import MAX_DETAILED
from ragc.reports.report import Report, question_fields

SHORT = 120
"""Characters up to which a text of a question stands where it is; longer ones stand once in a table."""

MAX_PLAIN = 3 * 2**20
"""Bytes of questions that stand in a page uncompressed."""

MAX_INDEX = 32 * 2**20
"""Bytes of the index before compression: what a browser reads and searches at once."""

INDEX_SHARE = 0.5
"""The part of a page's limit that the index may take."""

PART_BYTES = 2**19
"""Bytes of details after which a new part begins, before compression."""

SAMPLED = 32
"""Questions by which the length of texts is chosen."""

CUTS = (100_000, 30_000, 10_000, 4_000, 2_000, 1_000, 500, SHORT)
"""Characters that a text of the details may have, tried in this order after whole texts."""

INDEX_CUTS: tuple[int, ...] = (1_000, 300, SHORT, 60)
"""Characters that a text of the index may have, tried in this order."""

_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
_ESCAPED = re.compile("[<>&\u2028\u2029]")

PutLine = Callable[[str], object]
"""Takes a line of the JSONL beside the page."""


@dataclass(frozen=True, slots=True)
class PackedQuestions:
    """The questions of a page.

    `index` and `parts` are JSON, or base64 if `compressed`. `starts` are the positions of the first question
    of each part. The index has `indexed` questions, the parts the first `detailed` of them. `cut` is the
    length of texts in the parts, None if all are whole; `index_cut` that in the index.
    """

    index: str
    parts: tuple[str, ...]
    starts: tuple[int, ...]
    compressed: bool
    indexed: int
    detailed: int
    cut: int | None
    index_cut: int | None


def json_in_page(value: Any) -> str:
    """Returns `value` as JSON that is safe in an HTML script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return repair_surrogates(_ESCAPED.sub(lambda match: _ESCAPES[match.group()], text))


def row_line(value: Any) -> str:
    """Returns `value` as a line of the JSONL beside the page."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False)


def pack(report: Report, put: PutLine, limit: int) -> PackedQuestions:
    """Packs the questions of `report` in at most `limit` bytes; the line of each goes to `put`, uncut.

    Raises DataError if a file of rows was changed meanwhile.
    """
    index = _Index(report)
    cut = _cut(report, limit)
    parts = _Parts(cut, limit)
    for question in report.questions:
        fields = question_fields(question)
        line = row_line(fields)
        put(line)
        index.add(fields)
        if len(index) <= MAX_DETAILED:
            parts.add(fields, len(line))
    parts.close()
    whole = index.size(INDEX_CUTS[0]) + parts.plain_bytes <= min(MAX_PLAIN, limit)
    if whole:
        return PackedQuestions(
            index.written(len(index), INDEX_CUTS[0]),
            tuple(parts.plain),
            tuple(parts.starts),
            compressed=False,
            indexed=len(index),
            detailed=min(len(index), MAX_DETAILED),
            cut=cut,
            index_cut=index.cut_at(INDEX_CUTS[0]),
        )
    packed, index_cut, indexed = index.packed(int(limit * INDEX_SHARE))
    held = parts.fitting(limit - len(packed))
    detailed = min(indexed, parts.ends[held - 1] if held else 0)
    return PackedQuestions(
        packed,
        tuple(parts.compressed[:held]),
        tuple(parts.starts[:held]),
        True,
        indexed,
        detailed,
        parts.least_cut(held),
        index_cut,
    )


def compressed(text: str) -> str:
    """Returns `text` compressed with zlib, in base64."""
    return base64.b64encode(zlib.compress(text.encode("utf-8", "replace"), 6)).decode("ascii")


class _Index:
    """The columns of the index; texts are kept up to the longest cut."""

    def __init__(self, report: Report) -> None:
        self._metrics = report.metrics
        self._texts: dict[str, list[Any]] = {"id": [], "question": [], "answers": []}
        self._runs: dict[str, dict[str, list[Any]]] = {
            name: {"prediction": [], "failure": [], "group": [], "answered": []} for name in report.runs
        }
        self._scores: dict[str, list[list[Any]]] = {name: [[] for _ in self._metrics] for name in report.runs}
        self._longest = 0
        self._short = 0
        self._long: dict[int, int] = dict.fromkeys(INDEX_CUTS, 0)

    def __len__(self) -> int:
        return len(self._texts["id"])

    def add(self, fields: Mapping[str, Any]) -> None:
        """Adds the row of a question."""
        for name, column in self._texts.items():
            column.append(self._shown(fields[name]))
        for name, columns in self._runs.items():
            answer = fields["runs"].get(name)
            columns["prediction"].append(self._shown(answer["prediction"]) if answer else None)
            columns["failure"].append(self._shown(answer["failure"]) if answer and answer["failure"] else 0)
            columns["group"].append(answer["group"] if answer else None)
            columns["answered"].append(int(answer["answered"]) if answer else None)
            scores = answer["scores"] if answer else {}
            for metric, column in zip(self._metrics, self._scores[name], strict=True):
                column.append(_rounded(scores.get(metric)))

    def _shown(self, value: Any) -> Any:
        """Returns `value` with texts up to the longest cut, counted for `size`."""
        if isinstance(value, str):
            size = len(value)
            self._longest = max(self._longest, size)
            if size <= INDEX_CUTS[-1]:
                self._short += size + 3
                return value
            for cut in INDEX_CUTS:
                self._long[cut] += min(size, cut) + 3
            return value if size <= INDEX_CUTS[0] else f"{value[: INDEX_CUTS[0]]}…"
        return [self._shown(item) for item in value] if isinstance(value, list | tuple) else value

    def cut_at(self, cut: int) -> int | None:
        """Returns `cut` where a text is longer, else None."""
        return cut if self._longest > cut else None

    def size(self, cut: int) -> int:
        """Estimates the bytes of the index with texts of at most `cut` characters."""
        values = len(self) * len(self._runs) * (len(self._metrics) + 4)
        return self._short + self._long[cut] + 5 * values

    def written(self, n: int, cut: int) -> str:
        """Returns the index of the first `n` questions as JSON."""
        return json_in_page(
            {
                "n": n,
                **{name: _cut_values(column[:n], cut) for name, column in self._texts.items()},
                "runs": {
                    run: {
                        **{name: _cut_values(column[:n], cut) for name, column in columns.items()},
                        "scores": [column[:n] for column in self._scores[run]],
                    }
                    for run, columns in self._runs.items()
                },
            }
        )

    def packed(self, limit: int) -> tuple[str, int | None, int]:
        """Returns the index packed into `limit` bytes, the length of its texts, its number of questions."""
        n, cut, text = len(self), INDEX_CUTS[-1], ""
        for cut in INDEX_CUTS:
            if self.size(cut) > MAX_INDEX and cut != INDEX_CUTS[-1]:
                continue
            n = min(n, max(1, int(n * MAX_INDEX / max(1, self.size(cut)))))
            text = compressed(self.written(n, cut))
            if len(text) <= limit:
                return text, self.cut_at(cut), n
        while len(text) > limit and n > 1:
            n = max(1, int(n * 0.9 * limit / len(text)))
            text = compressed(self.written(n, cut))
        return text, self.cut_at(cut), n


class _Parts:
    """The details, part by part: uncompressed while they may stay so, and compressed."""

    def __init__(self, cut: int | None, limit: int) -> None:
        self._cut, self._limit = cut, limit
        self._held: list[Mapping[str, Any]] = []
        self._bytes = 0
        self.plain: list[str] = []
        self.plain_bytes = 0
        self.compressed: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self._cuts: list[int | None] = []
        self._total = 0
        self._count = 0

    def add(self, fields: Mapping[str, Any], size: int) -> None:
        """Adds the details of a question whose line has `size` bytes; closes a part that is large."""
        self._count += 1
        if self._total > self._limit:
            return
        self._held.append(details(fields))
        self._bytes += size
        if self._bytes >= PART_BYTES:
            self.close()

    def close(self) -> None:
        """Writes the part that is open."""
        if not self._held:
            return
        cut = self._cut
        text = written_part(self._held, cut)
        packed = compressed(text)
        if self._total + len(packed) > self._limit and cut != SHORT:
            cut = SHORT
            packed = compressed(written_part(self._held, cut))
        self.starts.append(self._count - len(self._held))
        self.ends.append(self._count)
        self.compressed.append(packed)
        self._cuts.append(cut)
        self._total += len(packed)
        self.plain_bytes += len(text.encode("utf-8", "replace"))
        if self.plain_bytes <= MAX_PLAIN:
            self.plain.append(text)
        else:
            self.plain.clear()
        self._held, self._bytes = [], 0

    def fitting(self, limit: int) -> int:
        """Returns how many of the first parts fit into `limit` bytes."""
        total = 0
        for n, part in enumerate(self.compressed):
            total += len(part) + 60
            if total > limit:
                return n
        return len(self.compressed)

    def least_cut(self, held: int) -> int | None:
        """Returns the shortest length to which the first `held` parts cut texts; None where all are whole."""
        return min((cut for cut in self._cuts[:held] if cut is not None), default=None)


def _cut(report: Report, limit: int) -> int | None:
    """Returns the length of texts with which the details of `report` should fit beside the index."""
    n = min(len(report.questions), MAX_DETAILED)
    if not n:
        return None
    places = sorted({int(i * n / SAMPLED) for i in range(min(n, SAMPLED))}) if n > SAMPLED else range(n)
    sample = [details(question_fields(question)) for question in report.questions.select(places)]
    index = sum(_index_bytes(one) for one in sample)
    left = limit - min(int(limit * INDEX_SHARE), int(index * n / len(sample) / 3))
    longest = max(_longest(one) for one in sample)
    for cut in (None, *CUTS):
        if cut is not None and cut >= longest and n <= SAMPLED:
            continue
        packed = len(compressed(written_part(sample, cut)))
        if packed * n / len(sample) * 1.05 <= left:
            return cut
    return CUTS[-1]


def _index_bytes(one: Mapping[str, Any]) -> int:
    texts = [one["id"], one["question"], *one["answers"]]
    texts += [answer["prediction"] for answer in one["runs"].values()]
    return sum(min(len(text or ""), INDEX_CUTS[1]) + 8 for text in texts)


def _longest(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return max((_longest(item) for item in value.values()), default=0)
    return max((_longest(item) for item in value), default=0) if isinstance(value, list | tuple) else 0


def details(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what the page shows of a question that is opened."""
    runs = {
        name: {key: answer[key] for key in ("prediction", "failure", "counters", "trace")}
        for name, answer in fields["runs"].items()
    }
    return {**{key: fields[key] for key in ("id", "question", "answers", "gold_ids")}, "runs": runs}


def written_part(held: Iterable[Mapping[str, Any]], cut: int | None) -> str:
    """Returns the details of questions as JSON, each long text once."""
    texts = _Texts()
    shown = [_refer(one, texts) for one in held]
    return json_in_page({"texts": texts.shown(cut), "questions": shown})


class _Texts:
    """Long texts, each once: passages and instructions repeat from prompt to prompt."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def put(self, text: str) -> int:
        """Returns the number of `text` in the table."""
        return self._numbers.setdefault(text, len(self._numbers))

    def shown(self, cut: int | None) -> list[Any]:
        """Returns the texts in order; for a cut one a list of its beginning and its length."""
        return [
            text if cut is None or len(text) <= cut else [text[:cut], len(text)] for text in self._numbers
        ]


def _refer(value: Any, texts: _Texts) -> Any:
    """Replaces each long text in `value` by `{"$": number}`; a key `$` of its own gets a blank."""
    if isinstance(value, str):
        return value if len(value) <= SHORT else {"$": texts.put(value)}
    if isinstance(value, list | tuple):
        return [_refer(item, texts) for item in value]
    if isinstance(value, dict):
        return {f"{key} " if key == "$" else key: _refer(item, texts) for key, item in value.items()}
    return value


def _rounded(score: float | None) -> float | None:
    """Returns a score with six significant digits; whole numbers stay whole."""
    if score is None:
        return None
    rounded = float(f"{score:.6g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def _cut_values(column: Sequence[Any], cut: int) -> list[Any]:
    return list(column) if cut == INDEX_CUTS[0] else [_shortened(value, cut) for value in column]


def _shortened(value: Any, cut: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= cut else f"{value[:cut]}…"
    return [_shortened(item, cut) for item in value] if isinstance(value, list) else value
