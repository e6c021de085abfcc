"""How long it takes to look 1,000 questions up in a ledger of uses, and how large it is.

    python -m experiments.benchmarks.splits.uses [--questions 1000000] [--searches 1000]

The ledger holds `--questions` questions in the dev sets of `--searches` searches. Printed are the seconds of
processor time of writing it (once), of opening it, of looking up 1,000 questions, half of them known, and of
appending a use.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tempfile
import time

from ragc.store import uses
from ragc.store.question_marks import DIGITS
from ragc.store.uses import QuestionIndex, QuestionSet, Use

SOUGHT = 1000


def question_set(first: int, count: int) -> QuestionSet:
    """A set of so many questions; of the first of all there are texts, the others are marks alone."""
    known = QuestionSet.of(
        f"what is thing {number}" for number in range(first, min(first + count, SOUGHT // 2))
    )
    rest = count - known.n
    marks = sorted(hashlib.sha256(f"{first} {n}".encode()).hexdigest()[:DIGITS] for n in range(rest))
    return QuestionSet(f"{first:032x}", count, known.marks + "".join(marks))


def main() -> None:
    """Prints the seconds of each step."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--questions", type=int, default=1_000_000)
    parser.add_argument("--searches", type=int, default=1_000)
    args = parser.parse_args()
    each = args.questions // args.searches
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RAGC_HOME"] = folder
        started = time.process_time()
        with uses.opened() as ledger:
            ledger.append(
                Use("dev", "compile", question_set(n * each, each), f"recipe {n}")
                for n in range(args.searches)
            )
        written = time.process_time()
        content = uses.read(uses.ledger_file())
        opened = time.process_time()
        index = QuestionIndex([f"Q: What is thing {number}?" for number in range(SOUGHT)])
        indexed = time.process_time()
        hits = frozenset[int]().union(*(index.positions_of(use.questions) for use in content.searched))
        sought = time.process_time()
        with uses.opened() as ledger:
            ledger.append([Use("dev", "compile", index.questions, "another")])
        appended = time.process_time()
        size = uses.ledger_file().stat().st_size
    print(
        f"{args.questions:,} questions of {args.searches:,} searches, {size / 2**20:.1f} MiB: written in "
        f"{written - started:.2f} s, opened in {opened - written:.2f} s, {SOUGHT:,} questions normalised in "
        f"{indexed - opened:.2f} s and looked up in {sought - indexed:.2f} s ({len(hits)} known), "
        f"a use appended (reading included) in {appended - sought:.2f} s of processor time"
    )


if __name__ == "__main__":
    main()
