"""A training with TRL, from its file to its card, in a folder in which a killed run is resumed.

    OUT/training.json   what is trained, and from what
    OUT/checkpoints/    while it runs
    OUT/model/          weights, tokenizer, chat template: vLLM and transformers open it
    OUT/model.gguf      the same for embedded targets, if the base was a GGUF file
    OUT/adapter/        with LoRA, the adapter alone
    OUT/card.md, card.json

`card.json` is written last: with it the training is finished, and has no checkpoints.

TRL decides which tokens are learned: of messages all replies where the base's chat template marks them, else
each reply is an example behind the messages before it; of a prompt and its completion the completion; of a
text all of it. DPO's reference is the base: a second copy of the weights, or the base without its adapter
where LoRA is trained. With bfloat16 the weights that are trained stay float32 and only the arithmetic is
short, since a step of 5e-7 is lost in bfloat16; LoRA's base is in it.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from ragc.core import extras
from ragc.core.digest import file_digest, pretty
from ragc.core.files import check_writable, put_file, read_text, resolve_out
from ragc.core.progress import SILENT, Progress
from ragc.core.redact import redact
from ragc.core.text import first_line, visible
from ragc.errors import RagcError, UsageError
from ragc.training.finetune import base_models
from ragc.training.finetune.rows import Row, hold_out, read
from ragc.training.finetune.settings import TrainSettings, load

_SCORES = {
    "eval_loss": "loss",
    "eval_rewards/accuracies": "preferred",
    "eval_mean_token_accuracy": "token_accuracy",
}
"""TRL's names of the scores on held-out rows, and ours: accuracy is of preferred replies, or of learned
tokens."""


Subject = dict[str, dict[str, Any]]
"""What is trained: the content of training.json, with `settings`, `data` and `base`."""


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
    settings, progress, folder = load(config, sets), progress or SILENT, resolve_out(out)
    data = Path(settings.data)
    read_rows = read(data, settings.method)
    train_rows, held_rows = hold_out(read_rows, settings.held_out, settings.seed)
    extras.require("trl", "Fine-tuning")
    before = _subject_in(folder)
    base = base_models.resolve(settings.base, progress)
    shown = {"base": Path(settings.base).name if base.digest else base.name, "data": data.name}
    subject: Subject = {
        "settings": settings.model_dump() | shown,
        "data": {"name": data.name, "sha256": file_digest(data), "rows": len(read_rows)},
        "base": {"name": base.name, "digest": base.digest},
    }
    _check_same(before or subject, subject, folder)
    check_writable(folder)
    card = folder / "card.json"
    try:
        with FileLock(folder / ".lock", timeout=0):
            if card.is_file():
                progress.note(f"{folder} holds this training, finished")
                return Trained(folder, folder / "model", json.loads(read_text(card)))
            put_file(folder / "training.json", pretty(subject).encode())
            outcome = run(settings, base, train_rows, held_rows, folder, progress)
            facts = {
                "format": "ragc.training-card/1",
                **subject,
                **outcome,
                "weights": base_models.folder_digest(folder / "model"),
                "machine": {
                    "system": f"{platform.system()} {platform.machine()}",
                    "cores": os.cpu_count(),
                    "python": platform.python_version(),
                    **{library: version(library) for library in ("torch", "transformers", "trl", "peft")},
                },
            }
            put_file(folder / "card.md", markdown(facts).encode())
            put_file(card, pretty(facts).encode())
            shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    except Timeout:
        raise UsageError(
            f"Another process is training {folder}; wait for it or choose another --out."
        ) from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted; the same command goes on from the last checkpoint.") from None
    return Trained(folder, folder / "model", facts)


def _subject_in(folder: Path) -> Subject | None:
    """Returns what the training in `folder` trains; None where there is none.

    Raises UsageError for anything else.
    """
    if not os.path.lexists(folder) or (
        folder.is_dir() and {path.name for path in folder.iterdir()} <= {".lock"}
    ):
        return None
    try:
        return TypeAdapter(Subject).validate_json(read_text(folder / "training.json"))
    except (OSError, ValueError):
        raise UsageError(
            f"{folder} exists and is no training; choose another --out or move it away."
        ) from None


def _check_same(before: Subject, now: Subject, folder: Path) -> None:
    """Raises UsageError, with what differs, unless the training in `folder` is the same one."""
    changed = [
        f"{part}.{name} was {before.get(part, {}).get(name)!r} and is {value!r}".removeprefix("settings.")
        for part, values in now.items()
        for name, value in values.items()
        if name != "checkpoint_steps" and before.get(part, {}).get(name) != value
    ]
    if changed:
        raise UsageError(
            f"{folder} holds another training: {'; '.join(changed)}. Choose another --out, or change it back."
        )


def run(
    settings: TrainSettings,
    base: base_models.BaseModel,
    train_rows: Sequence[Row],
    held_rows: Sequence[Row],
    folder: Path,
    progress: Progress,
) -> dict[str, Any]:
    """Trains from the last complete checkpoint in `folder`/checkpoints on, and saves to `folder`/model.

    Returns what the card says of it. Raises UsageError for a base that cannot be opened or rows that do not
    fit it, and RagcError when the loss is no number any more or memory does not suffice.
    """
    base_models.quiet_libraries(offline=Path(base.path).is_absolute())
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # else the trainer takes all
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    on_gpu, dtype = torch.cuda.is_available(), settings.dtype
    if dtype == "auto":
        dtype = "bfloat16" if on_gpu and torch.cuda.is_bf16_supported() else "float32"
    progress.phase("loading the base", None)
    tokenizer = _open(AutoTokenizer, base)
    check_base(tokenizer, [*train_rows, *held_rows], base.name)
    model = _open(AutoModelForCausalLM, base, dtype=dtype if settings.lora_rank else "float32")
    states = (folder / "checkpoints").glob("checkpoint-*/trainer_state.json")  # the file that is written last
    resumed = max((int(path.parent.name.rpartition("-")[2]) for path in states), default=0)
    arguments = {
        "output_dir": str(folder / "checkpoints"),
        "eval_on_start": bool(held_rows) and not resumed,
        "bf16": dtype == "bfloat16",
        "use_cpu": not on_gpu,
        "dataloader_pin_memory": on_gpu,
    }
    trainer = _trainer(settings, model, tokenizer, train_rows, held_rows, arguments)
    trainer.add_callback(_watch(progress))
    limit = min(
        settings.max_length, getattr(model.config.get_text_config(), "max_position_embeddings", 2**30)
    )
    too_long = leave_out_long(trainer, limit)
    if too_long:
        progress.note(f"{too_long} rows have more than {limit} tokens and are left out")
    try:
        trained = trainer.train(f"{folder}/checkpoints/checkpoint-{resumed}" if resumed else None)
        after = trainer.evaluate() if held_rows else {}
    except torch.OutOfMemoryError as error:
        raise RagcError(
            "The GPU's memory does not suffice; lower batch or max_length, set gradient_checkpointing = "
            "true, or train with LoRA (lora_rank = 16)."
        ) from error
    log, model = trainer.state.log_history, trainer.model
    before: dict[str, Any] = next((entry for entry in log if "eval_loss" in entry), {})
    counts = [(part.numel(), part.requires_grad) for part in model.parameters()]
    progress.phase("saving the model", None)
    if settings.lora_rank:
        model.save_pretrained(folder / "adapter")
        model = model.merge_and_unload()
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    base_models.share(folder / "model")
    if base.gguf is not None:
        base_models.write_gguf(base.gguf, model.state_dict(), folder / "model.gguf")
    return {
        "steps": trainer.state.global_step,
        "losses": [(entry["step"], entry["loss"]) for entry in log if "loss" in entry],
        "before": {name: before[key] for key, name in _SCORES.items() if key in before},
        "after": {name: after[key] for key, name in _SCORES.items() if key in after},
        "rows": len(trainer.train_dataset),
        "held_out": len(trainer.eval_dataset or ()),
        "too_long": too_long,
        "trained_weights": sum(count for count, is_trained in counts if is_trained),
        "all_weights": sum(count for count, _ in counts),
        "seconds": round(trained.metrics["train_runtime"], 1),
        "resumed": resumed,
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "dtype": dtype,
    }


def _open(kind: Any, base: base_models.BaseModel, **options: Any) -> Any:
    """Returns the tokenizer or model of `base`. Raises UsageError."""
    try:
        return kind.from_pretrained(base.path, **options)
    except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
        where = "" if base.digest else "; without a network to the hub name a directory or a GGUF file"
        raise UsageError(
            f"The base {base.name!r} cannot be opened: {redact(first_line(error))}{where}."
        ) from error


def check_base(tokenizer: Any, rows: Sequence[Row], base: str) -> None:
    """Raises UsageError if the base with this tokenizer cannot learn `rows`, or could not generate them.

    Messages need a chat template, and replies behind control tokens a tokenizer that has them.
    """
    parts = [part for *_, part in (row.values() for row in rows)]
    if not tokenizer.chat_template and not isinstance(parts[0], str):
        raise UsageError(
            f"{base} has no chat template, and rows of messages need one; take a base that was tuned for "
            "chats, or rows of plain text."
        )
    replies = [part if isinstance(part, str) else part[-1]["content"] for part in parts]
    marks = [re.match(r"\s*(\[[A-Za-z]+_\w+\])", reply) for reply in replies]
    for mark in {mark[1] for mark in marks if mark} if all(marks) else ():
        if len(tokenizer(mark, add_special_tokens=False)["input_ids"]) != 1:
            raise UsageError(
                f"Every row ends in a reply behind a control token ({mark}), and {base} has no such token: "
                "it would learn to spell it, and no program reads it. Make rows of the program's own calls, "
                'for RQ-RAG with training_data.form = "calls"; or take a base that has them, and read its '
                "replies yourself."
            )


def examples(rows: Iterable[Row], tokenizer: Any) -> Iterator[Row]:
    """Yields `rows` as TRL masks them: an example for each reply where the chat template marks none."""
    is_marked = re.search(r"\{%-?\s*generation\b", str(tokenizer.chat_template))
    for row in rows:
        messages = [] if is_marked else row.get("messages", [])
        replies = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
        yield from [{"prompt": messages[:n], "completion": [messages[n]]} for n in replies] or [row]


def _trainer(
    settings: TrainSettings,
    model: Any,
    tokenizer: Any,
    train_rows: Sequence[Row],
    held_rows: Sequence[Row],
    arguments: dict[str, Any],
) -> Any:
    """Returns TRL's trainer with these settings."""
    from datasets import Dataset
    from transformers import PrinterCallback
    from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

    arguments |= {
        "max_steps": settings.steps or -1,
        "num_train_epochs": settings.epochs,
        "per_device_train_batch_size": settings.batch,
        "per_device_eval_batch_size": settings.batch,
        "gradient_accumulation_steps": settings.gradient_accumulation,
        "gradient_checkpointing": settings.gradient_checkpointing,
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": settings.schedule.replace("constant", "constant_with_warmup"),
        "warmup_steps": settings.warmup,
        "weight_decay": settings.weight_decay,
        "seed": settings.seed,
        "max_length": None,  # TRL would cut longer rows
        "logging_steps": 0.005,
        "logging_nan_inf_filter": False,
        "save_steps": settings.checkpoint_steps,
        "save_total_limit": 1,
        "report_to": "none",
        "disable_tqdm": True,
    }
    train, evaluated = (
        Dataset.from_list(list(examples(rows, tokenizer))) for rows in (train_rows, held_rows)
    )
    parts = {
        "train_dataset": train,
        "eval_dataset": evaluated if held_rows else None,
        "processing_class": tokenizer,
    }
    if rank := settings.lora_rank:
        from peft import LoraConfig

        lora = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
        parts["peft_config"] = lora
    if settings.method == "sft":
        config = SFTConfig(**arguments, assistant_only_loss="messages" in train.column_names)
        trainer: Any = SFTTrainer(model, args=config, **parts)
    else:
        trainer = DPOTrainer(model, args=DPOConfig(**arguments, beta=settings.beta), **parts)
    trainer.remove_callback(PrinterCallback)  # it writes to stdout, where results go
    return trainer


def leave_out_long(trainer: Any, limit: int) -> int:
    """Leaves out the examples of `trainer` with more than `limit` tokens, and returns how many those are.

    Raises UsageError when no example fits.
    """
    too_long = 0
    for name in ("train_dataset", "eval_dataset"):
        if dataset := getattr(trainer, name):
            fitting = dataset.filter(lambda row: _length(row) <= limit)
            if not fitting:
                raise UsageError(
                    f"All {len(dataset)} rows have more than {limit} tokens; raise max_length, or take a "
                    "base of a longer context."
                )
            setattr(trainer, name, fitting)
            too_long += len(dataset) - len(fitting)
    return too_long


def _length(row: Mapping[str, Any]) -> int:
    """Returns the tokens of an example of TRL, of a preference those of the prompt and the longer reply."""
    replies = (row[name] for name in ("input_ids", "chosen_ids", "rejected_ids") if name in row)
    return len(row.get("prompt_ids", ())) + max(map(len, replies))


def _watch(progress: Progress) -> Any:
    """Returns a callback that shows progress and stops a lost training."""
    from transformers import TrainerCallback

    class Watch(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            progress.phase("training", state.max_steps, "steps")
            progress.step(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            progress.step()

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **more: Any) -> None:
            loss = (logs or {}).get("loss", 0.0)
            if not math.isfinite(loss):
                raise RagcError(
                    f"The loss is {loss} at step {state.global_step}; lower learning_rate, or raise warmup. "
                    "Nothing was saved."
                )

    return Watch()


def summary_lines(card: Mapping[str, Any]) -> Iterator[str]:
    """Yields what was trained and how the losses changed."""
    settings, losses = card["settings"], [loss for _, loss in card["losses"]]
    how = f"LoRA of rank {settings['lora_rank']}" if settings["lora_rank"] else "all weights"
    yield (
        f"{settings['method']} of {card['base']['name']}, {how}: {card['steps']} steps on {card['rows']} "
        f"rows, {card['seconds']:,.0f} s on {card['device']}"
    )
    if card["too_long"]:
        yield f"{card['too_long']} rows were longer than max_length and left out"
    if losses:
        count = max(1, len(losses) // 10)
        first, last = (sum(part) / count for part in (losses[:count], losses[-count:]))
        yield f"loss {first:.4f} in the first tenth of the steps, {last:.4f} in the last"
    for name, after in card["after"].items():
        yield f"held-out {name.replace('_', ' ')}: {card['before'][name]:.4f} before, {after:.4f} after"


def markdown(card: Mapping[str, Any]) -> str:
    """Returns the card as Markdown, without terminal control characters: the summary, then all as JSON."""
    lines = "\n".join(f"- {line}" for line in summary_lines(card))
    return visible(f"# A fine-tuned model\n\n{lines}\n\n```json\n{pretty(card)}```\n")
