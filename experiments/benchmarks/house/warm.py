"""What a question costs whose reply is stored: the files of ragc that run, the modules `ragc ask` imports.

A warm question is asked of a program that has answered before, and its reply is in the store. Functions
count, not what runs because a module is imported, as in `experiments.benchmarks.serving.path_length`.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from experiments.benchmarks.serving.path_length import (
    PathLength,
    RunPython,
    compile_in,
    counted,
    evaluated_compiled,
    in_process,
    profiled,
    run_python,
    scripted_targets,
)

QUESTION = "What colour is thing number3?"


@dataclass(frozen=True)
class Paths:
    """The files that run for a warm question, the modules of `ragc ask`, and the path of `ragc eval`."""

    warm_question: tuple[str, ...]
    modules: tuple[str, ...]
    compiled: PathLength

    def modules_of(self, package: str) -> tuple[str, ...]:
        """The imported modules of a `package`, itself included."""
        return tuple(name for name in self.modules if f"{name}.".startswith(f"{package}."))


def measure(run: RunPython = run_python) -> Paths:
    """The paths through a program that is compiled on a scripted target."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compile_in(run, folder)
        shutil.copytree(folder / "home", folder / "warm")
        profiled(run, folder, "warm", "ask", "compiled", QUESTION)
        modules = profiled(run, folder, "warm", "ask", "compiled", QUESTION)["modules"]
        files = in_process(run, folder, "warm", "experiments.benchmarks.house.warm", "compiled")["files"]
        return Paths(tuple(files), tuple(modules), evaluated_compiled(run, folder))


def ask_twice(path: str) -> list[str]:
    """The files that run when the program at `path` is asked a second time."""
    scripted_targets()
    with counted() as counts:
        import ragc

        with ragc.load(path) as program:
            program(QUESTION)
            counts.calls.clear()
            program(QUESTION)
            return sorted(counts.calls)


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(json.dumps({"files": ask_twice(sys.argv[3])}), "utf-8")
