"""Settings of a training: a TOML file with flat keys, and each method's defaults.

The defaults are those of the papers whose rows `ragc data` writes: preferences as PrefRAG (beta 0.1, learning
rate 5e-7, 8 rows a step, one epoch, 8192 tokens), examples as RQ-RAG (learning rate 2e-5, 3% warmup, linear,
32 rows a step, one epoch, 4096 tokens). A row never counts in part: one that is longer than `max_length` is
left out, where the papers' trainers cut it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from ragc.core.files import missing_file
from ragc.core.tables import (
    Above,
    Choice,
    Flag,
    FromZero,
    Positive,
    Problem,
    Share,
    Table,
    Whole,
    Words,
    read,
)
from ragc.errors import RecipeError
from ragc.recipe.load import read_tables, read_text

METHODS = ("dpo", "sft")
SCHEDULES = ("linear", "cosine", "constant")
DTYPES = ("auto", "float32", "bfloat16")
EMBEDDED = "embedded"
"""The base that is the default model of embedded targets."""

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "dpo": {"learning_rate": 5e-7, "gradient_accumulation": 8, "max_length": 8192, "warmup": 0.0},
    "sft": {"learning_rate": 2e-5, "gradient_accumulation": 32, "max_length": 4096, "warmup": 0.03},
}
_BETA = 0.1
_MAX_SEED = 2**32 - 1


class TrainTable(Table):
    """The whole file: one flat table."""

    base: Words = Field(
        examples=[EMBEDDED],
        description="What is trained: embedded, a GGUF file, a Hugging Face directory, or an id of its hub.",
    )
    data: Words = Field(examples=["rows.jsonl"], description="The rows, a file.")
    method: Annotated[str, Choice(METHODS)] = Field(
        examples=["sft"], description="dpo for preferences, sft for examples."
    )
    steps: Whole = Field(default=0, description="Optimizer steps; 0 lets `epochs` decide.")
    epochs: Above = Field(default=1.0, description="Passes over the rows.")
    learning_rate: Annotated[Above, Field(lt=1)] | None = Field(
        default=None, description="The highest learning rate. By default 5e-7 for dpo, 2e-5 for sft."
    )
    schedule: Annotated[str, Choice(SCHEDULES)] = Field(
        default="linear", description="How the learning rate falls after the warmup."
    )
    warmup: Annotated[FromZero, Field(lt=1)] | None = Field(
        default=None, description="Share of the steps in which it rises. By default 0 for dpo, 0.03 for sft."
    )
    weight_decay: Share = Field(default=0.0, description="AdamW's decay.")
    beta: Above | None = Field(
        default=None, description="Of dpo: how close to the base it stays. By default 0.1."
    )
    lora_rank: Annotated[Whole, Field(le=1024)] = Field(
        default=0, description="Rank of LoRA on all linear layers, alpha twice that; 0 trains all weights."
    )
    max_length: Annotated[int, Field(strict=True, ge=16)] | None = Field(
        default=None,
        description="Tokens of a row, longer ones are left out. By default 8192 for dpo, 4096 for sft.",
    )
    batch: Positive = Field(default=1, description="Rows that are computed together.")
    gradient_accumulation: Positive | None = Field(
        default=None, description="Batches of an optimizer step. By default 8 for dpo, 32 for sft."
    )
    held_out: Whole = Field(
        default=0, description="Rows that are not trained on, whose loss is measured before and after."
    )
    seed: Annotated[Whole, Field(le=_MAX_SEED)] = Field(default=1, description="Order of rows, LoRA's start.")
    checkpoint_steps: Positive = Field(
        default=50, description="Optimizer steps between checkpoints, from which a killed run goes on."
    )
    dtype: Annotated[str, Choice(DTYPES)] = Field(
        default="auto", description="Arithmetic; auto is bfloat16 where a GPU has it, else float32."
    )
    gradient_checkpointing: Flag = Field(default=False, description="Less memory for a fifth more time.")


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """A training as it will run: every key has a value; `beta` is 0 for sft.

    `base` is as written, or the absolute path of a file or folder; `data` is an absolute path.
    """

    base: str
    data: Path
    method: str
    steps: int
    epochs: float
    learning_rate: float
    schedule: str
    warmup: float
    weight_decay: float
    beta: float
    lora_rank: int
    max_length: int
    batch: int
    gradient_accumulation: int
    held_out: int
    seed: int
    checkpoint_steps: int
    dtype: str
    gradient_checkpointing: bool

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values by key; of paths only the last name, so that a card names no folder of its
        machine.
        """
        base = Path(self.base).name if Path(self.base).is_absolute() else self.base
        return {**asdict(self), "base": base, "data": self.data.name}


def load(path: str | Path, sets: Sequence[str] = ()) -> TrainSettings:
    """Returns the settings in the TOML file at `path`, with the overrides `sets` (`key=value`) applied in
    order.

    Relative paths are relative to the file. Raises UsageError when it cannot be read, and RecipeError with
    all problems of its content.
    """
    path = Path(path)
    written = read_tables(read_text(path, "training file"), sets, str(path))
    table, found = read(TrainTable, written.values)
    if table.method == "sft" and table.beta is not None:
        found.append(Problem(("beta",), "beta belongs to method dpo; leave it out for sft"))
    folder = path.resolve().parent
    base = table.base if is_address(table.base, folder) else str(folder / table.base)
    data = folder / table.data
    wrong = {problem.keys[0] for problem in found}
    if "data" not in wrong and not data.exists():
        found.append(Problem(("data",), missing_file(f"data = {table.data!r}", table.data, folder)))
    if "base" not in wrong and Path(base).is_absolute() and not Path(base).exists():
        found.append(Problem(("base",), missing_file(f"base = {table.base!r}", table.base, folder)))
    if texts := written.sentences(found):
        raise RecipeError(str(path), texts)
    filled: dict[str, Any] = {**_DEFAULTS[table.method], "beta": _BETA if table.method == "dpo" else 0.0}
    named = {name: value for name, value in dict(table).items() if value is not None}
    return TrainSettings(**{**filled, **named, "base": base, "data": data})


def is_address(base: str, folder: Path) -> bool:
    """Returns whether `base` is the default model or a hub id (`owner/name`), and no path in `folder`."""
    if base == EMBEDDED:
        return True
    looks_like_id = base.count("/") == 1 and not base.startswith((".", "/", "~")) and not base.endswith("/")
    return (
        looks_like_id and not base.endswith(".gguf") and not os.path.exists(folder / base.partition("/")[0])  # noqa: PTH110
    )
