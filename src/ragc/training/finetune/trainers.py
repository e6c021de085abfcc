"""One training with TRL: model, trainer, checkpoints, losses.

DPO's reference is the base: a second copy of the weights, or the base without its adapter where LoRA is
trained. With bfloat16 the weights that are trained stay float32 and only the arithmetic is short, since a
step of 5e-7 is lost in bfloat16; LoRA's base is held in it.
"""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ragc.core.progress import Progress
from ragc.core.redact import redact
from ragc.core.text import first_line
from ragc.errors import RagcError, UsageError
from ragc.training.finetune import encode, gguf_file
from ragc.training.finetune.base_models import BaseModel, quiet_libraries, share
from ragc.training.finetune.rows import TrainRow
from ragc.training.finetune.settings import TrainSettings

_STATE = "trainer_state.json"
"""The last file that is written to a checkpoint: without it the checkpoint is not whole."""

_MAX_LOGGED = 200
_SHORT = 3
"""Locations of rows that are left out, as examples."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The result of a training: steps and their losses, the held-out rows before and after, the machine.

    `losses` are pairs of step and mean loss since the previous pair. `before` and `after` are scores by name,
    empty without held-out rows. `too_long` counts rows that were left out, `tokens` is the length of the
    others. `resumed` is the step at which it was resumed, 0 if it ran through. `seconds` are those of all
    runs, from the first step on.
    """

    steps: int
    losses: tuple[tuple[int, float], ...]
    before: dict[str, float]
    after: dict[str, float]
    rows: int
    held_out: int
    too_long: int
    tokens: int
    trained_weights: int
    all_weights: int
    seconds: float
    resumed: int
    device: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Memory:
    """The state that must survive a kill beside the checkpoints: earlier scores, and seconds so far."""

    read: Callable[[], dict[str, Any]]
    write: Callable[[dict[str, Any]], None]


def run(
    settings: TrainSettings,
    base: BaseModel,
    train_rows: Sequence[TrainRow],
    held_rows: Sequence[TrainRow],
    folder: Path,
    memory: Memory,
    progress: Progress,
) -> TrainingResult:
    """Trains from the last complete checkpoint in `folder`/checkpoints on, and saves to `folder`/model.

    Raises UsageError for a base that cannot be opened or rows that do not fit it, RagcError when the loss is
    no number any more or memory does not suffice, and KeyboardInterrupt with what to do next.
    """
    quiet_libraries(offline=base.local)
    import torch

    if torch.cuda.device_count() > 1:
        raise UsageError(
            f"{torch.cuda.device_count()} GPUs are visible and one is used; name it with "
            "CUDA_VISIBLE_DEVICES=0."
        )
    try:
        return _Run(settings, base, folder, memory, progress).train(train_rows, held_rows)
    except torch.OutOfMemoryError as error:
        raise RagcError(
            "The GPU's memory does not suffice; lower batch or max_length, set gradient_checkpointing = "
            "true, or train with LoRA (lora_rank = 16)."
        ) from error


class _Run:
    """A training in progress."""

    def __init__(
        self, settings: TrainSettings, base: BaseModel, folder: Path, memory: Memory, progress: Progress
    ) -> None:
        self.settings, self.base, self.folder = settings, base, folder
        self.memory, self.progress = memory, progress
        self.checkpoints = folder / "checkpoints"

    def train(self, train_rows: Sequence[TrainRow], held_rows: Sequence[TrainRow]) -> TrainingResult:
        import torch

        settings, progress = self.settings, self.progress
        progress.phase("loading the base", None)
        tokenizer = self._tokenizer()
        encode.check_base(tokenizer, [*train_rows, *held_rows], self.base.name)
        model = self._model()
        limit = min(settings.max_length, _context(model))
        trained, tokens, too_long = self._fitting(tokenizer, train_rows, limit)
        held, _, held_too_long = self._fitting(tokenizer, held_rows, limit)
        steps = settings.steps or _steps(len(trained), settings)
        trainer = self._trainer(tokenizer, model, trained, held, steps)
        checkpoint = last_checkpoint(self.checkpoints)
        start = int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
        state = self.memory.read() if checkpoint else {}
        before: dict[str, float] = state.get("before", {})
        if held and not checkpoint:
            before = self._scores(trainer, "held-out rows, before", len(held))
        state = {"before": before, "seconds": state.get("seconds", 0.0)}
        self.memory.write(state)
        if checkpoint:
            progress.note(f"going on from step {start} of {steps}")
        progress.phase("training", steps, "steps")
        progress.step(start)
        watch = _watch(progress, self.memory, state)
        trainer.add_callback(watch)
        try:
            trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        except KeyboardInterrupt as stop:
            reached = last_checkpoint(self.checkpoints)
            step = reached.name.rpartition("-")[2] if reached else "0"
            raise KeyboardInterrupt(
                f"Interrupted at step {trainer.state.global_step} of {steps}; the same command goes on from "
                f"step {step}."
            ) from stop
        after = self._scores(trainer, "held-out rows, after", len(held)) if held else {}
        weights = list(trainer.model.parameters())
        outcome = TrainingResult(
            steps=trainer.state.global_step,
            losses=tuple(
                (entry["step"], entry["loss"]) for entry in trainer.state.log_history if "loss" in entry
            ),
            before=before,
            after=after,
            rows=len(trained),
            held_out=len(held),
            too_long=too_long + held_too_long,
            tokens=tokens,
            trained_weights=sum(each.numel() for each in weights if each.requires_grad),
            all_weights=sum(each.numel() for each in weights),
            seconds=round(watch.seconds, 1),
            resumed=start,
            device=torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            dtype=self._dtype(),
        )
        self._save(trainer.model, tokenizer)
        return outcome

    def _dtype(self) -> str:
        import torch

        if self.settings.dtype != "auto":
            return self.settings.dtype
        able = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
        return "bfloat16" if able else "float32"

    def _tokenizer(self) -> Any:
        """Returns the tokenizer of the base, by which it may be refused before its weights are read.

        Raises UsageError.
        """
        from transformers import AutoTokenizer

        return self._opened(AutoTokenizer.from_pretrained)

    def _model(self) -> Any:
        """Returns the model of the base. Raises UsageError."""
        import torch
        from transformers import AutoModelForCausalLM

        short = self.settings.lora_rank and self._dtype() == "bfloat16"
        dtype = torch.bfloat16 if short else torch.float32
        return self._opened(partial(AutoModelForCausalLM.from_pretrained, dtype=dtype))

    def _opened(self, opening: Callable[[str], Any]) -> Any:
        """Opens the base by `opening`. Raises UsageError."""
        try:
            return opening(self.base.path)
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            where = (
                "" if self.base.local else "; without a network to the hub name a directory or a GGUF file"
            )
            raise UsageError(
                f"The base {self.base.name!r} cannot be opened: {redact(first_line(error))}{where}."
            ) from error

    def _fitting(
        self, tokenizer: Any, rows: Sequence[TrainRow], limit: int
    ) -> tuple[list[dict[str, Any]], int, int]:
        """Returns TRL's form of the `rows` of at most `limit` tokens, their tokens, and how many are longer.

        For a preference the longer of both sequences counts.
        """
        fitting, tokens = list[dict[str, Any]](), 0
        long: list[str] = []
        for row in rows:
            if self.settings.method == "dpo":
                length, fields = encode.preference_length(tokenizer, row), row.fields
            else:
                encoded = encode.example(tokenizer, row)
                length = len(encoded.input_ids)
                fields = {"input_ids": encoded.input_ids, "labels": encoded.labels}
            if length > limit:
                long.append(row.location)
            else:
                fitting.append(fields)
                tokens += length
        if rows and not fitting:
            raise UsageError(
                f"All {len(rows)} rows have more than {limit} tokens; raise max_length"
                f"{'' if limit == self.settings.max_length else ', or take a base of a longer context'}."
            )
        if long:
            more = ", ..." if len(long) > _SHORT else ""
            self.progress.note(
                f"{len(long)} of {len(rows)} rows have more than {limit} tokens and are left out: "
                f"{', '.join(long[:_SHORT])}{more}"
            )
        return fitting, tokens, len(long)

    def _arguments(self, steps: int) -> dict[str, Any]:
        """Returns the settings as the arguments of Transformers' trainer, for `steps` updates of the
        weights.
        """
        import torch

        settings = self.settings
        schedule = "constant_with_warmup" if settings.schedule == "constant" else settings.schedule
        return {
            "output_dir": str(self.checkpoints),
            "max_steps": steps,
            "per_device_train_batch_size": settings.batch,
            "per_device_eval_batch_size": settings.batch,
            "gradient_accumulation_steps": settings.gradient_accumulation,
            "learning_rate": settings.learning_rate,
            "lr_scheduler_type": schedule,
            "warmup_steps": round(settings.warmup * steps),
            "weight_decay": settings.weight_decay,
            "seed": settings.seed,
            "data_seed": settings.seed,
            "max_length": None,
            "logging_steps": max(1, steps // _MAX_LOGGED),
            "logging_nan_inf_filter": False,
            "save_steps": settings.checkpoint_steps,
            "save_total_limit": 1,
            "report_to": "none",
            "disable_tqdm": True,
            "bf16": self._dtype() == "bfloat16",
            "gradient_checkpointing": settings.gradient_checkpointing,
            "use_cpu": not torch.cuda.is_available(),
            "dataloader_pin_memory": torch.cuda.is_available(),
        }

    def _trainer(
        self,
        tokenizer: Any,
        model: Any,
        trained: Sequence[dict[str, Any]],
        held: Sequence[dict[str, Any]],
        steps: int,
    ) -> Any:
        """Returns TRL's trainer with these settings."""
        import datasets
        from transformers import PrinterCallback
        from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer

        settings, arguments = self.settings, self._arguments(steps)
        datasets.disable_progress_bars()
        named: dict[str, Any] = {
            "train_dataset": datasets.Dataset.from_list(list(trained)),
            "eval_dataset": datasets.Dataset.from_list(list(held)) if held else None,
            "processing_class": tokenizer,
        }
        if settings.lora_rank:
            from peft import LoraConfig

            named["peft_config"] = LoraConfig(
                r=settings.lora_rank,
                lora_alpha=2 * settings.lora_rank,
                target_modules="all-linear",
                task_type="CAUSAL_LM",
            )
        if settings.method == "sft":
            trainer = SFTTrainer(model, args=SFTConfig(**arguments), **named)
        else:
            if not settings.lora_rank:
                named["ref_model"] = self._model()
            trainer = DPOTrainer(model, args=DPOConfig(**arguments, beta=settings.beta), **named)
        trainer.remove_callback(PrinterCallback)  # it writes to stdout, where results go
        return trainer

    def _scores(self, trainer: Any, name: str, count: int) -> dict[str, float]:
        """Loss and accuracy on the held-out rows: of preferred replies, or of learned tokens."""
        self.progress.phase(name, count, "rows")
        results = trainer.evaluate()
        accuracy = ("eval_rewards/accuracies", "preferred")
        if self.settings.method == "sft":
            accuracy = ("eval_mean_token_accuracy", "token_accuracy")
        names = dict([("eval_loss", "loss"), accuracy])
        return {short: float(results[long]) for long, short in names.items() if long in results}

    def _save(self, model: Any, tokenizer: Any) -> None:
        """Writes the tuned model, adapters merged, to model/; it appears complete or not at all."""
        self.progress.phase("saving the model", None)
        scratch, out = self.folder / ".ragc-model", self.folder / "model"
        shutil.rmtree(scratch, ignore_errors=True)
        if self.settings.lora_rank:
            model.save_pretrained(self.folder / "adapter")
            model = model.merge_and_unload()
        model.save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        share(scratch)
        if self.base.gguf is not None and gguf_file.can_write(self.base.gguf):
            part = self.folder / ".ragc-model.gguf"
            gguf_file.write(self.base.gguf, model.state_dict(), part)
            part.replace(self.folder / "model.gguf")
        shutil.rmtree(out, ignore_errors=True)
        scratch.rename(out)


def last_checkpoint(folder: Path) -> Path | None:
    """Returns the last whole checkpoint in `folder`; those that a kill cut off are removed."""
    whole: list[tuple[int, Path]] = []
    for path in folder.glob("checkpoint-*"):
        try:
            step = json.loads((path / _STATE).read_text("utf-8"))["global_step"]
            whole.append((int(step), path))
        except (OSError, ValueError, LookupError, TypeError):
            shutil.rmtree(path, ignore_errors=True)
    return max(whole)[1] if whole else None


def _steps(rows: int, settings: TrainSettings) -> int:
    """Returns the optimizer steps of `epochs` passes over `rows`; the last of a pass may be smaller."""
    batches = math.ceil(rows / settings.batch)
    return math.ceil(settings.epochs * max(1, math.ceil(batches / settings.gradient_accumulation)))


def _context(model: Any) -> int:
    """Returns the most tokens that `model` takes."""
    return int(getattr(model.config.get_text_config(), "max_position_embeddings", 0)) or 2**30


def _watch(progress: Progress, memory: Memory, state: dict[str, Any]) -> Any:
    """Returns a callback that shows progress, stores the seconds with each checkpoint, and stops a lost
    training.
    """
    from transformers import TrainerCallback

    class Watch(TrainerCallback):
        def __init__(self) -> None:
            self.begun, self.before = time.monotonic(), float(state["seconds"])
            self.losses: list[float] = []

        @property
        def seconds(self) -> float:
            return self.before + time.monotonic() - self.begun

        def on_step_end(self, args: Any, state_: Any, control: Any, **more: Any) -> None:
            progress.step()

        def on_save(self, args: Any, state_: Any, control: Any, **more: Any) -> None:
            memory.write({**state, "seconds": self.seconds})

        def on_log(
            self, args: Any, state_: Any, control: Any, logs: dict[str, Any] | None = None, **more: Any
        ) -> None:
            loss = (logs or {}).get("loss")
            if loss is None:
                return
            if not math.isfinite(loss):
                raise RagcError(
                    f"The loss is {loss} at step {state_.global_step}; lower learning_rate, or raise warmup. "
                    "Nothing was saved."
                )
            self.losses.append(loss)
            if len(self.losses) % 10 == 0:
                mean = sum(self.losses[-10:]) / 10
                progress.note(f"step {state_.global_step}/{state_.max_steps}  loss {mean:.4f}")

    return Watch()
