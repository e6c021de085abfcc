"""Entailment by a natural language inference model on this machine.

`nli` finds the model and chooses its runner:

    model.onnx and tokenizer.json       onnxruntime, without torch (`ragc.metrics.entailment.onnx`)
    a sequence-classification model     transformers: entailed if that label has the greatest score
    a T5 model such as TRUE             transformers: "premise: P hypothesis: H" is answered with 1

Only the premise is truncated, at its end, to the model's context; a hypothesis that leaves no space for a
premise has no verdict (None). Nothing is downloaded: an id must be in the cache of the Hugging Face hub. Only
weights in the safetensors format are loaded, and code that comes with a model is never run.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from ragc.core.extras import require
from ragc.core.text import first_line, repair_surrogates
from ragc.corpora.embed.model_files import folder_digests
from ragc.errors import TargetError, UsageError
from ragc.metrics.entailment.base import Pair, Runner, Verdict, json_settings

_WHAT = "Entailment by a model"
_ONNX = ("model.onnx", "onnx/model.onnx")
_WEIGHTS = ("*.onnx", "*.onnx_data", "*.safetensors", "*.json", "*.txt", "*.model")


class NliEntailer:
    """A model that is loaded on first use, and run in its own thread, one batch at a time.

    `name` is the model's name in reports, and identifies its files.
    """

    def __init__(self, name: str, load: Callable[[], Runner]) -> None:
        self._name, self._load = name, load
        self._lock = Lock()
        self._runner: Runner | None = None

    @property
    def name(self) -> str:
        """The model, and a digest of its files or its revision."""
        return self._name

    async def entails(self, pairs: Sequence[Pair], /) -> list[Verdict]:
        """Returns a verdict for each of `pairs`, in order; raises TargetError if the model cannot run."""
        return await asyncio.to_thread(self._run, list(pairs)) if pairs else []

    def _run(self, pairs: list[Pair]) -> list[Verdict]:
        with self._lock:
            try:
                if self._runner is None:
                    self._runner = self._load()
                clean = [(repair_surrogates(premise), repair_surrogates(claim)) for premise, claim in pairs]
                return self._runner.verdicts(clean)
            # the libraries' errors have no common class: damaged files, lack of memory
            except Exception as error:
                raise TargetError(
                    f"The entailment model {self._name} cannot be loaded or run: {first_line(error)}. Is it "
                    "a complete model of natural language inference, and does it fit into memory?"
                ) from error


def nli(model: str) -> NliEntailer:
    """Returns the model called `model`: a folder, or an id in the cache of the Hugging Face hub.

    Raises UsageError when it is neither, when it is not an entailment model, and when a library is missing.
    """
    folder, label = _locate_model(model)
    config = _config(folder)
    if onnx := next((folder / name for name in _ONNX if (folder / name).is_file()), None):
        for library in ("onnxruntime", "tokenizers"):
            require(library, _WHAT)
        if not (folder / "tokenizer.json").is_file():
            raise UsageError(f"A model in ONNX form has tokenizer.json beside it; {folder} has none.")
        at = entailment_label(config, folder)

        def in_onnx() -> Runner:
            from ragc.metrics.entailment.onnx import OnnxClassifier

            return OnnxClassifier(folder, onnx, at)

        return NliEntailer(f"nli {label}, onnx", in_onnx)
    for library in ("torch", "transformers"):
        require(library, _WHAT)
    kind = next(iter(config.get("architectures") or ()), "")
    if kind.endswith("ForConditionalGeneration"):

        def generating() -> Runner:
            from ragc.metrics.entailment.transformers import Generator

            return Generator(folder)

        return NliEntailer(f"nli {label}", generating)
    if not kind.endswith("ForSequenceClassification"):
        raise UsageError(
            f"An entailment model classifies sequences, or is a T5 model such as TRUE; {model} is "
            f"{kind or 'a model that does not say what it is'}."
        )
    at = entailment_label(config, folder)

    def classifying() -> Runner:
        from ragc.metrics.entailment.transformers import Classifier

        return Classifier(folder, at)

    return NliEntailer(f"nli {label}", classifying)


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


def _locate_model(model: str) -> tuple[Path, str]:
    """Returns the folder of `model`, and its name in reports, which identifies its files."""
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder, f"{folder.resolve().name}@{_content(folder)}"
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


def _content(folder: Path) -> str:
    """Returns twelve digits that identify the model's files, by name and content."""
    sums = hashlib.sha256()
    for name, checksum in folder_digests(folder, _WEIGHTS).items():
        sums.update(f"{name} {checksum}\n".encode("utf-8", "surrogatepass"))
    return sums.hexdigest()[:12]


def _config(folder: Path) -> dict[str, Any]:
    if not (folder / "config.json").is_file():
        raise UsageError(f"An entailment model's folder holds config.json; {folder} has none.")
    return json_settings(folder / "config.json")
