"""Entailment by a natural language inference model on this machine.

    model.onnx and tokenizer.json       onnxruntime, without torch
    a sequence-classification model     sentence-transformers: entailed if that label has the greatest score
    a T5 model such as TRUE             transformers: "premise: P hypothesis: H" is answered with 1

Only the premise is cut, at its end, to the model's context; a hypothesis that takes more than half of the
context has no verdict (None). Nothing is downloaded: an id must be in the cache of the Hugging Face hub. Only
weights in the safetensors format are loaded, and code that comes with a model is never run. Models of torch
run on the GPU if it finds one, in the precision of their files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ragc.core.digest import digest
from ragc.core.extras import require
from ragc.corpora.models import (
    LoadedModel,
    LocalModel,
    context,
    folder_digests,
    has_onnx,
    in_batches,
    open_model,
    settings,
)
from ragc.errors import TargetError, UsageError
from ragc.metrics.base import Pair, Verdict

GENERATOR_TOKENS = 2048
"""Context of a T5 model in tokens: it has no limit of its own, but memory has."""

_WEIGHTS = ("*.onnx", "*.onnx_data", "*.safetensors", "*.json", "*.txt", "*.model")
_REPLY_TOKENS = 10  # ALCE's limit; TRUE writes one
_UNKNOWN = -1.0
"""The number of a pair without a verdict; 1 and 0 are the verdicts."""


class NliEntailer:
    """An entailment model, which `load` loads at the first use; it gives 1, 0 or `_UNKNOWN` for a pair.

    `name` is the model's name in reports, and identifies its files by a digest or its revision.
    """

    def __init__(self, name: str, load: Callable[[], LoadedModel]) -> None:
        self.name = name
        self._model = LocalModel(f"The entailment model {name}", name, load, TargetError)

    async def entails(self, pairs: Sequence[Pair], /) -> list[Verdict]:
        """Returns a verdict for each of `pairs`, in order; raises TargetError if the model cannot run."""
        numbers = await asyncio.to_thread(self._model.run, pairs)
        return [None if number == _UNKNOWN else bool(number) for number in numbers]


def nli(model: str) -> NliEntailer:
    """Returns the model called `model`: a folder, or an id in the cache of the Hugging Face hub.

    Raises UsageError when it is neither, when it is not an entailment model, and when a library is missing.
    """
    folder, name = _locate_model(model)
    config = settings(folder / "config.json")
    kind = next(iter(config.get("architectures") or ()), "a model that does not say what it is")
    if kind.endswith("ForConditionalGeneration"):
        for library in ("torch", "transformers"):
            require(library, "Entailment by a T5 model")
        return NliEntailer(f"nli {name}", lambda: _verdicts(_load_generator(folder), GENERATOR_TOKENS))
    if not has_onnx(folder) and not kind.endswith("ForSequenceClassification"):
        raise UsageError(
            f"An entailment model classifies sequences, or is a T5 model such as TRUE; {model} is {kind}."
        )
    label, tokens = entailment_label(config, folder), context(folder)
    classifier = open_model(
        "The entailment model",
        str(folder),
        tokens,
        "CrossEncoder",
        "predict",
        max_length=tokens,
        local_files_only=True,
    )

    def load() -> LoadedModel:
        scores, lengths = classifier.load()
        return _verdicts(
            LoadedModel(lambda pairs: [np.argmax(row) == label for row in scores(pairs)], lengths), tokens
        )

    return NliEntailer(f"nli {name}, onnx" if has_onnx(folder) else f"nli {name}", load)


def _verdicts(loaded: LoadedModel, tokens: int) -> LoadedModel:
    """Returns `loaded` with `_UNKNOWN` for pairs whose hypothesis takes more than half of its context."""

    def run(pairs: Sequence[Pair]) -> list[float]:
        fits = [2 * length <= tokens for length in loaded.lengths([claim for _, claim in pairs])]
        fitting = [pair for pair, fit in zip(pairs, fits, strict=True) if fit]
        numbers = iter(loaded.run(fitting) if fitting else ())
        return [next(numbers) if fit else _UNKNOWN for fit in fits]

    return loaded._replace(run=run)


def entailment_label(config: Mapping[str, Any], where: object) -> int:
    """Returns the index of the label that means entailment, by the names in `id2label`; two labels or three.

    Raises UsageError, naming `where`, when none or several have such a name, as for LABEL_0.
    """
    labels = config.get("id2label")
    names = {int(index): str(name) for index, name in labels.items()} if isinstance(labels, dict) else {}
    entailing = [
        index for index, name in names.items() if name.strip().lower() in ("entailment", "entail", "entailed")
    ]
    if len(entailing) != 1 or len(names) < 2:
        raise UsageError(
            f"An entailment model has a label called entailment and another; the labels of {where} are: "
            f"{', '.join(names.values()) or 'none'}. Set `id2label` in its config.json."
        )
    return entailing[0]


def _locate_model(model: str) -> tuple[Path, str]:
    """Returns the folder of `model`, and its name in reports, which identifies its files."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder, f"{folder.resolve().name}@{digest(folder_digests(folder, _WEIGHTS))[:12]}"
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise UsageError(f"An entailment model's folder is needed, and {folder} is none.")
    require("huggingface_hub", f"The entailment model {model!r}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = Path(snapshot_download(model, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        raise UsageError(
            f"The entailment model {model!r} is neither a folder nor in the Hugging Face cache, and "
            f"nothing is downloaded here; run: hf download {model}"
        ) from error
    return folder, f"{model}@{folder.name[:12]}"


def _load_generator(folder: Path) -> LoadedModel:
    """Returns a T5 model of the TRUE kind, which writes 1 or 0; any other output has no verdict."""
    torch, library = import_module("torch"), import_module("transformers")
    # Explicit, since the library would otherwise ask on the terminal whether to run a model's code.
    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = library.AutoTokenizer.from_pretrained(str(folder), **safe)
    model = library.AutoModelForSeq2SeqLM.from_pretrained(
        str(folder), use_safetensors=True, dtype="auto", **safe
    ).eval()
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")

    def encode(premise: str, claim: str) -> list[int]:
        claim_ids = tokenizer(f"hypothesis: {claim}").input_ids
        premise_ids = tokenizer(f"premise: {premise}", add_special_tokens=False).input_ids
        return [*premise_ids[: GENERATOR_TOKENS - len(claim_ids)], *claim_ids]

    def run_batch(pairs: list[Pair]) -> list[float]:
        padded = tokenizer.pad({"input_ids": [encode(*pair) for pair in pairs]}, return_tensors="pt")
        with torch.inference_mode():
            output = model.generate(
                **padded.to(model.device), max_new_tokens=_REPLY_TOKENS, do_sample=False, num_beams=1
            )
        replies = tokenizer.batch_decode(output, skip_special_tokens=True)
        return [{"1": 1.0, "0": 0.0}.get(str(reply).strip(), _UNKNOWN) for reply in replies]

    return LoadedModel(
        lambda pairs: in_batches(pairs, [len("".join(pair)) for pair in pairs], run_batch),
        lambda claims: [len(tokenizer(f"hypothesis: {claim}").input_ids) for claim in claims],
    )
