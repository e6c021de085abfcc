"""Command lines without a command, and what is read before anything is answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragc.cli.main import main
from tests.support.recipes import recipe_toml


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["complie", "recipe.toml"], "ragc: No command is named 'complie'. Did you mean 'compile'? Known: "),
        ([], "ragc: ragc needs COMMAND; see ragc --help."),
    ],
)
def test_what_is_no_command_is_one_sentence(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    out, err = capsys.readouterr()
    assert out == ""
    assert " ".join(err[err.rindex("ragc: ") :].split()).startswith(message)


def test_rows_are_read_before_anything_is_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragc.api.use.evaluate", lambda *_, **__: pytest.fail("questions were answered"))
    (tmp_path / "recipe.toml").write_text(recipe_toml(), "utf-8")
    assert main(["eval", str(tmp_path / "recipe.toml"), "row.jsonl"]) == 2
    assert "there is no such file" in capsys.readouterr().err
