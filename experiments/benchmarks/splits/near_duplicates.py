"""How often two different questions are taken for near duplicates, and which respellings are noticed.

    python -m experiments.benchmarks.splits.near_duplicates NAME=QUESTIONS.jsonl [...]

Each file has a question a line, all of them different ones, so that each near duplicate among them is a false
match, but for real repetitions; those found are printed. The respellings are made here: one or two characters
changed, left out, doubled or swapped, and one word left out.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

from ragc.corpora.files.near_duplicates import near_duplicates
from ragc.corpora.files.splits import normalise
from ragc.records import Question
from ragc.store.question_marks import mark

FOLDS = 10

SHOWN = 5
"""The most false matches that are printed."""


def read(path: Path) -> list[Question]:
    """The questions of a file; of those with the same marks the first."""
    lines = path.read_text("utf-8").splitlines()
    texts = {mark(text): text for line in lines if line.strip() for text in [json.loads(line)["question"]]}
    return [Question(str(number), text, ()) for number, text in enumerate(texts.values())]


def false_matches(questions: list[Question]) -> dict[str, str]:
    """The near duplicate of each question, a tenth of them at a time, among the other nine tenths."""
    matches: dict[str, str] = {}
    for fold in range(FOLDS):
        others = [question for number, question in enumerate(questions) if number % FOLDS != fold]
        matches |= near_duplicates(questions[fold::FOLDS], others)
    return matches


def misspelt(text: str, errors: int, rng: random.Random) -> str:
    """`text` with so many typing errors."""
    for _ in range(errors):
        at = rng.randrange(1, len(text) - 1)
        letter = rng.choice("abcdefghijklmnopqrstuvwxyz")
        swapped = text[: at - 1] + text[at] + text[at - 1] + text[at + 1 :]
        text = rng.choice(
            [
                text[:at] + letter + text[at + 1 :],
                text[:at] + text[at + 1 :],
                text[:at] + letter + text[at:],
                swapped,
            ]
        )
    return text


def shortened(text: str, rng: random.Random) -> str:
    """`text` without one of its words."""
    words = text.split()
    del words[rng.randrange(len(words))]
    return " ".join(words)


def share_noticed(questions: list[Question], respelled: list[str]) -> float:
    """The share of respellings that are the same question, or a near duplicate of it."""
    noticed = 0
    for question, text in zip(questions, respelled, strict=True):
        same = normalise(text) == normalise(question.question)
        noticed += same or bool(near_duplicates([Question("x", text, ())], [question]))
    return noticed / len(questions)


def main() -> None:
    """Prints a row a data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="NAME=FILE")
    rng = random.Random(0)
    for entry in parser.parse_args().files:
        name, _, path = entry.partition("=")
        questions = read(Path(path))
        started = time.process_time()
        matches = false_matches(questions)
        seconds = time.process_time() - started
        texts = [question.question for question in questions]
        shares = [
            share_noticed(questions, [misspelt(text, errors, rng) for text in texts]) for errors in (1, 2)
        ]
        shares.append(share_noticed(questions, [shortened(text, rng) for text in texts]))
        print(
            f"{name}: {len(questions)} questions, {len(matches) / len(questions):.2%} with a false match; "
            f"noticed with one error {shares[0]:.1%}, two {shares[1]:.1%}, a word less {shares[2]:.1%}; "
            f"{seconds:.1f} s of processor time"
        )
        for one, other in list(matches.items())[:SHOWN]:
            print(f"    {texts[int(one)]!r} like {texts[int(other)]!r}")


if __name__ == "__main__":
    main()
