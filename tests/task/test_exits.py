"""A user's function that ends the process is an error in one sentence: nobody waits for ever."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.names import environment

START = """
import sys, dspy, ragc
from ragc.testing import ScriptedTarget
from ragc.records import Question
from ragc.programs import method
from ragc.programs.runtime import Runtime
from ragc.core import event_loop
from ragc.core.user_code import load_object
from ragc.corpora.sources.function import FunctionSource
from ragc.errors import RagcError, ParseFailure
from ragc.metrics.base import Scorer
from ragc.metrics.own import OwnAssessor, own_metric
from ragc.task.answering import evaluate, failures_of
from pathlib import Path
import asyncio

questions = [Question(f"q{n}", f"What is {n}?", ("1",)) for n in range(8)]
scorer, sources, program = Scorer(()), {}, "no_retrieval"
target = ScriptedTarget(lambda request: {"answer": "1"})
"""
END = """
try:
    runtime = Runtime({"main": target}, sources)
    built = method(program).build(runtime)
    rows = event_loop.run(evaluate(built, questions, scorer, limit=asyncio.Semaphore(4)))
    print(failures_of(rows).text)
except RagcError as error:
    print(type(error).__name__, error)
"""
METRIC = "import sys\n{kind} score(prediction, question):\n    sys.exit(3)\n"
ENDS = """
class Ends(ScriptedTarget):
    async def complete(self, request):
        sys.exit(4)
target = Ends([])
"""
MODULE = """
import dspy, sys

class Mine(dspy.Module):
    def __init__(self):
        super().__init__()
        self.say = dspy.Predict("question -> answer")

    def forward(self, question):
        sys.exit(5)
"""
CASES = {
    "a metric": (
        METRIC.format(kind="def"),
        'scorer = Scorer((own_metric("mine:score"),), {"mine:score": OwnAssessor("mine:score", Path())})',
        "UsageError The metric 'mine:score' ended the process (SystemExit: 3)",
    ),
    "an awaited metric": (
        METRIC.format(kind="async def"),
        'scorer = Scorer((own_metric("mine:score"),), {"mine:score": OwnAssessor("mine:score", Path())})',
        "UsageError The metric 'mine:score' ended the process (SystemExit: 3)",
    ),
    "a search": (
        "import sys\ndef find(query):\n    sys.exit()\n",
        'import mine\nsources, program = {"local": FunctionSource(mine.find)}, "vanilla"',
        "UsageError The source find ended the process (SystemExit: None)",
    ),
    "an awaited search": (
        "import sys\nasync def find(query):\n    sys.exit('no more')\n",
        'import mine\nsources, program = {"local": FunctionSource(mine.find)}, "vanilla"',
        "UsageError The source find ended the process (SystemExit: no more)",
    ),
    "a target": (
        "",
        ENDS,
        "TargetError scripted ended its program (SystemExit(4)) in the place of a reply.",
    ),
    "a program": (
        MODULE,
        'from ragc.programs.own import own_method\nprogram = own_method("mine:Mine", Path()).id',
        "8 of 8 questions failed: The module Mine raised SystemExit: 5",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_exit_in_a_users_code_is_an_error_in_one_sentence(case: str, tmp_path: Path) -> None:
    module, setting, says = CASES[case]
    (tmp_path / "mine.py").write_text(module, "utf-8")
    code = textwrap.dedent(START) + setting + END
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(tmp_path / "home"),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(says), done.stdout + done.stderr
    assert done.stdout.count("\n") == 1
