"""The gate: compiled programs and files of rows, the exit codes, what is printed, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import ragc
from ragc.cli.main import main
from ragc.compiled import gate_report
from ragc.compiled.opened import open_program
from ragc.store.calls import CallStore
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Run, needs_demos
from tests.support.rows import write_rows


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def row(n: int, score: float, **more: Any) -> dict[str, Any]:
    return {
        "id": f"q{n}",
        "question": f"What is thing {n}?",
        "answers": ["yes"],
        "prediction": "yes" if score else "no",
        "scores": {"em": score, "latency": 1.0},
        **more,
    }


def rows_file(name: str, scores: list[float], **more: Any) -> str:
    lines = (json.dumps(row(n, score, **more)) for n, score in enumerate(scores))
    Path(name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return name


def pair(worse: int, better: int, n: int = 200) -> tuple[str, str]:
    """Rows of the new and of the old program: all else is right in both."""
    old = [1.0] * worse + [0.0] * better + [1.0] * (n - worse - better)
    new = [0.0] * worse + [1.0] * better + [1.0] * (n - worse - better)
    return rows_file("new.jsonl", new), rows_file("old.jsonl", old)


@pytest.mark.parametrize(
    ("worse", "better", "n", "code", "words"),
    [
        (0, 0, 200, 0, "shown to lose less than 0.05."),
        (30, 10, 200, 10, "a drop is shown."),
        (20, 20, 200, 11, "these questions cannot tell."),
        (0, 0, 40, 11, "these questions cannot tell."),
        (20, 4, 1000, 0, "though a smaller drop is shown."),
    ],
)
def test_exit_codes(
    worse: int, better: int, n: int, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    new, old = pair(worse, better, n)
    assert main(["gate", new, "--against", old]) == code
    output = capsys.readouterr().out
    assert words in output
    assert ("let 80% of runs of equal programs pass" in output) == (code != 0)
    assert "Run 1 on these questions" in output


def test_a_least_mean_is_reached_missed_or_not_told() -> None:
    new, old = pair(0, 0)
    assert ragc.gate(new, old, least={"em": 0.9}).exit_code == 0
    half = rows_file("half.jsonl", [1.0, 0.0] * 100)
    assert [one.state for one in ragc.gate(half, half, least={"em": 0.7}).minimums] == ["missed"]
    assert ragc.gate(half, half, least={"em": 0.7}).exit_code == 10
    unclear = ragc.gate(half, half, least={"em": 0.48})
    assert unclear.exit_code == 11
    assert unclear.minimums[0].needed is not None
    assert unclear.minimums[0].needed > 200


def test_a_program_like_the_other_needs_59_questions_to_pass() -> None:
    for n, code in ((20, 11), (58, 11), (59, 0)):
        same = rows_file(f"same{n}.jsonl", [1.0] * n)
        result = ragc.gate(same, same)
        assert (result.exit_code, result.needed) == (code, None if code == 0 else 59)


def test_groups_count_and_too_few_cannot_tell() -> None:
    old = [row(n, 1.0, group=f"g{n % 5}") for n in range(200)]
    write_rows(Path("grouped.jsonl"), old)
    result = ragc.gate("grouped.jsonl", "grouped.jsonl")
    assert result.margin.groups == 5
    assert result.exit_code == 11


def test_the_questions_that_would_show_a_least_mean_are_in_groups_as_these_are() -> None:
    scores = [float(n // 10 not in (2, 5, 11)) for n in range(120)]
    write_rows(Path("grouped.jsonl"), [row(n, score, group=f"g{n // 10}") for n, score in enumerate(scores)])
    rows_file("alone.jsonl", scores)
    grouped, alone = (
        ragc.gate(name, name, least={"em": 0.7}).minimums[0] for name in ("grouped.jsonl", "alone.jsonl")
    )
    assert grouped.state == alone.state == "cannot tell"
    assert grouped.needed is not None
    assert alone.needed is not None
    assert grouped.needed > 5 * alone.needed  # all questions of a group score alike


def test_runs_on_the_same_questions_are_counted() -> None:
    numbers = []
    for worse in (0, 1, 2, 2):
        look = ragc.gate(*pair(worse, 0)).look
        assert look is not None
        numbers.append((look.number, look.again))
    assert numbers == [(1, False), (2, False), (3, False), (3, True)]


def test_markdown_and_junit_hold_what_questions_say_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "<img src=x> | [a](http://b) @team `x` ]]> \x01\x1b[31m"
    for name, score in (("new.jsonl", 0.0), ("old.jsonl", 1.0)):
        lines = [json.dumps(row(n, score, question=f"{n} {hostile}")) for n in range(30)]
        Path(name).write_text("\n".join(lines), "utf-8")
    arguments = [
        "gate",
        "new.jsonl",
        "--against",
        "old.jsonl",
        "--markdown",
        "gate.md",
        "--junit",
        "gate.xml",
    ]
    for _ in range(2):  # its own files are replaced
        assert main(arguments) == 10
    text = Path("gate.md").read_text("utf-8")
    assert text.startswith("<!-- ragc gate -->\n### ❌")
    for forbidden in ("<img", "](", "http://", "@team", "\x1b", "\x01"):
        assert forbidden not in text
    assert all(line.count(" | ") == 2 for line in text.splitlines() if line.startswith("| 1"))
    suites = ET.parse("gate.xml").getroot()
    assert (suites.get("tests"), suites.get("failures"), suites.get("skipped")) == ("1", "1", "0")
    assert "a drop is shown" in (suites[0][0][0].get("message") or "")


def test_junit_skips_what_cannot_be_told() -> None:
    suites = ET.fromstring(gate_report.junit(ragc.gate(*pair(20, 20), least={"em": 0.5})))
    assert [case[0].tag for case in suites[0]] == ["skipped", "system-out"]


def scripted(monkeypatch: pytest.MonkeyPatch, folder: Path, reply: Any) -> ScriptedTarget:
    """Programs that the gate opens answer by `reply`, with a store of their own."""
    target = ScriptedTarget(reply)

    def open_scripted(*args: Any, **more: Any) -> Any:
        return open_program(*args, **more, store=CallStore(folder / "store"), targets={"main": target})

    monkeypatch.setattr("ragc.compiled.gate.open_program", open_scripted)
    return target


def test_compiled_programs_are_asked_and_their_look_is_counted(
    run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("new")
    run("old", sets=("search.demos=0", "search.knobs=[]", "seed=4"))
    scripted(monkeypatch, folder, needs_demos)
    result = ragc.gate("new", "old", metric="em")
    assert result.margin.n == 25
    assert result.look is not None
    assert result.look.number
    back = ragc.gate("old", "new", metric="em")
    assert back.exit_code == 10
    assert back.margin.diff == -result.margin.diff
