"""Settings of a training: the papers' defaults, and everything wrong at once with the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragc.errors import RecipeError, UsageError
from ragc.training.finetune.settings import load
from tests.paths import ROOT


def write(folder: Path, text: str) -> Path:
    (folder / "rows.jsonl").write_text("{}\n", "utf-8")
    path = folder / "train.toml"
    path.write_text(text, "utf-8")
    return path


def minimal(method: str, base: str = "embedded") -> str:
    return f'base = "{base}"\ndata = "rows.jsonl"\nmethod = "{method}"\n'


@pytest.mark.parametrize(
    ("name", "expected", "rows_a_step"),
    [
        (
            "prefrag-dpo",
            {"method": "dpo", "beta": 0.1, "learning_rate": 5e-7, "epochs": 1.0, "warmup": 0.0},
            8,
        ),
        ("rqrag-sft", {"method": "sft", "learning_rate": 2e-5, "warmup": 0.03, "max_length": 4096}, 32),
        ("slimplm-judge", {"learning_rate": 1e-4, "epochs": 2.0, "weight_decay": 0.01, "seed": 1234}, 64),
    ],
)
def test_load_has_the_values_of_the_paper(
    tmp_path: Path, name: str, expected: dict[str, float], rows_a_step: int
) -> None:
    """In the files of the project, and for two papers where a file leaves them out."""
    texts = [(ROOT / f"experiments/training/{name}.toml").read_text("utf-8")]
    texts += [minimal(name.partition("-")[2])] * (name != "slimplm-judge")
    for text in texts:
        settings = load(write(tmp_path, text), ["data=rows.jsonl"])
        assert settings.batch * settings.gradient_accumulation == rows_a_step
        assert {key: getattr(settings, key) for key in expected} == expected


def test_load_reports_all_problems_at_once(tmp_path: Path) -> None:
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
def test_load_refuses_in_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load(write(tmp_path, text))
    assert problem in str(caught.value)


def test_load_takes_overrides_and_all_forms_of_base(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    path = write(tmp_path, minimal("sft"))
    changed = load(path, ["learning_rate=1e-5", "base=model", "steps=3"])
    assert (changed.learning_rate, changed.steps, changed.base) == (1e-5, 3, str(tmp_path / "model"))
    assert changed.data == str(tmp_path / "rows.jsonl")
    assert load(path, ["base=Qwen/Qwen2.5-0.5B-Instruct"]).base == "Qwen/Qwen2.5-0.5B-Instruct"
    with pytest.raises(RecipeError, match="--set steps: steps must be a whole number"):
        load(path, ["steps=few"])
    with pytest.raises(UsageError, match=r"the training file .*there is no such file"):
        load(tmp_path / "none.toml")
