"""A training from its file to its card, in a folder in which a killed run is resumed.

    OUT/training.json   what is trained, from what, and whether it is finished
    OUT/checkpoints/    while it runs
    OUT/model/          weights, tokenizer, chat template: vLLM and transformers open it
    OUT/model.gguf      the same for embedded targets, if the base was a GGUF file
    OUT/adapter/        with LoRA, the adapter alone
    OUT/card.json, card.md

A finished training has no checkpoints.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ragc.core.digest import digest, file_digest, pretty
from ragc.core.files import check_writable, put_file, read_text, resolve_out
from ragc.core.progress import Progress, Silent
from ragc.corpora.embed.model_files import folder_digests
from ragc.errors import UsageError
from ragc.training.finetune import base_models, rows, trainers
from ragc.training.finetune.base_models import BaseModel
from ragc.training.finetune.card import markdown, summary_lines
from ragc.training.finetune.settings import TrainSettings, load

STATE, CARD = "training.json", "card.json"
_FORMAT, _CARD_FORMAT = "ragc.training/1", "ragc.training-card/1"
_LIBRARIES = ("torch", "transformers", "trl", "peft")
_FREE = ("checkpoint_steps",)
"""Settings that may differ when a training goes on."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished training: its folder, the folder of the tuned model, and its card."""

    path: Path
    model: Path
    card: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {"out": str(self.path), **self.card, "model": str(self.model), "gguf": str(self.gguf or "")}

    def lines(self) -> list[str]:
        """Returns what was trained and how the losses changed, for a terminal."""
        also = f", and for embedded targets in {self.gguf}" if self.gguf else ""
        return [*summary_lines(self.card), f"The tuned model is in {self.model}{also}"]

    @property
    def gguf(self) -> Path | None:
        """The tuned model as a GGUF file; None if the base was none."""
        path = self.path / "model.gguf"
        return path if path.is_file() else None


def train(
    config: str | Path, out: str | Path, *, sets: Sequence[str] = (), progress: Progress | None = None
) -> Trained:
    """Trains what the TOML file `config` says, into the folder `out`; a killed training resumes.

    A finished one is returned as it is. Raises RecipeError for the file, DataError for its rows, UsageError
    for an `out` with something else or if the extra `train` is absent, and RagcError.
    """
    settings, progress = load(config, sets), progress or Silent()
    read_rows = rows.read(settings.data, settings.method)
    train_rows, held_rows = rows.hold_out(read_rows, settings.held_out, settings.seed)
    base_models.require("Fine-tuning")
    folder = resolve_out(out)
    _check_folder(folder)
    data = {"name": settings.data.name, "sha256": file_digest(settings.data), "rows": len(read_rows)}
    base = base_models.resolve(settings.base, progress)
    subject = {
        "settings": settings.to_json(),
        "data": data,
        "base": {"name": base.name, "digest": base.digest},
    }
    check_writable(folder)
    folder.mkdir(parents=True, exist_ok=True)
    from filelock import FileLock, Timeout

    try:
        with FileLock(folder / ".lock", timeout=0):
            return _continue(settings, base, train_rows, held_rows, subject, folder, progress)
    except Timeout:
        raise UsageError(
            f"{folder} is in use by another training; wait for it, or choose another --out."
        ) from None


def _continue(
    settings: TrainSettings,
    base: BaseModel,
    train_rows: Sequence[rows.TrainRow],
    held_rows: Sequence[rows.TrainRow],
    subject: dict[str, Any],
    folder: Path,
    progress: Progress,
) -> Trained:
    """Begins the training of `subject` in `folder`, resumes it, or returns its result."""
    state = _state(folder)
    if state:
        _check_same(state["subject"], subject, folder)
    if state.get("finished"):
        progress.note(f"{folder} holds this training, finished")
        return Trained(folder, folder / "model", json.loads(read_text(folder / CARD)))

    def write(memory: dict[str, Any], *, finished: bool = False) -> None:
        content = {"format": _FORMAT, "subject": subject, "memory": memory, "finished": finished}
        put_file(folder / STATE, pretty(content).encode())

    def recall() -> dict[str, Any]:
        memory: dict[str, Any] = _state(folder).get("memory", {})
        return memory

    if not state:
        write({})  # before any other file, so that a kill at any time leaves a folder that goes on
    memory = trainers.Memory(recall, write)
    outcome = trainers.run(settings, base, train_rows, held_rows, folder, memory, progress)
    card = {
        "format": _CARD_FORMAT,
        **subject,
        **asdict(outcome),
        "weights": digest(folder_digests(folder / "model", ("*.safetensors",))),
        "machine": _machine(),
    }
    put_file(folder / CARD, pretty(card).encode())
    put_file(folder / "card.md", markdown(card).encode())
    write(recall(), finished=True)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    return Trained(folder, folder / "model", json.loads(pretty(card)))


def _check_folder(folder: Path) -> None:
    """Raises UsageError unless `folder` is absent, empty, or of a training."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise UsageError(f"{folder} exists and is not a folder; choose another --out.")
    if folder.is_dir() and any(path.name != ".lock" for path in folder.iterdir()) and not _state(folder):
        raise UsageError(f"{folder} exists and is no training; choose another --out or move it away.")


def _state(folder: Path) -> dict[str, Any]:
    """Returns the content of the state file of `folder`; {} if it is missing or damaged."""
    try:
        state = json.loads(read_text(folder / STATE))
    except (OSError, ValueError, RecursionError):
        return {}
    whole = isinstance(state, dict) and state.get("format") == _FORMAT
    return state if whole and isinstance(state.get("subject"), dict) else {}


def _check_same(before: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """Raises UsageError, with what differs, unless the training in `folder` is the same one."""
    changed = [
        f"{'' if part == 'settings' else f'{part}.'}{name} was {was.get(name)!r} and is {value!r}"
        for part, values in now.items()
        for was in [before.get(part) or {}]
        for name, value in values.items()
        if name not in _FREE and was.get(name) != value
    ]
    if changed:
        raise UsageError(
            f"{folder} holds another training: {'; '.join(changed)}. Choose another --out, or change it back."
        )


def _machine() -> dict[str, Any]:
    """Returns the system, processor cores, and versions of the libraries."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores,
        "python": platform.python_version(),
        **{name: version(name) for name in _LIBRARIES},
    }
