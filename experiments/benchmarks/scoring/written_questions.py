"""How good the questions of `ragc new` are, by people who do not know which ones its checks rejected.

    python -m experiments.benchmarks.scoring.written_questions blind PROJECT OUT [--kept 100] [--rejected 60]
    python -m experiments.benchmarks.scoring.written_questions count OUT READINGS READINGS

`blind` draws questions of the folder PROJECT that `ragc new` wrote, kept and rejected ones, of single
passages and unanswerable ones, and writes OUT/questions.jsonl, shuffled and unmarked, and OUT-key.jsonl
beside it, and CRITERIA.md for the readers. `count` prints the share of good ones by kind, kept and rejected,
as each of two readers (`{"id", "good"}` a line) and both judged, and Cohen's kappa of the two.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ragc.metrics.stats.agreement import JudgedAnswer, agreement
from ragc.metrics.stats.intervals import mean_ci

KINDS = ("single", "unanswerable")
SEED = 30
CRITERIA = """\
# When is a written question good?

Each line of questions.jsonl has a passage, a question about it, and an answer. A good question would be of
use in a test set for a system that searches these passages. Judge by reading, each by itself.

With an answer, it is good if all of these hold:
1. Somebody who has not seen the passage understands what is asked and of whom or what.
2. The passage answers it, and the answer given is right: not of a neighbouring fact, and of what is asked
   (a year for "in which year"). Further words that do no harm, such as a unit, are fine.
3. The question has one right answer in the passage, and asks for one thing.
4. It does not say its own answer, and says nothing that the passage contradicts.
5. Its English may be clumsy, but not so that the sense is lost. The answer may be short or long.

With `answer` null the passages should leave it open. It is good if all of these hold:
1. Somebody who has not seen the passage understands what is asked and of whom or what.
2. The passage does not say or clearly imply the answer.
3. The question makes sense for its subject, and assumes nothing that the passage contradicts or that is
   unlikely to be so: what it asks for could be known.
4. Its English may be clumsy, but not so that the sense is lost.
"""


def read(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a JSONL file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes rows as JSONL."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


def key_of(out: Path) -> Path:
    """Returns the path of the key, which readers do not see."""
    return out.with_name(f"{out.name}-key.jsonl")


def blind(project: Path, out: Path, passing: int, rejected: int) -> None:
    """Draws and writes the questions for readers."""
    draw = random.Random(SEED)
    passages = {row["id"]: row for row in read(project / "corpus.jsonl")}
    files = {True: (project / "questions.jsonl", passing), False: (project / "set_aside.jsonl", rejected)}
    chosen: list[tuple[bool, dict[str, Any]]] = []
    for passed, (path, most) in files.items():
        rows = [row for row in read(path) if row["kind"] in KINDS and row.get("question")]
        chosen += [(passed, row) for row in draw.sample(rows, min(most, len(rows)))]
    draw.shuffle(chosen)
    shown, key = [], []
    for number, (passed, row) in enumerate(chosen):
        passage = passages[next(iter(row["passages"]))]
        open_question = row["kind"] == "unanswerable"
        shown.append(
            {
                "id": f"b{number:03}",
                "passage": f"{passage['title']}\n{passage['text']}",
                "question": row["question"],
                "answer": None if open_question else row["answers"][0],
            }
        )
        key.append({"id": f"b{number:03}", "kept": passed, "kind": row["kind"], "reason": row.get("reason")})
    out.mkdir(parents=True, exist_ok=True)
    write(out / "questions.jsonl", shown)
    (out / "CRITERIA.md").write_text(CRITERIA, "utf-8")
    write(key_of(out), key)
    print(
        f"{sum(passed for passed, _ in chosen)} kept and {sum(not passed for passed, _ in chosen)} rejected"
    )


def count(out: Path, readings: list[Path]) -> None:
    """Prints the share of good questions, and how far the readers agree."""
    key = {row["id"]: row for row in read(key_of(out))}
    verdicts = [{row["id"]: bool(row["good"]) for row in read(path)} for path in readings]
    both = sorted(set(key).intersection(*verdicts))
    print(f"{len(both)} of {len(key)} questions read by both")
    print(f"{'questions':<24} {'n':>4} {'reader A':>22} {'reader B':>22} {'both say good':>22}")
    for kind in (*KINDS, "all"):
        for passed in (True, False):
            ids = [one for one in both if key[one]["kept"] == passed and kind in (key[one]["kind"], "all")]
            if not ids:
                continue
            columns = [[held[one] for one in ids] for held in verdicts]
            columns.append([all(held[one] for held in verdicts) for one in ids])
            shares = [mean_ci([float(good) for good in column], seed=SEED) for column in columns]
            cells = " ".join(
                f"{share.mean:.2f} [{share.low:.2f}, {share.high:.2f}]".rjust(22) for share in shares
            )
            print(f"{kind + (', kept' if passed else ', rejected'):<24} {len(ids):4} {cells}")
    pairs = [JudgedAnswer(verdicts[0][one], verdicts[1][one]) for one in both]
    kappa = agreement(pairs, seed=SEED).kappa
    shown = "undefined" if kappa is None else f"{kappa.mean:.2f} [{kappa.low:.2f}, {kappa.high:.2f}]"
    print(f"kappa of the readers: {shown}")


def main() -> None:
    """Runs one of the two commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("blind")
    one.add_argument("project", type=Path)
    one.add_argument("out", type=Path)
    one.add_argument("--kept", type=int, default=100)
    one.add_argument("--rejected", type=int, default=60)
    other = commands.add_parser("count")
    other.add_argument("out", type=Path)
    other.add_argument("readings", type=Path, nargs=2)
    args = parser.parse_args()
    if args.command == "blind":
        blind(args.project, args.out, args.kept, args.rejected)
    else:
        count(args.out, args.readings)


if __name__ == "__main__":
    main()
