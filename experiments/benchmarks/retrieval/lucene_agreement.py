"""The share of questions for which Lucene and our own BM25 agree on the first passages, ties apart.

    python experiments/benchmarks/retrieval/lucene_agreement.py CORPUS QUESTIONS
        [--k 10] [--analyzer ragc] [--home FOLDER]

Two rankings agree when, rank by rank, our own BM25 gives both passages the same score within one part in
100,000: Lucene's scores have 32 bits. Prints one line for the setting and, for the analyzer that should
agree, one for each question that differs.
"""

from __future__ import annotations

import argparse
import asyncio
import math
from pathlib import Path

from ragc.corpora.files.records import read_corpus, read_questions
from ragc.corpora.sources.bm25.source import Bm25Source
from ragc.corpora.sources.lucene.index import ANALYZERS
from ragc.corpora.sources.lucene.source import LuceneSource

TIE = 1e-5


async def differing_queries(ours: Bm25Source, theirs: LuceneSource, queries: list[str], k: int) -> list[str]:
    """The queries whose first `k` passages differ by more than ties."""
    out = []
    for query in queries:
        ranked = await ours.search(query, len(ours.passages))
        scores = {hit.passage.id: hit.score for hit in ranked}
        best = [scores.get(hit.passage.id, 0.0) for hit in await theirs.search(query, k)]
        ranked_scores = [hit.score for hit in ranked[:k]]
        same = len(best) == len(ranked_scores) and all(
            math.isclose(a, b, rel_tol=TIE) for a, b in zip(best, ranked_scores, strict=True)
        )
        if not same:
            out.append(query)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--analyzer", choices=ANALYZERS, default=ANALYZERS[0])
    parser.add_argument("--home", type=Path)
    args = parser.parse_args()
    passages = read_corpus(args.corpus)
    queries = [question.question for question in read_questions(args.questions)]
    theirs = LuceneSource(passages, analyzer=args.analyzer, home=args.home)
    differ = asyncio.run(differing_queries(Bm25Source(passages), theirs, queries, args.k))
    share = 1 - len(differ) / len(queries)
    print(f"{args.analyzer}: {share:.2%} of {len(queries)} questions agree on the first {args.k}")
    for query in differ if args.analyzer == ANALYZERS[0] else []:
        print(f"  differs: {query}")


if __name__ == "__main__":
    main()
