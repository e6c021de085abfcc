"""How many files of ragc a question and a trial pass through: vanilla RAG on BM25, on a scripted target.

    PYTHONPATH=src python -m experiments.benchmarks.serving.path_length [--count]

A file counts when one of its functions runs. What runs because a module is being imported does not count, and
comprehensions are no functions: Python 3.12 inlines most. Each command runs in a process of its own, under
`sys.setprofile` in all its threads. For `ragc eval` of a compiled program and of a recipe it prints the files

    each question   whose calls grow with each further question: from 3 to 4 and from 4 to 5
    whole command   in which any function runs, with 5 questions

and for `ragc compile` those

    each trial      from the result of the trial before, as Optuna gets it, to the first question

`--count` prints the numbers alone.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = [ROOT / name for name in ("src/ragc", "corpora", "optimizers", "programs", "signatures")]
COMPREHENSIONS = ("<dictcomp>", "<genexpr>", "<listcomp>", "<setcomp>")
RESULT, QUESTION = "a trial's result", "a question"
QUESTIONS = (3, 4, 5)
RECIPE = """
program = "vanilla"
concurrency = 1
[search]
knobs = ["top_k", "query_pos"]
trials = 3
batch = 1
objectives = ["em"]
[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
dev = 5
test = 5
[sources.local]
kind = "bm25"
[targets.main]
kind = "embedded"
[metrics]
report = ["em", "f1", "recall@5"]
"""


@dataclass(frozen=True)
class PathLength:
    """The files of ragc, from the root of the repository, that functions run in."""

    each_question: tuple[str, ...]
    whole_command: tuple[str, ...]


@dataclass
class CallCounts:
    """Calls of functions of ragc by file, and the files that run between two trials."""

    calls: Counter[str] = field(default_factory=Counter)
    before_trial: set[str] = field(default_factory=set)
    _files: dict[CodeType, str] = field(default_factory=dict)
    _since_result: set[str] | None = None
    _before_question: set[str] = field(default_factory=set)

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """As `sys.setprofile` asks for."""
        if event != "call":
            return
        file = self._file_of(frame.f_code)
        if file == RESULT:
            # What came before is a trial; after the last result comes no trial but the test split.
            self.before_trial, self._before_question = self._before_question or self.before_trial, set()
            self._since_result = set()
        elif file == QUESTION:
            if self._since_result is not None:
                self._before_question, self._since_result = self._since_result, None
        elif file and frame.f_code.co_name not in COMPREHENSIONS and not self._is_import(frame):
            self.calls[file] += 1
            if self._since_result is not None:
                self._since_result.add(file)

    def _file_of(self, code: CodeType) -> str:
        """The file of ragc that `code` is written in, RESULT, QUESTION, or "" for the code of others."""
        if code not in self._files:
            self._files[code] = where(code)
        return self._files[code]

    def _is_import(self, frame: FrameType) -> bool:
        """Whether `frame` runs because a module of ragc is being imported."""
        above: FrameType | None = frame
        while above is not None:
            if above.f_code.co_name == "<module>" and self._file_of(above.f_code):
                return True
            above = above.f_back
        return False


def where(code: CodeType) -> str:
    """The file of ragc that `code` is written in, RESULT, QUESTION, or "" for the code of others."""
    if code.co_name == "tell" and code.co_filename.endswith("optuna/study/study.py"):
        return RESULT
    if code.co_name == "acall" and code.co_filename.endswith("dspy/primitives/module.py"):
        return QUESTION
    path = Path(code.co_filename).resolve()
    return path.relative_to(ROOT).as_posix() if any(map(path.is_relative_to, PACKAGE)) else ""


def scripted_targets() -> None:
    """Replaces targets of the kind `embedded` by scripted ones in this process."""
    from ragc.targets import embedded
    from ragc.testing import ScriptedTarget

    kind = embedded.KIND
    embedded.KIND = replace(kind, build=lambda spec: ScriptedTarget(lambda request: {"answer": "red"}))


@contextmanager
def counted() -> Iterator[CallCounts]:
    """Counts the calls in all threads that start within the context, and in this one."""
    counts = CallCounts()
    threading.setprofile(counts.profile)
    sys.setprofile(counts.profile)
    try:
        yield counts
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def run_command(arguments: Sequence[str]) -> CallCounts:
    """Run one command of ragc in this process, on a scripted target."""
    scripted_targets()
    with counted() as counts:
        from ragc.cli.main import main

        status = main(arguments)
    if status:
        raise SystemExit(status)
    return counts


class RunPython(Protocol):
    """Runs `python COMMAND` in a process of its own."""

    def __call__(
        self, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """What it wrote, and its status."""
        ...


def run_python(
    command: Sequence[str], *, cwd: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """As `RunPython`, by this interpreter."""
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


def in_process(run: RunPython, folder: Path, home: str, module: str, *arguments: str) -> Mapping[str, Any]:
    """What `python -m module --run RESULT ARGUMENTS` leaves in RESULT, with its caches in `home`."""
    result = folder / "counts.json"
    command = ["-m", module, "--run", str(result), *arguments]
    paths = {"RAGC_HOME": str(folder / home), "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    done = run(command, cwd=folder, environment=os.environ | paths)
    if done.returncode:
        raise RuntimeError(f"ragc {' '.join(arguments)} failed: {done.stdout}{done.stderr}")
    counts: Mapping[str, Any] = json.loads(result.read_text("utf-8"))
    return counts


def profiled(run: RunPython, folder: Path, home: str, *arguments: str) -> Mapping[str, Any]:
    """What `run_command` counts in a process of its own, with its caches in `home`."""
    return in_process(run, folder, home, "experiments.benchmarks.serving.path_length", *arguments)


def write_data(folder: Path) -> None:
    """A corpus and questions about it, and a recipe."""
    passages = [{"id": f"d{i}", "title": f"Thing {i}", "text": f"Thing number{i} is red."} for i in range(30)]
    questions = [
        {
            "id": f"q{i}",
            "question": f"What colour is thing number{i}?",
            "answers": ["red"],
            "gold_ids": [f"d{i}"],
        }
        for i in range(30)
    ]
    for name, rows in (("corpus", passages), ("questions", questions)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, "utf-8")
    (folder / "recipe.toml").write_text(RECIPE, "utf-8")


def evaluated(run: RunPython, folder: Path, program: str, homes: Sequence[str]) -> PathLength:
    """The path of `ragc eval` over `program`; `homes` are the caches for each number of questions.

    The questions are those of train, which no compile has sent: nothing is replayed.
    """
    counts = [
        profiled(run, folder, home, "eval", program, "--split", "train", "--set", f"data.train={questions}")[
            "calls"
        ]
        for questions, home in zip(QUESTIONS, homes, strict=True)
    ]
    growing = [
        path
        for path in counts[-1]
        if all(more.get(path, 0) > fewer.get(path, 0) for fewer, more in pairwise(counts))
    ]
    return PathLength(tuple(sorted(growing)), tuple(sorted(counts[-1])))


def compile_in(run: RunPython, folder: Path) -> Mapping[str, Any]:
    """Compiles a recipe in `folder`, with its caches in `home` there; what the compile counted."""
    write_data(folder)
    return profiled(run, folder, "home", "compile", "recipe.toml", "--out", "compiled")


def evaluated_compiled(run: RunPython, folder: Path) -> PathLength:
    """The path of `ragc eval` over the program that `compile_in` leaves in `folder`."""
    copies = [f"home{questions}" for questions in QUESTIONS]
    for copy in copies:  # they know the compiled program as this user's, and hold no reply to train
        shutil.copytree(folder / "home", folder / copy)
    return evaluated(run, folder, "compiled", copies)


def measure(run: RunPython = run_python) -> tuple[PathLength, PathLength, tuple[str, ...]]:
    """The path through `ragc eval` of a compiled program, of a recipe, and the files of a trial."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        study = compile_in(run, folder)
        compiled = evaluated_compiled(run, folder)
        recipe = evaluated(run, folder, "recipe.toml", [f"new{questions}" for questions in QUESTIONS])
        return compiled, recipe, tuple(study["before_trial"])


def show(title: str, files: Sequence[str], *, alone: bool) -> None:
    """Print a count and, unless it stands `alone`, the files."""
    print(f"{len(files):4}  {title}")
    if not alone:
        print("".join(f"      {file}\n" for file in files))


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the files of ragc that a question passes through.")
    parser.add_argument("--count", action="store_true", help="the numbers alone")
    arguments = parser.parse_args()
    compiled, recipe, trial = measure()
    for title, path in (("a compiled program", compiled), ("a recipe", recipe)):
        show(f"each question of ragc eval of {title}", path.each_question, alone=arguments.count)
        show(f"whole command ragc eval of {title}", path.whole_command, alone=arguments.count)
    show("each trial of ragc compile before its first question", trial, alone=arguments.count)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        counts = run_command(sys.argv[3:])
        modules = sorted(name for name in sys.modules if name.partition(".")[0] == "ragc")
        text = {"calls": counts.calls, "before_trial": sorted(counts.before_trial), "modules": modules}
        Path(sys.argv[2]).write_text(json.dumps(text), "utf-8")
    else:
        main()
