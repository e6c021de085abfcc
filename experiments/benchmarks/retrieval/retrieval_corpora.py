"""Corpora and queries for `retrieval.py`: the real ones of a folder in one, and passages made of words."""

from __future__ import annotations

import gzip
import json
import random
import string
from pathlib import Path

import numpy as np

POOLED = (
    ("hotpotqa", "corpus.jsonl.gz", "questions_dev.jsonl"),
    ("2wikimultihopqa", "corpus.jsonl.gz", "questions_dev.jsonl"),
    ("musique", "corpus.jsonl.gz", "questions_dev.jsonl"),
    ("nq", "corpus.jsonl.gz", "questions.jsonl"),
    ("bioasq", "corpus_snippets.jsonl.gz", "questions_yesno.jsonl"),
)
WORDS = 60
"""Words of a made passage, on average."""

_VOCABULARY = 300_000
_COMMON = 100  # the most frequent words are in no query, as stop words would not be
_BLOCK = 10_000
_STRIDE = 99_999_989  # has no factor in common with 26


def pool_corpora(data: Path, out: Path, *, queries: int) -> tuple[int, list[str]]:
    """Write the corpora under `data` into one file, ids after the name of their set.

    How many passages that are, and a seeded sample of `queries` of their questions, equal parts of each set.
    """
    passages, query_texts = 0, []
    with out.open("w", encoding="utf-8") as file:
        for name, corpus, questions in POOLED:
            with gzip.open(data / name / corpus, "rt", encoding="utf-8") as rows:
                for row in map(json.loads, rows):
                    record = {"id": f"{name}/{row['id']}", "title": row["title"], "text": row["text"]}
                    file.write(json.dumps(record) + "\n")
                    passages += 1
            lines = (data / name / questions).read_text(encoding="utf-8").splitlines()
            rng = random.Random(name)
            query_texts += [
                json.loads(line)["question"] for line in rng.sample(lines, queries // len(POOLED))
            ]
    random.Random("order").shuffle(query_texts)
    return passages, query_texts


def generate_corpus(n: int, out: Path, *, queries: int, seed: int = 7) -> tuple[int, list[str]]:
    """Write `n` passages of about `WORDS` words, the word of rank r as frequent as 1 / r.

    A query is 3 to 8 words of one passage, the most frequent words of the language aside.
    """
    rng = np.random.default_rng(seed)
    vocabulary = np.array(_words(_VOCABULARY))
    shares = np.cumsum(1 / np.arange(1, _VOCABULARY + 1))
    shares /= shares[-1]
    query_texts: list[str] = []
    sources = set(rng.choice(n, min(n, 2 * queries), replace=False).tolist())
    with out.open("w", encoding="utf-8") as file:
        for start in range(0, n, _BLOCK):
            lengths = rng.integers(WORDS // 2, WORDS * 3 // 2, endpoint=True, size=min(_BLOCK, n - start))
            ranks = np.searchsorted(shares, rng.random(int(lengths.sum())))
            for at, words in enumerate(np.split(ranks, np.cumsum(lengths)[:-1]), start):
                text = vocabulary[words].tolist()
                row = {"id": f"g{at}", "title": " ".join(text[:3]), "text": " ".join(text[3:])}
                file.write(json.dumps(row) + "\n")
                rare = words[words >= _COMMON]
                if at in sources and len(query_texts) < queries and len(rare) >= 8:
                    query_texts.append(
                        " ".join(vocabulary[rng.choice(rare, rng.integers(3, 9), replace=False)])
                    )
    return n, query_texts


def _words(n: int) -> list[str]:
    """`n` different words of six letters."""
    letters = string.ascii_lowercase
    numbers = (at * _STRIDE % 26**6 for at in range(n))
    return ["".join(letters[number // 26**digit % 26] for digit in range(6)) for number in numbers]
