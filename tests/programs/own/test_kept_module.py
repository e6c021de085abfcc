"""What Compile wrote of a user's module opens from another folder, and a script is told the way out."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import dspy
import pytest

import ragc
from ragc.cli.main import main
from ragc.compiled.base import load
from ragc.errors import Untrusted, UsageError
from ragc.testing import ScriptedTarget
from tests import processes
from tests.examples import thorough

SUPPORT = '''"""A program in a module of its own."""

import json
import textwrap

import dspy
import numpy as np
import yaml

import ragc


class Support(dspy.Module):
    """Answers shortly."""

    words = ragc.number(3, 1, 9, "words")

    def __init__(self):
        super().__init__()
        self.answer = dspy.Predict("question -> answer")

    def forward(self, question):
        text = self.answer(question=question).answer
        return dspy.Prediction(answer=" ".join(text.split()[: int(np.int64(self.words))]))
'''

EXAMPLES = [
    dspy.Example(question=f"What is number {n}?", answer="yes it is").with_inputs("question")
    for n in range(4)
]

HOSTED = "targets.main={kind = 'hosted', model = 'openai/x', base_url = 'http://127.0.0.1:9'}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "my_support.py").write_text(SUPPORT, "utf-8")
    monkeypatch.syspath_prepend(str(folder))
    yield folder
    sys.modules.pop("my_support", None)


def compiled(out: Path, module: Any = None, **how: Any) -> Any:
    if module is None:
        import my_support  # type: ignore[import-not-found]

        module = my_support.Support()
    target = ScriptedTarget(lambda request: "[[ ## answer ## ]]\nyes it is\n\n[[ ## completed ## ]]")
    program = ragc.program(module, main=target, store=False)
    return ragc.Compile(metric="em", demos=0, trials=1, out=out, **how).compile(
        program, trainset=[], valset=EXAMPLES
    )


def test_one_file_is_kept_and_its_packages_are_named(folder: Path, tmp_path: Path) -> None:
    compiled(tmp_path / "out")
    assert (tmp_path / "out" / "my_support.py").read_text("utf-8") == SUPPORT
    facts = json.loads((tmp_path / "out" / "provenance.json").read_text("utf-8"))["module"]
    assert facts["file"] == "my_support.py"
    assert facts["requirements"] == ["PyYAML", "dspy", "numpy", "ragc"]
    assert "beside" not in facts
    compiled(tmp_path / "out")  # written once more, over what is there


def ran(words: list[str], cwd: Path, home: Path) -> Any:
    environment = {**os.environ, "RAGC_HOME": str(home)}
    return processes.run(["-m", "ragc", *words], cwd=cwd, environment=environment)


@thorough
def test_the_command_line_opens_it_from_another_folder(folder: Path, tmp_path: Path) -> None:
    compiled(tmp_path / "out")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / "my_support.py").unlink()
    exported = ran(["export", "../out", "--to", "jinja2", "--out", "prompts"], elsewhere, tmp_path / "home")
    assert exported.returncode == 0, exported.stderr
    answered = ran(
        ["ask", "../out", "Why?", "--set", HOSTED, "--set", "targets.main.options={tries = 1}"],
        elsewhere,
        tmp_path / "home",
    )
    assert "127.0.0.1:9" in answered.stderr, "the program opens; the server does not answer"


def test_from_outside_it_is_code_that_is_not_run_without_leave(folder: Path, tmp_path: Path) -> None:
    compiled(tmp_path / "out")
    module = tmp_path / "out" / "my_support.py"
    mark = tmp_path / "ran"
    module.write_text(f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n{SUPPORT}", "utf-8")
    sys.modules.pop("my_support", None)
    with pytest.raises(Untrusted, match=r"runs programs .*code=True"):
        ragc.export(tmp_path / "out", "jinja2", tmp_path / "prompts")
    assert not mark.exists(), "a kept module that was changed is a stranger's"
    assert ragc.export(
        tmp_path / "out", "jinja2", tmp_path / "prompts", access=ragc.Access(code=True)
    ).written
    assert mark.exists()


def test_nothing_beside_a_kept_module_is_imported_in_the_place_of_a_package(
    folder: Path, tmp_path: Path
) -> None:
    compiled(tmp_path / "out")
    (tmp_path / "out" / "yaml.py").write_text("raise SystemExit('a stranger ran')", "utf-8")
    exported = ran(
        ["export", str(tmp_path / "out"), "--to", "jinja2", "--out", "prompts"], tmp_path, tmp_path / "home"
    )
    assert exported.returncode == 2
    assert "neither compiled nor trusted" in exported.stderr, "a module more is another directory"
    assert "a stranger ran" not in exported.stderr


def test_files_beside_the_module_are_named_and_not_kept(folder: Path, tmp_path: Path) -> None:
    (folder / "my_helpers.py").write_text("N = 3\n", "utf-8")
    (folder / "my_support.py").write_text("import my_helpers\n" + SUPPORT, "utf-8")
    with pytest.warns(UserWarning, match=r"it imports my_helpers, which is neither installed nor kept"):
        compiled(tmp_path / "out")
    facts = json.loads((tmp_path / "out" / "provenance.json").read_text("utf-8"))["module"]
    assert facts["beside"] == ["my_helpers"]
    sys.modules.pop("my_helpers", None)


def test_a_script_and_a_function_are_refused_before_anything_is_sent(folder: Path, tmp_path: Path) -> None:
    script = (
        SUPPORT
        + "\nfrom ragc.testing import ScriptedTarget\n"
        + "target = ScriptedTarget([])\n"
        + "program = ragc.program(Support, main=target, store=False)\n"
        + "ragc.Compile(demos=0, out='out').compile(program, trainset=[], valset=[\n"
        + "    dspy.Example(question='Why?', answer='so').with_inputs('question')])\n"
    )
    done = processes.run(["-c", script], cwd=tmp_path, environment=dict(os.environ))
    last = (done.stderr.strip().splitlines() or [""])[-1]
    assert re.search(
        r"UsageError: Support is defined in a script or notebook \('__main__:Support'\), .*my_program\.py, "
        r"import it from there",
        last,
    )
    assert not (tmp_path / "out").exists()
    without = script.replace("ScriptedTarget([])", "ScriptedTarget(lambda request: {'answer': 'so'})")
    without = without.replace(", out='out'", "").replace("Why?", "Why so?")
    done = processes.run(["-c", without], cwd=tmp_path, environment=dict(os.environ))
    assert done.returncode == 0, done.stderr

    class Inside(dspy.Module):
        def __init__(self) -> None:
            super().__init__()
            self.answer = dspy.Predict("question -> answer")

        def forward(self, question: str) -> Any:
            return self.answer(question=question)

    with pytest.raises(UsageError, match="Inside is defined in no module that can be imported"):
        compiled(tmp_path / "out2", Inside)


def test_a_predictor_of_dspys_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    compiled(tmp_path / "out", dspy.Predict("question -> answer"))
    facts = load(tmp_path / "out").provenance["module"]
    assert facts == {"requirements": facts["requirements"]}
    assert "dspy" in facts["requirements"]
    assert main(["trust", str(tmp_path / "out")]) == 0
