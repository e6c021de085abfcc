"""Training data from a recipe, and models fine-tuned on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from ragc.compiled.access import Access
from ragc.core.progress import SILENT
from ragc.errors import UsageError

if TYPE_CHECKING:
    from ragc.core.progress import Progress
    from ragc.training.data.base import TrainingData
    from ragc.training.finetune.train import Trained


@overload
def training_data(
    kind: str,
    recipe: str | Path,
    *,
    out: str | Path | None = ...,
    sets: Sequence[str] = ...,
    format: str = ...,
    dry_run: Literal[True],
    progress: Progress | None = ...,
    access: Access = ...,
) -> dict[str, Any]: ...
@overload
def training_data(
    kind: str,
    recipe: str | Path,
    *,
    out: str | Path,
    sets: Sequence[str] = ...,
    format: str = ...,
    dry_run: Literal[False] = ...,
    progress: Progress | None = ...,
    access: Access = ...,
) -> TrainingData: ...
def training_data(
    kind: str,
    recipe: str | Path,
    *,
    out: str | Path | None = None,
    sets: Sequence[str] = (),
    format: str = "trl",
    dry_run: bool = False,
    progress: Progress | None = None,
    access: Access = Access(),
) -> TrainingData | dict[str, Any]:
    """Makes training data for small models from the train questions of a recipe, and writes it to `out`.

    `kind` is prefrag-dpo, rqrag-sft, slimplm-labels, slimplm-judge or slimplm-rewrites; with demonstrations
    `recipe` is a compiled program, and nothing is sent. `out` is a file FILE.jsonl, its card is FILE.md.
    `format` is trl or llamafactory. `access` is that of `load`, for demonstrations.
    A call that was cut off goes on when it is repeated. Returns a TrainingData with `rows`,
    `classes`, `drops`, `card` and `counters`. With `dry_run` nothing is sent or written, `out` may be left
    out, and a JSON object is returned: `questions`, `calls_a_question`, and upper bounds `lm_calls`, `tokens`
    and `usd` (None where unknown).

        data = ragc.training_data("prefrag-dpo", "recipe.toml", out="pairs.jsonl")
        print(data.classes, data.drops)

    Raises RecipeError, UsageError for an `out` with something else and for a dry run of demonstrations,
    BudgetExhausted with the rows of complete questions written, NothingAnswered where there is no row, and
    TargetError.
    """
    from ragc.training.data import build

    if out is None and not dry_run:
        raise UsageError("Training data needs `out`, the file FILE.jsonl to write; pass out=.")
    if kind == "demonstrations":
        if dry_run or out is None:
            raise UsageError(
                "Demonstrations send nothing, so there is nothing to plan; leave the dry run out."
            )
        from ragc.compiled.resolve import Opening

        how = Opening(tuple(sets), access.absolute())
        return build.demonstrations(recipe, out, format=format, how=how)
    from ragc import recipe as recipes

    resolved = recipes.load(recipe, sets)
    if dry_run or out is None:
        return build.estimate(kind, resolved, out)
    return build.build(kind, resolved, out, format=format, progress=progress or SILENT)


def train(
    config: str | Path, *, out: str | Path, sets: Sequence[str] = (), progress: Progress | None = None
) -> Trained:
    """Fine-tunes a model on rows of training data, as the TOML file `config` says, into the directory `out`.

    A killed training resumes; a finished one is returned as it is. Returns a Trained with `model`, the
    directory of the tuned model that vLLM and transformers open, and `card`, with losses and settings.

        trained = ragc.train("train.toml", out="tuned/mine")
        print(trained.card["after"]["loss"])

    Raises RecipeError with all problems of the file, DataError with those of its rows, UsageError if the
    extra `train` is absent or `out` holds something else, and RagcError.
    """
    from ragc.training.finetune import train as training

    return training.train(config, out, sets=sets, progress=progress)


def write_base(base: str, *, out: str | Path, progress: Progress | None = None) -> Path:
    """Writes `embedded` or a GGUF file as a Hugging Face directory `out`, which vLLM and TRL open.

    Returns the path of the directory.
    Raises UsageError, also where the extra `train` is absent or `out` is not empty.
    """
    from ragc.core.progress import Silent
    from ragc.training.finetune.base_models import write_base as write

    return Path(write(base, out, progress or Silent()).path)
