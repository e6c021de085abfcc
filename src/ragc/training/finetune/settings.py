"""Settings of a training: a TOML file with flat keys, and each method's defaults.

The defaults are those of the papers whose rows `ragc data` writes: preferences as PrefRAG (beta 0.1, learning
rate 5e-7, 8 rows a step, one epoch, 8192 tokens), examples as RQ-RAG (learning rate 2e-5, 3% warmup, linear,
32 rows a step, one epoch, 4096 tokens). A row never counts in part: one that is longer than `max_length` is
left out, where the papers' trainers cut it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
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

EMBEDDED = "embedded"
"""The base that is the default model of embedded targets."""

_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "dpo": {
        "learning_rate": 5e-7,
        "gradient_accumulation": 8,
        "max_length": 8192,
        "warmup": 0.0,
        "beta": 0.1,
    },
    "sft": {
        "learning_rate": 2e-5,
        "gradient_accumulation": 32,
        "max_length": 4096,
        "warmup": 0.03,
        "beta": 0.0,
    },
}

_HUB_ID = re.compile(r"[^./~][^/]*/[^/]+(?<!\.gguf)")
"""A model of the Hugging Face hub: owner/name."""


def _of_method(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda values: _DEFAULTS[values["method"]][key]


class TrainSettings(Table):
    """The settings of a training; `beta` is 0 for sft.

    `load` makes `data` an absolute path, and `base` too where it is a file or folder.
    """

    base: Words = Field(
        examples=[EMBEDDED],
        description="What is trained: embedded, a GGUF file, a Hugging Face directory, or an id of its hub.",
    )
    data: Words = Field(examples=["rows.jsonl"], description="The rows, a file.")
    method: Annotated[str, Choice(("dpo", "sft"))] = Field(
        examples=["sft"], description="dpo for preferences, sft for examples."
    )
    steps: Whole = Field(default=0, description="Optimizer steps; 0 lets `epochs` decide.")
    epochs: Above = Field(default=1.0, description="Passes over the rows.")
    learning_rate: Annotated[Above, Field(lt=1)] = Field(
        default_factory=_of_method("learning_rate"),
        description="The highest learning rate. By default 5e-7 for dpo, 2e-5 for sft.",
    )
    schedule: Annotated[str, Choice(("linear", "cosine", "constant"))] = Field(
        default="linear", description="How the learning rate falls after the warmup."
    )
    warmup: Annotated[FromZero, Field(lt=1)] = Field(
        default_factory=_of_method("warmup"),
        description="Share of the steps in which it rises. By default 0 for dpo, 0.03 for sft.",
    )
    weight_decay: Share = Field(default=0.0, description="AdamW's decay.")
    beta: Above = Field(
        default_factory=_of_method("beta"),
        description="Of dpo: how close to the base it stays. By default 0.1.",
    )
    lora_rank: Annotated[Whole, Field(le=1024)] = Field(
        default=0, description="Rank of LoRA on all linear layers, alpha twice that; 0 trains all weights."
    )
    max_length: Annotated[int, Field(strict=True, ge=16)] = Field(
        default_factory=_of_method("max_length"),
        description="Tokens of a row, longer ones are left out. By default 8192 for dpo, 4096 for sft.",
    )
    batch: Positive = Field(default=1, description="Rows that are computed together.")
    gradient_accumulation: Positive = Field(
        default_factory=_of_method("gradient_accumulation"),
        description="Batches of an optimizer step. By default 8 for dpo, 32 for sft.",
    )
    held_out: Whole = Field(
        default=0, description="Rows that are not trained on, whose loss is measured before and after."
    )
    seed: Annotated[Whole, Field(lt=2**32)] = Field(default=1, description="Order of rows, LoRA's start.")
    checkpoint_steps: Positive = Field(
        default=50, description="Optimizer steps between checkpoints, from which a killed run goes on."
    )
    dtype: Annotated[str, Choice(("auto", "float32", "bfloat16"))] = Field(
        default="auto", description="Arithmetic; auto is bfloat16 where a GPU has it, else float32."
    )
    gradient_checkpointing: Flag = Field(default=False, description="Less memory for a fifth more time.")


def load(path: str | Path, sets: Sequence[str] = ()) -> TrainSettings:
    """Returns the settings in the TOML file at `path`, with the overrides `sets` (`key=value`) applied in
    order.

    Relative paths are relative to the file. Raises UsageError when it cannot be read, and RecipeError with
    all problems of its content.
    """
    path = Path(path)
    written = read_tables(read_text(path, "training file"), sets, str(path))
    settings, problems = read(TrainSettings, written.values)
    base, folder = settings.base, path.resolve().parent
    is_address = base == EMBEDDED or (_HUB_ID.fullmatch(base) and not (folder / base).parent.exists())
    files = {"data": settings.data} | ({} if is_address else {"base": base})
    wrong = {problem.keys[0] for problem in problems}
    if settings.method == "sft" and settings.beta:
        problems.append(Problem(("beta",), "beta belongs to method dpo; leave it out for sft"))
    for key, name in files.items():
        if key not in wrong and not (folder / name).exists():
            problems.append(Problem((key,), missing_file(f"{key} = {name!r}", name, folder)))
    if texts := written.sentences(problems):
        raise RecipeError(str(path), texts)
    return settings.replace(**{key: str(folder / name) for key, name in files.items()})
