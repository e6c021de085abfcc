"""Settings of a training: the papers' defaults, and everything wrong at once with line and nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragc.errors import RecipeError, UsageError
from ragc.training.finetune.settings import TrainSettings, load
from tests.paths import ROOT


def write(folder: Path, text: str) -> Path:
    (folder / "rows.jsonl").write_text("{}\n", "utf-8")
    path = folder / "train.toml"
    path.write_text(text, "utf-8")
    return path


def minimal(method: str, base: str = "embedded") -> str:
    return f'base = "{base}"\ndata = "rows.jsonl"\nmethod = "{method}"\n'


def test_what_is_left_out_is_as_in_the_papers(tmp_path: Path) -> None:
    dpo, sft = (load(write(tmp_path, minimal(method))) for method in ("dpo", "sft"))
    assert (dpo.beta, dpo.learning_rate, dpo.batch * dpo.gradient_accumulation) == (0.1, 5e-7, 8)
    assert (dpo.epochs, dpo.max_length, dpo.lora_rank) == (1.0, 8192, 0)
    assert (sft.learning_rate, sft.warmup, sft.schedule) == (2e-5, 0.03, "linear")
    assert (sft.epochs, sft.batch * sft.gradient_accumulation, sft.max_length) == (1.0, 32, 4096)
    assert dpo.data == tmp_path / "rows.jsonl"


def effective(name: str, folder: Path) -> TrainSettings:
    text = (ROOT / f"experiments/training/{name}.toml").read_text("utf-8")
    path = write(folder, text)
    return load(path, ["data=rows.jsonl"])


def test_the_files_that_come_along_say_what_the_papers_say(tmp_path: Path) -> None:
    prefrag = effective("prefrag-dpo", tmp_path)
    assert (prefrag.method, prefrag.beta, prefrag.learning_rate, prefrag.epochs) == ("dpo", 0.1, 5e-7, 1.0)
    assert prefrag.batch * prefrag.gradient_accumulation == 8
    rqrag = effective("rqrag-sft", tmp_path)
    assert (rqrag.method, rqrag.learning_rate, rqrag.warmup, rqrag.max_length) == ("sft", 2e-5, 0.03, 4096)
    assert rqrag.batch * rqrag.gradient_accumulation == 32
    judge = effective("slimplm-judge", tmp_path)
    assert (judge.learning_rate, judge.epochs, judge.weight_decay, judge.warmup) == (1e-4, 2.0, 0.01, 0.1)
    assert (judge.batch * judge.gradient_accumulation, judge.seed) == (64, 1234)
    listed = {path.stem for path in (ROOT / "experiments/training").glob("*.toml")}
    assert listed == {"prefrag-dpo", "rqrag-sft", "slimplm-judge"}


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = minimal("dop") + 'learning_rat = 1\nlearning_rate = "fast"\nbatch = 0\nseed = true\n'
    with pytest.raises(RecipeError) as caught:
        load(write(tmp_path, text))
    assert len(caught.value.problems) == 5
    message = str(caught.value)
    assert "found 'dop'. Did you mean 'dpo'?" in message
    assert "learning_rat: unknown key at the top. Did you mean 'learning_rate'?" in message
    assert "learning_rate must be a number, found 'fast'" in message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('method = "sft"\n', "base is missing"),
        (minimal("sft") + "beta = 0.1\n", "beta belongs to method dpo"),
        (minimal("sft").replace("rows", "row"), "Did you mean 'rows.jsonl'"),
        (minimal("sft", base="model.gguf"), "base = 'model.gguf': there is no such file"),
        (minimal("sft", base="./mine/model"), "there is no such file"),
        ("base = \n", "this is not TOML"),
        (minimal("sft") + "learning_rate = 2\n", "below 1"),
    ],
)
def test_what_cannot_be_is_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(write(tmp_path, text))
    assert problem in str(caught.value)


def test_overrides_and_bases(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    path = write(tmp_path, minimal("sft"))
    changed = load(path, ["learning_rate=1e-5", "base=model", "steps=3"])
    assert (changed.learning_rate, changed.steps, changed.base) == (1e-5, 3, str(tmp_path / "model"))
    assert load(path, ["base=Qwen/Qwen2.5-0.5B-Instruct"]).base == "Qwen/Qwen2.5-0.5B-Instruct"
    with pytest.raises(RecipeError, match="--set steps: steps must be a whole number"):
        load(path, ["steps=few"])
    with pytest.raises(UsageError, match=r"the training file .*there is no such file"):
        load(tmp_path / "none.toml")
    assert "/" not in str(changed.to_json()["base"])
