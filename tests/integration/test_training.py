"""Fine-tuning for real: SmolLM2 on this processor, killed and resumed, served, and measured before and after.

RAGC_TRAIN_PYTHON names the Python with the extra `train` (this one where it is not set); tests are skipped
where it lacks that. `make nightly` makes an environment for them. What needs vLLM is skipped where
`vllm_server` finds none.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ragc.cli.main import main
from tests.integration import vllm_server
from tests.paths import ROOT, SRC
from tests.support.recipes import recipe_toml
from tests.support.rows import write_rows

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3000)]

NEEDED = ("trl", "peft", "gguf", "torch", "accelerate")
SETTINGS = """
base = "embedded"
data = "{data}"
method = "{method}"
steps = {steps}
batch = 2
gradient_accumulation = 1
learning_rate = {rate}
lora_rank = {rank}
held_out = 4
checkpoint_steps = {often}
"""
RECIPE = recipe_toml(
    knobs={"wording": "brief", "top_k": 1},
    data={"dataset": "pydocs", "train": 0, "dev": 6, "test": 0},
    metrics=["f1", "em"],
)
OTHER = "I would be happy to help you with that question."


@cache
def python() -> str:
    """A Python with the extra `train`; the test is skipped where there is none."""
    named = os.environ.get("RAGC_TRAIN_PYTHON") or sys.executable
    check = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {NEEDED})))"
    if subprocess.run([named, "-c", check], check=False).returncode:
        pytest.skip("needs the extra `train` here or in the Python that RAGC_TRAIN_PYTHON names")
    return named


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of questions about Python, settings, and a home with the default weights."""
    python()
    folder = tmp_path_factory.mktemp("training")
    fetch = "from ragc.downloads import default_weights; print(default_weights())"
    weights = Path(vllm_server.ran([sys.executable, "-c", fetch]))  # in a process that may leave the machine
    (folder / "home/weights").mkdir(parents=True)
    (folder / "home/weights" / weights.name).symlink_to(weights)
    questions = (ROOT / "corpora/datasets/pydocs/questions.jsonl").read_text("utf-8").splitlines()
    preferences, examples = list[Any](), list[Any]()
    train = [question for question in map(json.loads, questions) if question["split"] == "train"]
    for question in train[:24]:
        prompt = [{"role": "user", "content": question["question"]}]
        answer, other = ([{"role": "assistant", "content": text}] for text in (question["answers"][0], OTHER))
        preferences.append({"id": question["id"], "prompt": prompt, "chosen": answer, "rejected": other})
        examples.append({"id": question["id"], "messages": [*prompt, *answer]})
    for name, rows in (("dpo", preferences), ("sft", examples)):
        write_rows(folder / f"{name}.jsonl", rows)
    for method, rate, rank, often in (("dpo", 2e-5, 0, 8), ("sft", 1e-3, 8, 2)):
        text = SETTINGS.format(
            data=f"{method}.jsonl", method=method, steps=8, rate=rate, rank=rank, often=often
        )
        (folder / f"{method}.toml").write_text(text, "utf-8")
    return folder


def command(*words: str) -> list[str]:
    return [python(), "-m", "ragc", "train", *words, "--json"]


def environment(folder: Path) -> dict[str, str]:
    """Of a training: its home, no hub, and one thread, so that sums are added up in one order."""
    own = {"RAGC_HOME": str(folder / "home"), "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **own, "HF_HUB_OFFLINE": "1"}


def run(folder: Path, *words: str) -> dict[str, Any]:
    """What `ragc train` printed; the test fails when it did."""
    done = subprocess.run(
        command(*words), cwd=folder, env=environment(folder), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    card: dict[str, Any] = json.loads(done.stdout)
    return card


@pytest.fixture(scope="module")
def sft(folder: Path) -> dict[str, Any]:
    return run(folder, "sft.toml", "--out", "sft")


def halves(card: dict[str, Any]) -> tuple[float, float]:
    """The mean losses of the first and of the second half of the steps."""
    losses = [loss for _, loss in card["losses"]]
    middle = len(losses) // 2
    return sum(losses[:middle]) / middle, sum(losses[middle:]) / (len(losses) - middle)


def test_examples_are_learned_with_lora(folder: Path, sft: dict[str, Any]) -> None:
    first, last = halves(sft)
    assert last < first
    assert sft["after"]["loss"] < sft["before"]["loss"]
    assert (sft["rows"], sft["held_out"], sft["steps"], sft["resumed"]) == (20, 4, 8, 0)
    assert 0 < sft["trained_weights"] < sft["all_weights"] / 10
    written = {path.name for path in (folder / "sft").iterdir()}
    assert written >= {"model", "adapter", "model.gguf", "card.json", "card.md"}
    assert "checkpoints" not in written
    card = (folder / "sft/card.md").read_text("utf-8")
    assert sft["data"]["sha256"] in card
    assert str(folder) not in card


def test_a_killed_training_goes_on_to_the_same_weights(folder: Path, sft: dict[str, Any]) -> None:
    words = ("sft.toml", "--out", "killed")
    started = subprocess.Popen(
        command(*words), cwd=folder, env=environment(folder), stdout=subprocess.DEVNULL
    )
    until = time.monotonic() + 1500
    while not list(folder.glob("killed/checkpoints/*/trainer_state.json")):
        assert started.poll() is None, "it ended before its first checkpoint"
        assert time.monotonic() < until
        time.sleep(0.05)
    started.send_signal(signal.SIGKILL)
    started.wait()
    cut = folder / "killed/checkpoints/checkpoint-7"
    cut.mkdir()  # as a kill leaves one that is being written
    (cut / "model.safetensors").write_bytes(b"half")
    card = run(folder, *words)
    assert card["resumed"] in (2, 4, 6)
    assert card["losses"] == sft["losses"]
    assert card["weights"] == sft["weights"]
    assert card["before"] == sft["before"]
    assert run(folder, *words) == card  # finished: nothing is trained again


def test_preferences_are_learned_with_all_weights(folder: Path) -> None:
    card = run(folder, "dpo.toml", "--out", "dpo")
    first, last = halves(card)
    assert card["before"]["loss"] == pytest.approx(0.6931, abs=0.001)  # the model is its own reference
    assert last < first
    assert card["after"]["loss"] < card["before"]["loss"]
    assert card["after"]["preferred"] >= card["before"]["preferred"]
    assert card["trained_weights"] == card["all_weights"]


def test_the_tuned_model_answers_and_the_difference_is_said(
    folder: Path, sft: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("xllamacpp")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("RAGC_HOME", str(folder / "home"))
    (folder / "recipe.toml").write_text(RECIPE, "utf-8")
    for name, model in (("before", ""), ("after", sft["gguf"])):
        sets = ["--set", f"targets.main.model={model}"] if model else []
        assert main(["eval", "recipe.toml", "--split", "dev", "--out", f"{name}.jsonl", *sets]) == 0
    capsys.readouterr()
    assert main(["eval", "before.jsonl", "after.jsonl", "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)
    assert compared["n"] == 6
    assert "f1" in compared["metrics"]


def test_vllm_serves_the_tuned_model(
    folder: Path, sft: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = vllm_server.serve(sft["model"])
    monkeypatch.chdir(folder)
    target = f'kind = "vllm"\nmodel = "model"\nbase_url = "{url}"'
    (folder / "served.toml").write_text(RECIPE.replace('kind = "embedded"', target), "utf-8")
    assert main(["ask", "served.toml", "Which exception ends an iterator?", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["prediction"]
    assert main(["eval", "served.toml", "--split", "dev", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 6


def test_a_base_becomes_a_directory(folder: Path) -> None:
    assert run(folder, "--base", "embedded", "--out", "base")["base"] == "embedded"
    assert {path.name for path in (folder / "base").iterdir()} >= {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "chat_template.jinja",
    }
