"""`ragc train` without TRL: what is wrong is one sentence before anything heavy, and nothing is left."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragc.cli.main import main
from ragc.core import extras
from ragc.core.progress import Silent
from ragc.errors import UsageError
from ragc.training.finetune import train, trainers
from ragc.training.finetune.base_models import resolve
from ragc.training.finetune.card import ends, markdown, summary_lines
from ragc.training.finetune.train import Trained

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
    return status, capsys.readouterr().err


def test_without_the_extra_a_sentence_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda module: False)
    for words in (("train.toml",), ("--base", "embedded")):
        status, error = run(capsys, *words, "--out", "tuned")
        assert status == 2
        assert 'needs trl, peft, gguf, which are not installed; run: pip install "ragc[train]"' in error
        assert not (folder / "tuned").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("train.toml", "--set", "learning_rat=1"), "Did you mean 'learning_rate'?"),
        (("train.toml", "--set", "data=other.jsonl"), "there is no such file"),
        (("train.toml", "--set", "method=dpo"), "line 1: `chosen`, `rejected` is missing"),
        (("train.toml", "--set", "held_out=3"), "held_out = 3 leaves no row to train on"),
        (("train.toml", "--base", "embedded"), "both are there"),
        ((), "neither is there"),
    ],
)
def test_bad_input_is_said_before_anything_is_imported(
    folder: Path, installed: None, words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, error = run(capsys, *words, "--out", "tuned")
    assert status == 2
    assert problem in " ".join(error.split())
    assert not (folder / "tuned").exists()


def test_what_is_no_model_and_no_place_for_one_is_refused(
    folder: Path, installed: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "mine").mkdir()
    (folder / "mine/notes.txt").write_text("mine", "utf-8")
    (folder / "fake.gguf").write_bytes(b"no model")
    for words, problem in [
        (("train.toml", "--out", "mine"), "exists and is no training"),
        (("train.toml", "--out", "train.toml"), "is not a folder"),
        (("train.toml", "--out", "tuned", "--set", "base=mine"), "is no Hugging Face directory"),
        (("train.toml", "--out", "tuned", "--set", "base=fake.gguf"), "is no GGUF file"),
        (("--base", "mine", "--out", "tuned"), "only a GGUF file or `embedded` is converted"),
        (("--base", "fake.gguf", "--out", "mine"), "is not empty"),
        (("--base", "none.gguf", "--out", "tuned"), "none.gguf cannot be read"),
    ]:
        status, error = run(capsys, *words)
        assert (status, problem in " ".join(error.split())) == (2, True), error
    assert (folder / "mine/notes.txt").read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    ("row", "template", "problem"),
    [
        (
            {"messages": [{"role": "user", "content": "Sky?"}, {"role": "assistant", "content": "blue"}]},
            "",
            "has no",
        ),
        ({"prompt": "Sky?", "completion": "[A_Response] blue"}, "chat", 'training_data.form = "calls"'),
    ],
)
def test_a_base_that_cannot_say_the_rows_is_refused_before_its_weights_are_read(
    folder: Path,
    installed: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    row: Any,
    template: str,
    problem: str,
) -> None:
    class Letters:
        eos_token, bos_token_id, chat_template = "", None, template

        def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
            return {"input_ids": list(map(ord, text))}

    def unread(*_: Any, **__: Any) -> Any:
        raise AssertionError("the weights were read")

    cuda = SimpleNamespace(device_count=lambda: 0, is_available=lambda: False)
    torch = SimpleNamespace(cuda=cuda, OutOfMemoryError=MemoryError, float32="float32", bfloat16="bfloat16")
    transformers = SimpleNamespace(
        AutoTokenizer=SimpleNamespace(from_pretrained=lambda path: Letters()),
        AutoModelForCausalLM=SimpleNamespace(from_pretrained=unread),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    (folder / "rows.jsonl").write_text(f"{json.dumps(row)}\n", "utf-8")
    status, error = run(capsys, "train.toml", "--out", "tuned")
    assert (status, problem in " ".join(error.split())) == (2, True), error


OUTCOME: dict[str, Any] = {
    "steps": 4, "losses": ((1, 2.0), (2, 1.0), (3, 0.5), (4, 0.25)), "before": {"loss": 2.0},
    "after": {"loss": 0.3}, "rows": 3, "held_out": 0, "too_long": 1, "tokens": 12, "trained_weights": 10,
    "all_weights": 10, "seconds": 1.5, "resumed": 0, "device": "cpu", "dtype": "float32",
}  # fmt: skip


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, installed: None) -> list[int]:
    """A trainer that trains nothing; the list grows with each of its runs."""
    runs: list[int] = []

    def fake_run(settings: Any, base: Any, rows: Any, held: Any, folder: Path, memory: Any, _: Any) -> Any:
        runs.append(len(rows))
        (folder / "checkpoints/checkpoint-2").mkdir(parents=True, exist_ok=True)
        if len(runs) == 1:
            raise KeyboardInterrupt("Interrupted at step 3 of 4; the same command goes on from step 2.")
        memory.write({"seconds": 1.0})
        (folder / "model").mkdir()
        (folder / "model/model.safetensors").write_bytes(b"tuned")
        return trainers.TrainingResult(**OUTCOME)

    monkeypatch.setattr(trainers, "run", fake_run)
    monkeypatch.setattr(train, "version", lambda name: "1.0")
    return runs


def test_the_same_command_goes_on_and_a_finished_one_trains_nothing(
    folder: Path, scripted: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "train.toml", "--out", "tuned"]) == 130
    assert "the same command goes on from step 2" in capsys.readouterr().err
    assert main(["train", "train.toml", "--out", "tuned", "--json", "--set", "checkpoint_steps=9"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert (card["steps"], card["after"], len(scripted)) == (4, {"loss": 0.3}, 2)
    assert not (folder / "tuned/checkpoints").exists()
    assert main(["train", "train.toml", "--out", "tuned", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == card
    assert len(scripted) == 2
    assert card["data"]["sha256"] in (folder / "tuned/card.md").read_text("utf-8")
    assert str(folder) not in (folder / "tuned/card.json").read_text("utf-8")


def test_another_training_is_refused_with_what_differs(
    folder: Path, scripted: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "train.toml", "--out", "tuned"]) == 130
    (folder / "rows.jsonl").write_text(f"{json.dumps(ROW)}\n" * 4, "utf-8")
    status, error = run(capsys, "train.toml", "--out", "tuned", "--set", "seed=2")
    assert status == 2
    message = " ".join(error.split())
    assert "seed was 1 and is 2" in message
    assert "data.rows was 3 and is 4" in message
    assert len(scripted) == 1


def test_two_trainings_do_not_share_a_folder(folder: Path, scripted: list[int]) -> None:
    from filelock import FileLock

    (folder / "tuned").mkdir()
    with FileLock(folder / "tuned/.lock"), pytest.raises(UsageError, match="in use by another training"):
        train.train("train.toml", "tuned")


def test_bases_are_told_apart_by_their_weights(folder: Path) -> None:
    before = resolve(str(folder / "model"), Silent())
    (folder / "model/model.safetensors").write_bytes(b"other")
    after = resolve(str(folder / "model"), Silent())
    assert before.digest != after.digest
    assert (after.local, resolve("owner/name", Silent()).local) == (True, False)


def test_a_checkpoint_that_a_kill_cut_off_is_not_used(tmp_path: Path) -> None:
    for step, state in ((2, '{"global_step": 2}'), (4, '{"global_step": 4}'), (6, '{"glob'), (8, "")):
        checkpoint = tmp_path / f"checkpoint-{step}"
        checkpoint.mkdir()
        (checkpoint / "trainer_state.json").write_text(state, "utf-8")
    assert trainers.last_checkpoint(tmp_path) == tmp_path / "checkpoint-4"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-2", "checkpoint-4"]
    assert trainers.last_checkpoint(tmp_path / "none") is None


def test_a_card_says_what_was_trained_and_holds_no_markup_of_others() -> None:
    card = {
        **OUTCOME,
        "settings": {"method": "sft", "lora_rank": 8, "data": "a`|\n# x\x1b[31m.jsonl"},
        "base": {"name": "SmolLM2", "digest": ""},
        "data": {"name": "rows\x1b[0m.jsonl", "rows": 4, "sha256": "ab"},
        "weights": "cd",
        "machine": {"system": "Linux"},
    }
    lines = list(summary_lines(card))
    assert lines[0] == "sft of SmolLM2, LoRA of rank 8: 4 steps on 3 rows, 2 s on cpu"
    assert "held-out loss: 2.0000 before, 0.3000 after" in lines
    text = markdown(card)
    assert "\x1b" not in text
    assert "\n# x" not in text
    assert "| 4 | 0.2500 |" in text
    assert ends([(n, float(n)) for n in range(1, 21)]) == (1.5, 19.5)
    assert Trained(Path("none"), Path("none/model"), card).lines()[-1] == "The tuned model is in none/model"
