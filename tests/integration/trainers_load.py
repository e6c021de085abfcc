"""Loads training data as TRL and LLaMA-Factory do; run by the Python of `make nightly`, without ragc.

    python trainers_load.py FOLDER

FOLDER holds `pairs.jsonl`, `sft-*.jsonl`, and `dataset_info.json` with the files for LLaMA-Factory. A model
of two small layers with random weights takes one step on each file with TRL. Prints a JSON object with what
was loaded, by file.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

import torch
from datasets import load_dataset
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer, SFTConfig, SFTTrainer
from trl.data_utils import apply_chat_template, is_conversational, unpair_preference_dataset

CHAT = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + ' ' + m['content'] + '<|im_end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant ' }}{% endif %}"
)


def rows_of(path: Path) -> Any:
    return load_dataset("json", data_files=str(path), split="train", cache_dir=str(path.parent / "cache"))


def tokenizer_of(folder: Path) -> PreTrainedTokenizerFast:
    """A tokenizer over the bytes of all files."""
    special = ["<|im_start|>", "<|im_end|>", "<|pad|>"]
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train(
        [str(p) for p in folder.glob("*.jsonl")],
        trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        ),
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>", pad_token="<|pad|>")
    tokenizer.chat_template = CHAT
    return tokenizer


def model_of(tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": 4096,
    }
    return LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes))


def settings(folder: Path) -> dict[str, Any]:
    return {
        "output_dir": str(folder / "trained"),
        "max_steps": 1,
        "per_device_train_batch_size": 1,
        "report_to": "none",
        "use_cpu": True,
        "bf16": False,
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 1,
    }


def describe(rows: Any, trainer: Any) -> dict[str, Any]:
    """What TRL makes of `rows`, and the first loss when `trainer` is trained on them."""
    trainer.train()
    return {
        "rows": len(rows),
        "conversational": is_conversational(rows[0]),
        "columns": rows.column_names,
        "loss": float(next(entry["loss"] for entry in trainer.state.log_history if "loss" in entry)),
    }


def dpo(path: Path, tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    rows = rows_of(path)
    plain = apply_chat_template(dict(rows[0]), tokenizer)
    unpaired = unpair_preference_dataset(rows)
    trainer = DPOTrainer(
        model=model_of(tokenizer),
        ref_model=model_of(tokenizer),
        args=DPOConfig(**settings(path.parent), max_length=4096),
        train_dataset=rows,
        processing_class=tokenizer,
    )
    more = {"prompt": plain["prompt"], "chosen": plain["chosen"], "unpaired": len(unpaired)}
    return more | describe(rows, trainer)


def sft(path: Path, tokenizer: PreTrainedTokenizerFast) -> dict[str, Any]:
    rows = rows_of(path)
    trainer = SFTTrainer(
        model=model_of(tokenizer),
        args=SFTConfig(**settings(path.parent), max_length=4096),
        train_dataset=rows,
        processing_class=tokenizer,
    )
    return describe(rows, trainer)


def find_llamafactory() -> tuple[Any, Any]:
    """LLaMA-Factory's converter and record of a data set, without its packages, which import trainers."""
    origin = importlib.util.find_spec("llamafactory")
    assert origin is not None
    assert origin.origin is not None
    base = Path(origin.origin).parent
    for name in ("llamafactory", "llamafactory.data", "llamafactory.extras"):
        package = types.ModuleType(name)
        package.__path__ = [str(base.joinpath(*name.split(".")[1:]))]
        sys.modules[name] = package
    converter = importlib.import_module("llamafactory.data.converter")
    return converter.SharegptDatasetConverter, importlib.import_module("llamafactory.data.parser").DatasetAttr


def main() -> None:
    folder = Path(sys.argv[1])
    tokenizer = tokenizer_of(folder)
    loaded: dict[str, Any] = {"pairs.jsonl": dpo(folder / "pairs.jsonl", tokenizer)}
    for path in sorted(folder.glob("sft-*.jsonl")):
        loaded[path.name] = sft(path, tokenizer)
    converter, record = find_llamafactory()
    for name, entry in json.loads((folder / "dataset_info.json").read_text()).items():
        attributes = record("file", dataset_name=name)
        attributes.join(entry)
        convert = converter(attributes, types.SimpleNamespace(media_dir=None))
        loaded[f"llamafactory {name}"] = [convert(row) for row in rows_of(folder / entry["file_name"])]
    print(json.dumps(loaded))


if __name__ == "__main__":
    main()
