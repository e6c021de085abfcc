"""Whether questions that `ragc new` wrote order retrievers as people's questions do, over the same passages.

    python -m experiments.benchmarks.retrieval.written_order PROJECT CORPUS QUESTIONS [--passages N]

PROJECT is the folder of `ragc new`, whose documents are passages of CORPUS (JSONL with `id`, `title`, `text`;
they are matched by title). QUESTIONS are people's, with `gold_ids` in it. The passages are those documents,
the gold passages of people's questions, and others up to N. Prints recall of the gold passages among the
first 5 and the mean reciprocal rank of the first one, for bm25, dense (all-MiniLM-L6-v2) and hybrid, with 95%
intervals, and the paired differences from bm25.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ragc
from ragc.core import event_loop
from ragc.metrics.stats.intervals import mean_ci, paired

SYSTEMS = ("bm25", "dense", "hybrid")
DEPTH, FIRST = 20, 5


@dataclass(frozen=True)
class Asked:
    """A question and the ids of its gold passages."""

    question: str
    gold: frozenset[str]


def rows(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a JSONL file, which may be compressed."""
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def written(project: Path, by_title: dict[str, str]) -> list[Asked]:
    """Returns the kept questions about single passages whose title stands in the corpus."""
    titles = {row["id"]: row["title"] for row in rows(project / "corpus.jsonl")}
    questions = []
    for row in rows(project / "questions.jsonl"):
        gold = {by_title.get(titles.get(one, ""), "") for one in row["passages"]} - {""}
        if row["kind"] == "single" and gold:
            questions.append(Asked(row["question"], frozenset(gold)))
    return questions


def scores(source: Any, questions: Sequence[Asked]) -> tuple[list[float], list[float]]:
    """Returns recall among the first and the reciprocal rank, by question."""

    async def search() -> list[list[str]]:
        ranked = []
        for one in questions:
            hits = await source.search(one.question, DEPTH)
            ranked.append(list(dict.fromkeys(hit.passage.parent for hit in hits)))
        return ranked

    recall, ranks = [], []
    for one, ranked in zip(questions, event_loop.run(search()), strict=True):
        recall.append(len(one.gold.intersection(ranked[:FIRST])) / len(one.gold))
        rank = next((at for at, name in enumerate(ranked, start=1) if name in one.gold), 0)
        ranks.append(1 / rank if rank else 0.0)
    return recall, ranks


def main() -> None:
    """Prints a table for people's questions and one for written ones."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("project", type=Path)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--passages", type=int, default=3000)
    args = parser.parse_args()
    corpus = rows(args.corpus)
    by_title = {row["title"]: row["id"] for row in corpus}
    sets = {
        "people's": [Asked(row["question"], frozenset(row["gold_ids"])) for row in rows(args.questions)],
        "written": written(args.project, by_title),
    }
    needed = {one for questions in sets.values() for question in questions for one in question.gold}
    passages = sorted(corpus, key=lambda row: row["id"] not in needed)[: max(len(needed), args.passages)]
    passages = [{name: row[name] for name in ("id", "title", "text")} for row in passages]
    print(f"{len(passages)} passages")
    for name, questions in sets.items():
        print(f"\n{name} questions ({len(questions)}): recall@{FIRST}, MRR, difference of recall from bm25")
        first: list[float] = []
        for system in SYSTEMS:
            recall, ranks = scores(ragc.source(system, corpus=passages, store=False), questions)
            cells = [mean_ci(column, seed=0) for column in (recall, ranks)]
            text = "  ".join(f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in cells)
            gap = paired(first, recall, seed=0) if first else None
            more = f"  {gap.diff:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]" if gap else ""
            print(f"{system:<8} {text}{more}", flush=True)
            first = first or recall


if __name__ == "__main__":
    main()
