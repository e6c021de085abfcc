"""The tuned model as a GGUF file, which embedded targets and llama.cpp open.

It has all metadata of the base's GGUF file (architecture, tokenizer, chat template) and the tuned weights,
matrices in float16 and vectors in float32. So it is larger than a quantized base, and small changes by a
small learning rate are not lost. Only for bases that came from a GGUF file of an architecture in
`ARCHITECTURES`: others need llama.cpp's own converter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragc.errors import UsageError

ARCHITECTURES = ("llama", "qwen2")

_OWN = (
    "GGUF.",
    "general.architecture",
    "general.file_type",
    "general.quantization_version",
    "general.size_label",
)
"""Beginnings of the names of fields that are written anew or no longer hold."""

_MOSTLY_F16 = 1


def can_write(base: Path) -> bool:
    """Returns whether the tuned form of the GGUF file `base` can be written."""
    import gguf

    return _text(gguf.GGUFReader(base), "general.architecture") in ARCHITECTURES


def write(base: Path, state: dict[str, Any], out: Path) -> None:
    """Writes `state`, the tensors of a transformers model by name, as the GGUF file `out`.

    `base` is the GGUF file that the model was converted from. Raises UsageError when their tensors differ.
    """
    import gguf
    import numpy as np

    reader = gguf.GGUFReader(base)
    architecture = _text(reader, "general.architecture")
    blocks = _number(reader, f"{architecture}.block_count")
    heads = _number(reader, f"{architecture}.attention.head_count")
    key_heads = _number(reader, f"{architecture}.attention.head_count_kv") or heads
    named = gguf.get_tensor_name_map(getattr(gguf.MODEL_ARCH, architecture.upper()), blocks)
    tensors: dict[str, Any] = {}
    for name, tensor in state.items():
        own = named.get_name(name, try_suffixes=(".weight", ".bias"))
        if own is not None:
            tensors[own] = tensor.detach().float().cpu().numpy()
    lacking = sorted({tensor.name for tensor in reader.tensors} - tensors.keys() - {"rope_freqs.weight"})
    if lacking:
        raise UsageError(f"{base.name} has tensors that the tuned model lacks: {', '.join(lacking[:3])}.")
    writer = gguf.GGUFWriter(out, architecture)
    for field in reader.fields.values():
        if not field.name.startswith(_OWN):
            kind = field.types[0]
            inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
    writer.add_file_type(_MOSTLY_F16)
    for tensor in reader.tensors:
        if tensor.name not in tensors:
            writer.add_tensor(tensor.name, tensor.data)
            continue
        values = tensors[tensor.name]
        if architecture == "llama" and ".attn_q." in tensor.name:
            values = _interleaved(values, heads)
        elif architecture == "llama" and ".attn_k." in tensor.name:
            values = _interleaved(values, key_heads)
        writer.add_tensor(tensor.name, values.astype(np.float16 if values.ndim > 1 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _interleaved(values: Any, heads: int) -> Any:
    """Returns rows of a projection in llama.cpp's order: the halves of each head's rotation side by side."""
    half = values.shape[0] // heads // 2
    return values.reshape(heads, 2, half, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def _text(reader: Any, name: str) -> str:
    field = reader.get_field(name)
    return "" if field is None else str(field.contents())


def _number(reader: Any, name: str) -> int:
    field = reader.get_field(name)
    return 0 if field is None else int(field.contents())
