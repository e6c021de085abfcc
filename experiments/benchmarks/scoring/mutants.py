"""Mutants of the five methods, of the reader of replies or of folders: which small faults do the tests miss?

    python -m venv ENV && ENV/bin/pip install cosmic-ray==8.7.0    # not into ragc's own environment
    cp -a CHECKOUT COPY                                            # whose .venv imports ragc from COPY/src
    ENV/bin/python experiments/benchmarks/scoring/mutants.py COPY --seed 11 --count 60 --out mutants.jsonl

With `--folders corpora/files src/ragc/store` mutants of these are made instead, `--count` of each, and only
the tests of the same folder run.

Every place that one of cosmic-ray's operators can change is listed, annotations aside, and `--count` of them
are drawn. Those whose mutant is the same text, does not compile, or compiles with a warning, which the tests
would take for an error, are passed over. No operator changes a text, so docstrings and prompts stay as they
are. Each mutant is written into COPY and the tests run, the most specific first, until one fails; a test
fails too that takes over 60 s. Results are appended to `--out` as they come, and a second start
goes on where the first one ended. `killed` is the test that failed, None where all passed.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import random
import re
import shutil
import subprocess
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

METHODS = ("ggatrieval", "prefrag", "ragx", "rqrag", "slimplm")
READER = ("layouts.py", "replies.py", "reading/*.py")


@dataclass(frozen=True, order=True)
class Mutation:
    """The place `occurrence`, from 0, where an `operator` of cosmic-ray changes a file of the checkout."""

    path: str
    operator: str
    occurrence: int

    @property
    def part(self) -> str:
        """The method that the file belongs to, the reader, or the folder."""
        if not self.path.startswith("programs/"):
            return str(Path(self.path).parent)
        return "reader" if "/calls/" in self.path else Path(self.path).parts[1]

    @property
    def stages(self) -> list[list[str]]:
        """What pytest runs, one list after the other; the pages of a method hold what its knobs declare."""
        if self.part == "reader":
            return [["tests/programs/calls"], ["tests/exports/formats/python"], ["tests/programs"]]
        if not self.path.startswith("programs/"):
            return [[f"tests/{self.part.removeprefix('src/ragc/')}"]]
        own, pages = f"tests/programs/{self.part}", ["tests/test_docs.py", "-k", "generated_pages"]
        return [[own], ["tests/programs", "-k", self.part], pages, ["tests/programs"]]


def list_mutations(root: Path, folder: str | None = None) -> list[Mutation]:
    """Returns all places in the methods and the reader, or in `folder`, that an operator changes.

    They are sorted; annotations are left out.
    """
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    listed = []
    if folder is None:
        files = [path for name in METHODS for path in (root / "programs" / name).glob("*.py")]
        files += [file for name in READER for file in sorted((root / "programs" / "calls").glob(name))]
    else:
        files = sorted((root / folder).glob("*.py"))
    for file in files:
        nodes = list(ast_nodes(get_ast(file.read_text("utf-8"))))
        for name in operator_names():
            if not get_operator(name).arguments():  # others change variables that are named by hand
                places = [node for node in nodes for _ in get_operator(name)().mutation_positions(node)]
                positions = [at for at, node in enumerate(places) if not _in_annotation(node)]
                listed += [Mutation(str(file.relative_to(root)), name, at) for at in positions]
    return sorted(listed)


def _in_annotation(node: Any) -> bool:
    """Whether a node of parso's tree is, or stands in, the annotation of a variable or a function."""
    while (parent := node.parent) is not None:
        at = {"annassign": 1, "tfpdef": 2}.get(parent.type)
        of_function = parent.type == "funcdef" and parent.annotation is node
        if of_function or (at is not None and parent.children[at] is node):
            return True
        node = parent
    return False


def mutate(source: str, mutation: Mutation) -> str | None:
    """The text of the mutant; None where it is passed over."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    try:
        text: str = mutate_code(source, get_operator(mutation.operator)(), mutation.occurrence) or source
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compile(text, mutation.path, "exec", dont_inherit=True)
    except (SyntaxError, AttributeError):  # the second is cosmic-ray's own, at `except module.Error`
        return None
    return None if text == source else text


def first_failure(root: Path, mutation: Mutation) -> str | None:
    """The first test of `root` that fails, or how else a run ended; None where all tests pass."""
    python = ["timeout", "1800", ".venv/bin/python", "-m"]
    pytest = [*python, "pytest", "-xq", "-pno:cacheprovider", "--timeout=60"]
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    for stage in mutation.stages:
        shutil.rmtree(root / ".hypothesis", ignore_errors=True)  # examples that another mutant left
        run = subprocess.run([*pytest, *stage], check=False, cwd=root, env=environ, capture_output=True)
        if run.returncode != 0:
            failed = re.search(rb"^(?:FAILED|ERROR) (.*?)(?: - |$)", run.stdout, re.MULTILINE)
            return failed[1].decode() if failed else f"exit {run.returncode}"
    return None


def main() -> None:
    """Draw, run, and count what was killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("copy", type=Path)
    for name, default in (("--seed", 11), ("--count", 60)):
        parser.add_argument(name, type=int, default=default)
    parser.add_argument("--out", type=Path, default=Path("mutants.jsonl"))
    parser.add_argument("--folders", nargs="+", metavar="FOLDER")
    args = parser.parse_args()
    args.out.touch()
    for folder in args.folders or [None]:
        run_sample(args.copy, list_mutations(args.copy, folder), args.seed, args.count, args.out, folder)
    rows = [json.loads(line) for line in args.out.read_text("utf-8").splitlines()]
    killed_by_part = Counter(row["part"] for row in rows if row["killed"])
    for part, count in sorted(Counter(row["part"] for row in rows).items()):
        print(f"{part}: {killed_by_part[part]} of {count} killed")


def run_sample(
    root: Path, listed: list[Mutation], seed: int, count: int, out: Path, folder: str | None
) -> None:
    """Runs the tests on `count` mutants drawn of `listed` but for those in `out`, to which it appends."""
    print(f"{len(listed):,} places: {dict(Counter(one.part for one in listed))}", flush=True)
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    done, drawn = sum(folder is None or row["part"] == folder for row in rows), 0
    for mutation in random.Random(seed).sample(listed, len(listed)):
        file = root / mutation.path
        source = file.read_text("utf-8")
        text = mutate(source, mutation) if drawn < count else None
        drawn += text is not None
        if text is None or drawn <= done:
            continue
        try:
            file.write_text(text, "utf-8")
            killed = first_failure(root, mutation)
        finally:
            file.write_text(source, "utf-8")
        lines = difflib.unified_diff(source.splitlines(), text.splitlines(), n=0, lineterm="")
        row = {**vars(mutation), "part": mutation.part, "change": list(lines)[2:], "killed": killed}
        with out.open("a", encoding="utf-8") as file_of_rows:
            file_of_rows.write(json.dumps(row) + "\n")
        print(drawn, *row["change"], killed or "SURVIVED", sep="\n  ", flush=True)


if __name__ == "__main__":
    main()
