"""How long the metrics of short answers take: CPU seconds for many questions, one metric at a time.

    python experiments/benchmarks/scoring/metrics.py [--questions 100000]

Questions are made with a seed: predictions and golds of one to six words, one to four golds each. Prints one
Markdown row a metric.
"""

from __future__ import annotations

import argparse
import platform
import random
import time

from ragc import metrics
from ragc.metrics import short_answer

WORDS = [
    "the",
    "a",
    "of",
    "red",
    "blue",
    "Paris",
    "1998",
    "U.S.",
    "river-bank",
    "Ada",
    "Lovelace",
    "(born)",
    "yes",
    "no",
    "twenty-one",
    "café",
]


def build_outcomes(n: int) -> list[metrics.Outcome]:
    """`n` outcomes, the same each time."""
    pick = random.Random(7)

    def text() -> str:
        return " ".join(pick.choices(WORDS, k=pick.randint(1, 6)))

    return [metrics.Outcome(text(), tuple(text() for _ in range(pick.randint(1, 4)))) for _ in range(n)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--questions", type=int, default=100_000)
    args = parser.parse_args()
    outcomes = build_outcomes(args.questions)
    print(f"{args.questions:,} questions, Python {platform.python_version()}, {platform.machine()}\n")
    print("| metric | CPU seconds | mean |\n| --- | --- | --- |")
    for metric in short_answer.METRICS:
        begun = time.process_time()
        scores = [metric.score(outcome) or 0.0 for outcome in outcomes]
        seconds = time.process_time() - begun
        print(f"| {metric.id} | {seconds:.2f} | {sum(scores) / len(scores):.3f} |")


if __name__ == "__main__":
    main()
