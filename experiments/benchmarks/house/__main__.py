"""Prints the counts of `experiments.benchmarks.house`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import Any

from experiments.benchmarks.house import warm
from experiments.benchmarks.house.pairs import two_way_pairs
from experiments.benchmarks.house.size import LONGEST_FILE, LONGEST_FUNCTION, PRODUCT, size_of

OPTIMIZERS = "ragc.optimizers"


def measure() -> dict[str, Any]:
    """All counts, as JSON values."""
    paths = warm.measure()
    return {
        "product": asdict(size_of(PRODUCT)),
        "tests": asdict(size_of(["tests"])),
        "two_way_pairs": two_way_pairs(),
        "warm_question": paths.warm_question,
        "ask_modules": paths.modules,
        "ask_modules_of_optimizers": paths.modules_of(OPTIMIZERS),
        "each_question": paths.compiled.each_question,
        "whole_eval": paths.compiled.whole_command,
    }


def lines(counts: dict[str, Any]) -> list[str]:
    """The counts for people, one a line."""
    rows = []
    for part in ("product", "tests"):
        size = counts[part]
        rows += [
            f"{size['lines']:7,} lines of {part}, {size['statements']:,} statements, {size['files']:,} files",
            f"{len(size['long_functions']):7,} functions of {part} over {LONGEST_FUNCTION} lines",
            f"{len(size['long_files']):7,} files of {part} over {LONGEST_FILE} lines",
            f"{len(size['shared_names']):7,} names of {part} that two classes have",
        ]
    texts = {
        "two_way_pairs": "pairs of parts of optimizers/ that import each other",
        "warm_question": "files that run for a warm question",
        "ask_modules": "modules that a warm ragc ask imports",
        "ask_modules_of_optimizers": "of them of optimizers/",
        "each_question": "files with calls that a question of ragc eval passes",
        "whole_eval": "files that a whole ragc eval runs",
    }
    return [*rows, *(f"{len(counts[name]):7,} {text}" for name, text in texts.items())]


def main() -> None:
    parser = argparse.ArgumentParser(description="Count how easy the code is to live in.")
    parser.add_argument("--json", action="store_true", help="the names too, as JSON")
    arguments = parser.parse_args()
    counts = measure()
    print(json.dumps(counts, indent=2) if arguments.json else "\n".join(lines(counts)))


if __name__ == "__main__":
    main()
