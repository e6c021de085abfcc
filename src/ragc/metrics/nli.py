"""Entailment by a natural language inference model on this machine.

    model.onnx and tokenizer.json       onnxruntime, without torch
    a sequence-classification model     transformers: entailed if that label has the greatest score
    a T5 model such as TRUE             transformers: "premise: P hypothesis: H" is answered with 1

Only the premise is truncated, at its end, to the model's context; a hypothesis that leaves no space for a
premise has no verdict (None). Nothing is downloaded: an id must be in the cache of the Hugging Face hub. Only
weights in the safetensors format are loaded, and code that comes with a model is never run. Models of
transformers run on the GPU if torch finds one, in the precision of their files.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ragc.core.digest import digest
from ragc.core.extras import require
from ragc.core.text import first_line, repair_value
from ragc.corpora.embed.local import (
    ONNX_MODULES,
    TOKENIZER,
    folder_digests,
    has_onnx,
    in_batches,
    load_onnx,
    settings,
)
from ragc.errors import TargetError, UsageError
from ragc.metrics.base import Pair, Verdict

TOKENS = 512
"""Context of a classifier in tokens, if its configuration does not give it."""

GENERATOR_TOKENS = 2048
"""Context of a T5 model in tokens: it has no limit of its own, but memory has."""

_WHAT = "Entailment by a model"
_WEIGHTS = ("*.onnx", "*.onnx_data", "*.safetensors", "*.json", "*.txt", "*.model")
_REPLY_TOKENS = 10  # ALCE's limit; TRUE writes one


class LoadedModel(NamedTuple):
    """A model in memory: the tokens of hypotheses with special ones, its context, and its verdicts for pairs
    whose hypotheses leave space for a premise.
    """

    sizes: Callable[[list[str]], list[int]]
    context: int
    verdicts: Callable[[list[Pair]], list[Verdict]]


class NliEntailer:
    """A model that `load` loads at the first use; it is run in a thread, for one caller at a time.

    `name` is the model's name in reports, and identifies its files by a digest or its revision.
    """

    def __init__(self, name: str, load: Callable[[], LoadedModel]) -> None:
        self.name, self._load, self._lock = name, load, Lock()
        self._model: LoadedModel | None = None

    async def entails(self, pairs: Sequence[Pair], /) -> list[Verdict]:
        """Returns a verdict for each of `pairs`, in order; raises TargetError if the model cannot run."""
        return await asyncio.to_thread(self._run, [repair_value(pair) for pair in pairs]) if pairs else []

    def _run(self, pairs: list[Pair]) -> list[Verdict]:
        with self._lock:
            try:
                self._model = model = self._model or self._load()
                fits = [size < model.context for size in model.sizes([claim for _, claim in pairs])]
                verdicts = iter(model.verdicts([pair for pair, fit in zip(pairs, fits, strict=True) if fit]))
                return [next(verdicts) if fit else None for fit in fits]
            # the libraries' errors have no common class: damaged files, lack of memory
            except Exception as error:
                raise TargetError(
                    f"The entailment model {self.name} cannot be loaded or run: {first_line(error)}. Is it "
                    "a complete model of natural language inference, and does it fit into memory?"
                ) from error


def nli(model: str) -> NliEntailer:
    """Returns the model called `model`: a folder, or an id in the cache of the Hugging Face hub.

    Raises UsageError when it is neither, when it is not an entailment model, and when a library is missing.
    """
    folder, name = _locate_model(model)
    if not (folder / "config.json").is_file():
        raise UsageError(f"An entailment model's folder holds config.json; {folder} has none.")
    config = settings(folder / "config.json")
    kind = "onnx" if has_onnx(folder) else next(iter(config.get("architectures") or ()), "")
    for library in ONNX_MODULES if kind == "onnx" else ("torch", "transformers"):
        require(library, _WHAT)
    if kind == "onnx" and not (folder / TOKENIZER).is_file():
        raise UsageError(f"A model in ONNX form has tokenizer.json beside it; {folder} has none.")
    if kind.endswith("ForConditionalGeneration"):
        return NliEntailer(f"nli {name}", partial(_generator, folder))
    if kind != "onnx" and not kind.endswith("ForSequenceClassification"):
        raise UsageError(
            f"An entailment model classifies sequences, or is a T5 model such as TRUE; {model} is "
            f"{kind or 'a model that does not say what it is'}."
        )
    load = _onnx_classifier if kind == "onnx" else _classifier
    load_here = partial(load, folder, context(folder, config), entailment_label(config, folder))
    return NliEntailer(f"nli {name}, onnx" if kind == "onnx" else f"nli {name}", load_here)


def entailment_label(config: Mapping[str, Any], where: object) -> int:
    """Returns the index of the label that means entailment, by the names in `id2label`; two labels or three.

    Raises UsageError, naming `where`, when none or several have such a name, as for LABEL_0.
    """
    labels = config.get("id2label")
    names = {int(at): str(name) for at, name in labels.items()} if isinstance(labels, dict) else {}
    called = [
        at for at, name in names.items() if name.strip().lower() in ("entailment", "entail", "entailed")
    ]
    if len(called) != 1 or len(names) < 2:
        listed = ", ".join(names.values()) or "none"
        raise UsageError(
            f"An entailment model has a label called entailment beside another; the labels of {where} are: "
            f"{listed}. Set `id2label` in its config.json."
        )
    return called[0]


def context(folder: Path, config: Mapping[str, Any]) -> int:
    """Returns a classifier's context in tokens with special ones: from its configuration, else `TOKENS`."""
    tokens = settings(folder / "tokenizer_config.json").get("model_max_length")
    # RoBERTa reserves two of its 514 positions, which only its tokenizer reports.
    limits = (tokens, config.get("max_position_embeddings"))
    given = [limit if isinstance(limit, int) and 2 < limit < 10**6 else None for limit in limits]
    return min(given[0] or TOKENS, given[1] or given[0] or TOKENS)


def _locate_model(model: str) -> tuple[Path, str]:
    """Returns the folder of `model`, and its name in reports, which identifies its files."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder, f"{folder.resolve().name}@{digest(folder_digests(folder, _WEIGHTS))[:12]}"
    if model.startswith((".", "/", "~")) or model.count("/") > 1:
        raise UsageError(f"An entailment model's folder is needed, and {folder} is none.")
    require("huggingface_hub", _WHAT)
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


def _onnx_classifier(folder: Path, context: int, label: int) -> LoadedModel:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    extra = tokenizer.num_special_tokens_to_add(True)
    run = load_onnx(folder, output="logits", max_tokens=context, truncate="only_first")
    return LoadedModel(
        lambda claims: [
            len(claim.ids) + extra for claim in tokenizer.encode_batch(claims, add_special_tokens=False)
        ],
        context,
        lambda pairs: [bool(np.argmax(scores) == label) for scores in run(pairs)],
    )


def _load_model(kind: str, folder: Path) -> tuple[Any, Any]:
    """Returns the model, ready to run, and its tokenizer, from files of `folder` only."""
    torch, library = import_module("torch"), import_module("transformers")
    # Explicit, since the libraries would otherwise ask on the terminal whether to run a model's code.
    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = library.AutoTokenizer.from_pretrained(str(folder), **safe)
    model = getattr(library, kind).from_pretrained(str(folder), use_safetensors=True, dtype="auto", **safe)
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def _classifier(folder: Path, context: int, label: int) -> LoadedModel:
    model, tokenizer = _load_model("AutoModelForSequenceClassification", folder)
    extra = tokenizer.num_special_tokens_to_add(pair=True)

    def sizes(texts: list[str]) -> list[int]:
        encoded = tokenizer(texts, add_special_tokens=False, verbose=False)
        return [len(ids) + extra for ids in encoded.input_ids]

    def verdicts(pairs: list[Pair]) -> list[Verdict]:
        def run(batch: list[int]) -> list[Verdict]:
            inputs = tokenizer(
                [pairs[position][0] for position in batch],
                [pairs[position][1] for position in batch],
                truncation="only_first",
                max_length=context,
                padding=True,
                return_tensors="pt",
            ).to(model.device)
            with import_module("torch").inference_mode():
                return [best == label for best in model(**inputs).logits.argmax(dim=-1).tolist()]

        return in_batches([sum(map(len, pair)) for pair in pairs], run)

    return LoadedModel(sizes, context, verdicts)


def _generator(folder: Path) -> LoadedModel:
    """A T5 model of the TRUE kind, which writes 1 or 0; any other output is unreadable (None)."""
    model, tokenizer = _load_model("AutoModelForSeq2SeqLM", folder)

    def claim_tokens(claim: str) -> list[int]:
        return list(tokenizer(f"hypothesis: {claim}").input_ids)

    def encode(premise: str, claim: str) -> list[int]:
        premise_ids, claim_ids = (
            tokenizer(f"premise: {premise}", add_special_tokens=False),
            claim_tokens(claim),
        )
        return [*premise_ids.input_ids[: GENERATOR_TOKENS - len(claim_ids)], *claim_ids]

    def verdicts(pairs: list[Pair]) -> list[Verdict]:
        tokens = [encode(*pair) for pair in pairs]

        def run(batch: list[int]) -> list[Verdict]:
            padded = {"input_ids": [tokens[position] for position in batch]}
            inputs = tokenizer.pad(padded, padding=True, return_tensors="pt").to(model.device)
            with import_module("torch").inference_mode():
                out = model.generate(
                    input_ids=inputs.input_ids,
                    attention_mask=inputs.attention_mask,
                    max_new_tokens=_REPLY_TOKENS,
                    do_sample=False,
                    num_beams=1,
                )
            replies = tokenizer.batch_decode(out, skip_special_tokens=True)
            return [{"1": True, "0": False}.get(str(reply).strip()) for reply in replies]

        return in_batches([len(ids) for ids in tokens], run)

    return LoadedModel(
        lambda claims: [len(claim_tokens(claim)) for claim in claims], GENERATOR_TOKENS, verdicts
    )
