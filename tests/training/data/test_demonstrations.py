"""The demonstrations of a compiled program, and of its study, as conversations."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import ragc
from ragc.cli.main import main
from ragc.compiled.base import load
from ragc.errors import NothingAnswered
from tests.optimizers.colours import begun, written
from tests.support.rows import read_rows


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = written(tmp_path_factory.mktemp("colours"))
    begun(folder)(sets=("search.trials=3",))
    return folder / "out"


def test_demonstrations_are_the_program_s_prompts_with_their_replies(compiled: Path, tmp_path: Path) -> None:
    data = ragc.training_data("demonstrations", compiled, out=tmp_path / "demos.jsonl")
    loaded = load(compiled)
    ((name, state),) = loaded.state.predictors.items()
    assert data.classes == {name: len(data.rows)}
    assert len(data.rows) > len(state.demos) > 0  # the study's pool holds more
    for demo, row in zip(state.demos, data.rows, strict=False):
        system, user, answer = (message["content"] for message in row["messages"])
        assert system.startswith(state.instructions)
        assert [other["question"] in user for other in state.demos] == [
            other == demo for other in state.demos
        ]
        assert json.loads(answer) == {"answer": demo["answer"]}
    assert read_rows(tmp_path / "demos.jsonl") == data.rows
    assert f"| compiled program | {loaded.fingerprint} |" in data.card.read_text()


@pytest.fixture
def copied(compiled: Path, tmp_path: Path) -> Path:
    """The compiled program in another folder, for which there is no study."""
    return Path(shutil.copytree(compiled, tmp_path / "copied"))


def set_demos(copied: Path, *, most: int, more: tuple[dict[str, str], ...] = ()) -> None:
    """Leaves at most so many demonstrations of its only predictor, and adds others."""
    state = json.loads((copied / "program.json").read_text())
    (predictor,) = state["predictors"].values()
    predictor["demos"] = [*predictor["demos"][:most], *more]
    (copied / "program.json").write_text(json.dumps(state))


def test_without_its_study_a_program_has_its_own_demonstrations(
    copied: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "demos.jsonl"
    command = ["data", "demonstrations", str(copied), "--out", str(out)]
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    ((name, state),) = load(copied).state.predictors.items()
    assert printed["rows"] == len(state.demos) == len(read_rows(out))
    assert printed["classes"] == {name: len(state.demos)}
    assert main(command) == 0
    assert f"{len(state.demos)} rows in {out}: {len(state.demos)} {name}" in capsys.readouterr().out


def test_a_program_without_demonstrations_is_refused_in_a_sentence(copied: Path, tmp_path: Path) -> None:
    set_demos(copied, most=0)
    with pytest.raises(NothingAnswered, match=r"compile it with search\.demos above 0"):
        ragc.training_data("demonstrations", copied, out=tmp_path / "demos.jsonl")
    assert not (tmp_path / "demos.jsonl").exists()


def test_a_demonstration_that_lacks_a_field_is_counted(copied: Path, tmp_path: Path) -> None:
    set_demos(copied, most=1, more=({"question": "What colour is it?", "answer": "red"},))
    data = ragc.training_data("demonstrations", copied, out=tmp_path / "demos.jsonl")
    assert data.drops == {"a demonstration without all fields of its call": 1}
    assert len(data.rows) == 1
