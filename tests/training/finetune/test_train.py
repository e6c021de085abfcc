"""`ragc train` without TRL: what is wrong is one sentence before anything heavy, and nothing is left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from filelock import FileLock

from ragc.cli.main import main
from ragc.core import extras
from ragc.errors import UsageError
from ragc.training.finetune import train
from ragc.training.finetune.train import Trained, check_base, leave_out_long, markdown

ROW = {"prompt": "Sky?", "completion": " blue"}
CONFIG = 'base = "model"\ndata = "rows.jsonl"\nmethod = "sft"\nsteps = 4\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(ROW)}\n" * 3, "utf-8")
    (tmp_path / "train.toml").write_text(CONFIG, "utf-8")
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text("{}", "utf-8")
    (tmp_path / "model/model.safetensors").write_bytes(b"weights")
    return tmp_path


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the extra `train` were here."""
    monkeypatch.setattr(extras, "is_installed", lambda module: True)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = main(["train", *words])
    return status, " ".join(capsys.readouterr().err.split())


def test_train_says_which_extra_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda module: False)
    for words in (("train.toml",), ("--base", "embedded")):
        status, error = run(capsys, *words, "--out", "tuned")
        assert status == 2
        assert 'which is not installed; run: pip install "ragc[train]"' in error
        assert not (folder / "tuned").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("train.toml --out tuned --set learning_rat=1", "Did you mean 'learning_rate'?"),
        ("train.toml --out tuned --set data=other.jsonl", "there is no such file"),
        ("train.toml --out tuned --set method=dpo", "line 1: method dpo needs"),
        ("train.toml --out tuned --set held_out=3", "held_out = 3 leaves no row to train on"),
        ("train.toml --out mine", "exists and is no training"),
        ("train.toml --out train.toml", "exists and is no training"),
        ("train.toml --out tuned --set base=mine", "is no Hugging Face directory"),
        ("train.toml --out tuned --set base=fake.gguf", "is no GGUF file"),
        ("--base mine --out tuned", "only a GGUF file or `embedded` is converted"),
        ("--base fake.gguf --out mine", "is not empty"),
        ("--base none.gguf --out tuned", "none.gguf cannot be read"),
    ],
)
def test_train_refuses_bad_input_before_anything_is_imported(
    folder: Path, installed: None, words: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mine").mkdir()
    (folder / "mine/notes.txt").write_text("mine", "utf-8")
    (folder / "fake.gguf").write_bytes(b"no model")
    status, error = run(capsys, *words.split())
    assert (status, problem in error) == (2, True), error
    assert not (folder / "tuned").exists()
    assert [path.name for path in (folder / "mine").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("row", "template", "problem"),
    [
        (
            {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]},
            "",
            "has no",
        ),
        ({"prompt": "Sky?", "completion": "[A_Response] blue"}, "chat", 'training_data.form = "calls"'),
        ({"prompt": "?", "chosen": "[A_Response] a", "rejected": "[A_Response] b"}, "", "has no such token"),
    ],
)
def test_a_base_that_cannot_say_the_rows_is_refused(row: Any, template: str, problem: str) -> None:
    class Letters:
        chat_template = template

        def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
            return {"input_ids": list(map(ord, text))}

    with pytest.raises(UsageError, match=problem):
        check_base(Letters(), [row], "llama")
    check_base(Letters(), [ROW, row], "llama")  # not every reply begins with a token


@pytest.mark.parametrize(
    "columns",
    [
        {"input_ids": [[1, 2], [1, 2, 3, 4]]},
        {"prompt_ids": [[1], [1]], "chosen_ids": [[2], [2]], "rejected_ids": [[3], [3, 4, 5]]},
    ],
)
def test_rows_that_are_too_long_are_left_out_and_counted(columns: dict[str, Any]) -> None:
    datasets = pytest.importorskip("datasets")
    trainer = SimpleNamespace(train_dataset=datasets.Dataset.from_dict(columns), eval_dataset=None)
    assert leave_out_long(trainer, 3) == 1
    assert len(trainer.train_dataset) == 1
    with pytest.raises(UsageError, match="All 1 rows have more than 1 tokens; raise max_length"):
        leave_out_long(trainer, 1)


OUTCOME: dict[str, Any] = {
    "steps": 4, "losses": [(1, 2.0), (2, 1.0), (3, 0.5), (4, 0.25)], "before": {"loss": 2.0},
    "after": {"loss": 0.3}, "rows": 3, "held_out": 0, "too_long": 1, "seconds": 1.5, "device": "cpu",
}  # fmt: skip


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, installed: None) -> list[int]:
    """A trainer that trains nothing, and is interrupted the first time; the list grows with each run."""
    runs: list[int] = []

    def fake_run(settings: Any, base: Any, rows: Any, held: Any, folder: Path, _: Any) -> Any:
        runs.append(len(rows))
        (folder / "checkpoints/checkpoint-2").mkdir(parents=True, exist_ok=True)
        if len(runs) == 1:
            raise KeyboardInterrupt
        (folder / "model").mkdir()
        (folder / "model/model.safetensors").write_bytes(b"tuned")
        return OUTCOME

    monkeypatch.setattr(train, "run", fake_run)
    monkeypatch.setattr(train, "version", lambda name: "1.0")
    return runs


def test_train_resumes_and_does_not_train_a_finished_one_again(
    folder: Path, scripted: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "train.toml", "--out", "tuned"]) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert main(["train", "train.toml", "--out", "tuned", "--json", "--set", "checkpoint_steps=9"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert (card["steps"], card["after"], len(scripted)) == (4, {"loss": 0.3}, 2)
    assert not (folder / "tuned/checkpoints").exists()
    assert main(["train", "train.toml", "--out", "tuned", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == card
    assert len(scripted) == 2
    assert card["data"]["sha256"] in (folder / "tuned/card.md").read_text("utf-8")
    assert str(folder) not in (folder / "tuned/card.json").read_text("utf-8")


def test_train_refuses_another_training_with_what_differs(
    folder: Path, scripted: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "train.toml", "--out", "tuned"]) == 130
    (folder / "rows.jsonl").write_text(f"{json.dumps(ROW)}\n" * 4, "utf-8")
    status, error = run(capsys, "train.toml", "--out", "tuned", "--set", "seed=2")
    assert status == 2
    assert "seed was 1 and is 2" in error
    assert "data.rows was 3 and is 4" in error
    assert len(scripted) == 1


def test_two_trainings_do_not_share_a_folder(folder: Path, scripted: list[int]) -> None:
    lock = FileLock(folder / "tuned/.lock")
    with lock, pytest.raises(UsageError, match="Another process is training"):
        train.train("train.toml", "tuned")
    assert not scripted


def test_libraries_can_be_kept_from_reporting_before_they_are_imported() -> None:
    too_early = "{'huggingface_hub', 'tqdm', 'torch'} & {*sys.modules}"
    code = f"import sys, ragc.training.finetune.train; print({too_early})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_card_says_what_was_trained_and_holds_no_control_characters() -> None:
    card = {
        **OUTCOME,
        "settings": {"method": "sft", "lora_rank": 8, "data": "a`|\n# x\x1b[31m.jsonl"},
        "base": {"name": "SmolLM2", "digest": ""},
    }
    lines = Trained(Path("none"), Path("none/model"), card).lines()
    assert lines[0] == "sft of SmolLM2, LoRA of rank 8: 4 steps on 3 rows, 2 s on cpu"
    assert "loss 2.0000 in the first tenth of the steps, 0.2500 in the last" in lines
    assert "held-out loss: 2.0000 before, 0.3000 after" in lines
    assert lines[-1] == "The tuned model is in none/model"
    text = markdown(card)
    assert "\x1b" not in text
    assert "\n# x" not in text
