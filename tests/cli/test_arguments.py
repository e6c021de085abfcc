"""Mistyped command lines: one sentence with the nearest name, exit status 2, no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragc.cli.main import main
from tests.support.recipes import recipe_toml, vllm

RECIPE = recipe_toml(
    search={"knobs": ["top_k"], "trials": 2},
    data={"dataset": "pybuiltins", "dev": 1},
    targets={"main": vllm("http://127.0.0.1:9/v1")},
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "recipe.toml").write_text(RECIPE, "utf-8")
    return tmp_path


def refused(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The last line on stderr of a command that is refused."""
    try:
        status = main(arguments.split())
    except SystemExit as stop:
        status = int(str(stop.code))
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert "Traceback" not in err
    return " ".join(err[err.rindex("ragc: ") :].split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "complie recipe.toml",
            "ragc: No command is named 'complie'. Did you mean 'compile'? Known: new, questions",
        ),
        ("", "ragc: ragc needs COMMAND; see ragc --help."),
        ("list metric", "ragc: No kind is named 'metric'. Did you mean 'metrics'? Known: programs, knobs"),
        ("list", "ragc: ragc list needs kind; see ragc list --help."),
        ("eval recipe.toml --split valid", "ragc: No split is named 'valid'. Known: train, dev, test."),
        (
            "questions revew x",
            "ragc: No action is named 'revew'. Did you mean 'review'? Known: review, label.",
        ),
        ("new docs --count many", "ragc: --count must be a whole number, found 'many'."),
        ("study stat x", "ragc: No action is named 'stat'. Did you mean 'status'? Known: status."),
        ("headroom recipe.toml --calls many", "ragc: --calls must be a whole number, found 'many'."),
        ("headroom recipe.toml --gain much", "ragc: --gain must be a number, found 'much'."),
        (
            "compile recipe.toml --dryrun",
            "ragc: ragc compile does not take '--dryrun'. Did you mean '--dry-run'?",
        ),
        ("compile recipe.toml --set", "ragc: --set needs a value, and none follows it."),
        ("ask recipe.toml", "ragc: ragc ask needs QUESTION; see ragc ask --help."),
        (
            "ask recipe.toml Why so",
            "ragc: ragc ask does not take 'so'; put an argument with blanks in quotes.",
        ),
        ("mcp", "ragc: ragc mcp needs COMPILED; see ragc mcp --help."),
        (
            "mcp out --transport smoke",
            "ragc: No transport is named 'smoke'. Known: stdio, http.",
        ),
        ("serve out --workers many", "ragc: --workers must be a whole number, found 'many'."),
        ("export out", "ragc: ragc export needs --to or --check; see ragc export --help."),
        ("export out --to python --check out", "ragc: ragc export takes --to or --check, not both."),
    ],
)
def test_a_mistyped_command_is_one_sentence(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(arguments, capsys).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("compile recip.toml", "the recipe 'recip.toml': there is no such file. Did you mean 'recipe.toml'?"),
        ("compile .", "The recipe '.' cannot be read: it is a folder; name the TOML file."),
        ("compile recipe.toml --set search.trials", "write it as key.path=value"),
        ("compile recipe.toml --set =3", "write it as key.path=value"),
        ("ask outt Why", "the recipe or compiled program 'outt': there is no such file or folder. Did"),
        ("trust outt", "the compiled program 'outt': there is no such folder. Did you mean 'out'?"),
        (
            "eval row.jsonl",
            "row.jsonl: the rows of an earlier run: there is no such file. Did you mean 'rows.jsonl'?",
        ),
        ("eval out.jsonl", "out.jsonl: cannot be read: it is a folder"),
    ],
)
def test_a_path_that_is_not_there_comes_with_the_nearest(
    folder: Path, arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "out").mkdir()
    (folder / "out.jsonl").mkdir()
    (folder / "rows.jsonl").write_text(json.dumps({"id": "q"}))
    assert message in refused(arguments, capsys)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (
            '{"format": "ragc.compiled/99"}',
            "and this version of ragc reads ragc.compiled/2; install the version that",
        ),
        ('{"format": "ragc', "is damaged (Invalid JSON: "),
        ('{"format": "ragc.compiled/2"}', "is damaged (method: Field required); copy it again, or compile"),
        (
            '{"format": "ragc.compiled/2", "method": "vanilla", "knobs": {}, "predictors": {}}',
            "has no recipe.toml; copy the directory again, as a whole.",
        ),
    ],
)
def test_a_compiled_program_of_another_version_or_in_part(
    folder: Path, program: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "out").mkdir()
    (folder / "out" / "program.json").write_text(program)
    (folder / "out" / "provenance.json").write_text("{}")
    if "recipe.toml" not in message:
        (folder / "out" / "recipe.toml").write_text(RECIPE)
    assert message in refused("ask out Why", capsys)


def test_rows_are_read_before_anything_is_answered(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragc.api.use.evaluate", lambda *_, **__: pytest.fail("questions were answered"))
    assert "there is no such file" in refused("eval recipe.toml row.jsonl", capsys)


def test_doctor_reads_the_recipe_before_the_machine(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragc.doctor.examine_machine", lambda: pytest.fail("the machine was examined"))
    assert "there is no such file" in refused("doctor recip.toml", capsys)


def test_one_question_and_one_trial_are_in_the_singular(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", "recipe.toml", "--set", "search.trials=1", "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert ": 1 trial\n" in out
    assert "(1 question)" in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--replicates 0", "Replicates must be a whole number of 1 or more, found 0."),
        ("--replicates 3", "3 replicates would be equal, as every call is made at temperature 0; set"),
        ("--judge-again 20", "No metric of metrics.report asks a judge, so there is nothing to judge again"),
        ("--judge-again -1", "Answers to judge again are a whole number of 0 or more, found -1."),
    ],
)
def test_what_cannot_be_asked_again_is_refused_before_anything_is_sent(
    options: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refused(f"eval recipe.toml --split dev {options}", capsys).startswith(f"ragc: {message}")
