"""Every settings file of `experiments/training` trains a tiny model, and its program runs on what comes out.

The rows are those of the file's own command, from few questions and scripted models. RAGC_TRAIN_PYTHON names
the Python with the extra `train`; the tests are skipped where there is none. `make nightly` makes one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import ragc
from ragc.programs.trace import Call
from tests.experiments.training_files import FILES, RowsCommand, make_rows
from tests.integration.fetched import default_weights
from tests.integration.test_training import halves, python, run

pytestmark = [pytest.mark.integration, pytest.mark.timeout(3000)]

TINY = (
    "base=embedded", "steps=6", "batch=1", "gradient_accumulation=1", "lora_rank=8", "learning_rate=1e-3",
    "warmup=0", "max_length=2048", "held_out=0", "gradient_checkpointing=false",
)  # fmt: skip
"""What fits a file for billions of weights to a model of 135M."""

TAUGHT = {
    "prefrag-dpo": ("step", "answer"),
    "rqrag-sft": ("rewrite", "answer"),
    "slimplm-judge": ("draft", "judge"),
}
"""By kind of rows a call that its program makes first, and one that its rows teach or that ends it."""

RUN = {
    "prefrag-dpo": ("knobs.max_step=1",),
    "rqrag-sft": ("knobs.max_depth=1",),
    "slimplm-judge": ("knobs.proxy_tokens=64", "knobs.judge_demos=0"),
}
"""By kind of rows settings that spare tokens."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder whose home has the default weights, which a test may not fetch."""
    python()
    weights = default_weights()
    (tmp_path / "home/weights").mkdir(parents=True)
    (tmp_path / "home/weights" / weights.name).symlink_to(weights)
    return tmp_path


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_settings_file_trains_and_its_program_runs_on_the_tuned_model(
    file: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    monkeypatch.setenv("RAGC_HOME", str(home / "home"))
    settings = make_rows(file, home, "knobs.wording=brief", n=4)
    sets = [word for text in TINY for word in ("--set", text)]
    card = run(home, settings.name, "--out", "tuned", *sets)
    first, last = halves(card)
    assert last < first
    assert (card["steps"], card["too_long"]) == (6, 0)
    pytest.importorskip("xllamacpp")
    kind = RowsCommand.of(file).kind
    models = [f"targets.{role}.model={card['gguf']}" for role in ("main", "proxy", "teacher")]
    row = ragc.ask(
        "recipe.toml", "What colour is thing number1?", sets=["knobs.wording=brief", *RUN[kind], *models]
    )
    called = [event.name for event in row.trace if isinstance(event, Call)]
    assert set(TAUGHT[kind]) <= set(called), called
    assert not row.failure
