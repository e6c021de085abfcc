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
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from ragc.core.extras import require
from ragc.core.text import first_line, repair_surrogates
from ragc.corpora.embed.model_files import folder_digests
from ragc.corpora.embed.onnx_session import OnnxSession
from ragc.errors import TargetError, UsageError
from ragc.metrics.base import Pair, Verdict

BATCH = 32
"""Pairs per batch of a model; they are sorted by length first to reduce padding."""

TOKENS = 512
"""Context of a classifier in tokens, if its configuration does not give it."""

GENERATOR_TOKENS = 2048
"""Context of a T5 model in tokens: it has no limit of its own, but memory has."""

Run = Callable[[Sequence[Pair]], list[Verdict]]
"""A model in memory: a verdict for each pair, in order. Called by one thread at a time."""

_WHAT = "Entailment by a model"
_ONNX = ("model.onnx", "onnx/model.onnx")
_WEIGHTS = ("*.onnx", "*.onnx_data", "*.safetensors", "*.json", "*.txt", "*.model")
_REPLY_TOKENS = 10  # ALCE's limit; TRUE writes one


class NliEntailer:
    """A model that is loaded on first use, and run in its own thread, one batch at a time.

    `name` is the model's name in reports, and identifies its files by a digest or its revision.
    """

    def __init__(self, name: str, load: Callable[[], Run]) -> None:
        self.name, self._load, self._lock = name, load, Lock()
        self._model: Run | None = None

    async def entails(self, pairs: Sequence[Pair], /) -> list[Verdict]:
        """Returns a verdict for each of `pairs`, in order; raises TargetError if the model cannot run."""
        return await asyncio.to_thread(self._run, list(pairs)) if pairs else []

    def _run(self, pairs: list[Pair]) -> list[Verdict]:
        with self._lock:
            try:
                self._model = self._model or self._load()
                return self._model(
                    [(repair_surrogates(premise), repair_surrogates(claim)) for premise, claim in pairs]
                )
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
    folder, label = _locate_model(model)
    if not (folder / "config.json").is_file():
        raise UsageError(f"An entailment model's folder holds config.json; {folder} has none.")
    config = _json(folder / "config.json")
    onnx = next((folder / name for name in _ONNX if (folder / name).is_file()), None)
    for library in ("onnxruntime", "tokenizers") if onnx else ("torch", "transformers"):
        require(library, _WHAT)
    if onnx:
        if not (folder / "tokenizer.json").is_file():
            raise UsageError(f"A model in ONNX form has tokenizer.json beside it; {folder} has none.")
        load = partial(_onnx_classifier, folder, onnx, config, entailment_label(config, folder))
        return NliEntailer(f"nli {label}, onnx", load)
    kind = next(iter(config.get("architectures") or ()), "")
    if kind.endswith("ForConditionalGeneration"):
        return NliEntailer(f"nli {label}", partial(_generator, folder))
    if not kind.endswith("ForSequenceClassification"):
        raise UsageError(
            f"An entailment model classifies sequences, or is a T5 model such as TRUE; {model} is "
            f"{kind or 'a model that does not say what it is'}."
        )
    return NliEntailer(f"nli {label}", partial(_classifier, folder, entailment_label(config, folder)))


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


def longest(folder: Path, config: Mapping[str, Any]) -> int:
    """Returns a classifier's context in tokens with special ones: from its configuration, else `TOKENS`."""
    tokenizer = folder / "tokenizer_config.json"
    tokens = _json(tokenizer).get("model_max_length") if tokenizer.is_file() else None
    positions = config.get("max_position_embeddings")
    # RoBERTa reserves two of its 514 positions, which only its tokenizer reports
    limit = tokens if isinstance(tokens, int) and 2 < tokens < 10**6 else TOKENS
    return min(limit, positions) if isinstance(positions, int) and 2 < positions < 10**6 else limit


def _locate_model(model: str) -> tuple[Path, str]:
    """Returns the folder of `model`, and its name in reports, which identifies its files."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        sums = hashlib.sha256()
        for name, checksum in folder_digests(folder, _WEIGHTS).items():
            sums.update(f"{name} {checksum}\n".encode("utf-8", "surrogatepass"))
        return folder, f"{folder.resolve().name}@{sums.hexdigest()[:12]}"
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


def _json(path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}.") from error
    return settings if isinstance(settings, dict) else {}


def _in_batches(sizes: Sequence[int], run: Callable[[list[int]], Sequence[Verdict]]) -> list[Verdict]:
    """Returns the verdicts of pairs of these `sizes` in tokens, which `run` decides in batches of similar
    length; None for a size of 0, a pair without space for its premise.
    """
    verdicts: list[Verdict] = [None] * len(sizes)
    order = sorted((at for at, size in enumerate(sizes) if size), key=lambda at: sizes[at])
    for start in range(0, len(order), BATCH):
        batch = order[start : start + BATCH]
        for at, verdict in zip(batch, run(batch), strict=True):
            verdicts[at] = verdict
    return verdicts


def _onnx_classifier(folder: Path, model: Path, config: Mapping[str, Any], label: int) -> Run:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    padding, most = tokenizer.padding, longest(folder, config)
    pad = int(padding["pad_id"] if padding else config.get("pad_token_id") or 0)
    session = OnnxSession(model, pad=pad, output="logits")
    tokenizer.no_padding()
    extra = tokenizer.num_special_tokens_to_add(True)

    def verdicts(pairs: Sequence[Pair]) -> list[Verdict]:
        tokenizer.no_truncation()
        claims = tokenizer.encode_batch([claim for _, claim in pairs], add_special_tokens=False)
        fits = [len(claim.ids) + extra < most for claim in claims]
        tokenizer.enable_truncation(most, strategy="only_first")
        encoded = iter(tokenizer.encode_batch([pair for pair, fit in zip(pairs, fits, strict=True) if fit]))
        encodings = [next(encoded) if fit else None for fit in fits]

        def run(batch: list[int]) -> list[Verdict]:
            chosen = [encoding for at in batch if (encoding := encodings[at])]
            scores, _ = session.run([(encoding.ids, encoding.type_ids) for encoding in chosen])
            return [bool(best == label) for best in scores.argmax(axis=-1)]

        return _in_batches([len(one.ids) if one else 0 for one in encodings], run)

    return verdicts


def _load_model(kind: str, folder: Path) -> tuple[Any, Any]:
    """Returns the model, ready to run, and its tokenizer, from files of `folder` only."""
    torch, library = import_module("torch"), import_module("transformers")
    # Explicit, since the libraries would otherwise ask on the terminal whether to run a model's code.
    safe: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = library.AutoTokenizer.from_pretrained(str(folder), **safe)
    model = getattr(library, kind).from_pretrained(str(folder), use_safetensors=True, dtype="auto", **safe)
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def _classifier(folder: Path, label: int) -> Run:
    model, tokenizer = _load_model("AutoModelForSequenceClassification", folder)
    most, extra = longest(folder, model.config.to_dict()), tokenizer.num_special_tokens_to_add(pair=True)

    def verdicts(pairs: Sequence[Pair]) -> list[Verdict]:
        sides = (
            tokenizer(list(texts), add_special_tokens=False, verbose=False).input_ids
            for texts in zip(*pairs, strict=True)
        )
        sizes = [
            len(premise) + len(claim) + 1 if len(claim) + extra < most else 0
            for premise, claim in zip(*sides, strict=True)
        ]

        def run(batch: list[int]) -> list[Verdict]:
            inputs = tokenizer(
                [pairs[at][0] for at in batch],
                [pairs[at][1] for at in batch],
                truncation="only_first",
                max_length=most,
                padding=True,
                return_tensors="pt",
            ).to(model.device)
            with import_module("torch").inference_mode():
                return [best == label for best in model(**inputs).logits.argmax(dim=-1).tolist()]

        return _in_batches(sizes, run)

    return verdicts


def _generator(folder: Path) -> Run:
    """A T5 model of the TRUE kind, which writes 1 or 0; any other output is unreadable (None)."""
    model, tokenizer = _load_model("AutoModelForSeq2SeqLM", folder)

    def encode(premise: str, claim: str) -> list[int]:
        claim_ids = tokenizer(f"hypothesis: {claim}").input_ids
        space = GENERATOR_TOKENS - len(claim_ids)
        premise_ids = tokenizer(f"premise: {premise}", add_special_tokens=False).input_ids
        return [*premise_ids[:space], *claim_ids] if space > 0 else []

    def verdicts(pairs: Sequence[Pair]) -> list[Verdict]:
        tokens = [encode(*pair) for pair in pairs]

        def run(batch: list[int]) -> list[Verdict]:
            padded = {"input_ids": [tokens[at] for at in batch]}
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

        return _in_batches([len(ids) for ids in tokens], run)

    return verdicts
