"""The number of parameters of a target's model, from its name or its weights file."""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path
from typing import Any, BinaryIO

SMALL = 1e9
"""Models with fewer parameters follow a short prompt better than a long one."""

_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)\s?([mb])(?![a-z0-9])", re.IGNORECASE)
_UNITS = {"m": 1e6, "b": 1e9}


def parameters(target: Any) -> float | None:
    """Returns the number of parameters of `target`; None if neither its name nor its GGUF file has it."""
    by_name = parameters_named(str(getattr(target, "model", "")))
    path = getattr(target, "path", None)
    if by_name is None and isinstance(path, Path):
        return parameters_in(path)
    return by_name


def parameters_named(model: str) -> float | None:
    """Returns the number in a model's name such as `Qwen2.5-0.5B-Instruct`; the largest, for mixtures of
    experts.
    """
    sizes = [
        int(experts or 1) * float(number) * _UNITS[unit.lower()]
        for experts, number, unit in _SIZE.findall(model)
    ]
    return max(sizes, default=None)


def parameters_in(path: Path) -> float | None:
    """Returns the number of tensor elements in the GGUF file at `path`; only its header is read."""
    try:
        with path.open("rb") as file:
            return _count(file)
    except (OSError, ValueError, struct.error, KeyError, OverflowError):
        return None


_NUMBERS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Size in bytes of a value, by its GGUF type."""

_TEXT, _ARRAY = 8, 9
_MOST_ENTRIES, _MOST_ITEMS, _MOST_DIMENSIONS = 100_000, 2_000_000, 8


def _count(file: BinaryIO) -> float:
    if file.read(4) != b"GGUF":
        raise ValueError("no GGUF file")
    version, tensors, entries = struct.unpack("<IQQ", _read(file, 20))
    if version < 2 or max(tensors, entries) > _MOST_ENTRIES:
        raise ValueError("not a GGUF file of a known version")
    for _ in range(entries):
        _skip_text(file)
        _skip(file, _integer(file, 4))
    total = 0
    for _ in range(tensors):
        _skip_text(file)
        dimensions = _integer(file, 4)
        if dimensions > _MOST_DIMENSIONS:
            raise ValueError("a tensor of too many dimensions")
        total += math.prod(_integer(file, 8) for _ in range(dimensions))
        file.seek(12, 1)
    return float(total)


def _skip(file: BinaryIO, kind: int) -> None:
    """Skips a value of the type `kind`."""
    if kind == _TEXT:
        _skip_text(file)
    elif kind == _ARRAY:
        item, count = _integer(file, 4), _integer(file, 8)
        if count > _MOST_ITEMS or item == _ARRAY:
            raise ValueError("an array that is too long or nested")
        if item == _TEXT:
            for _ in range(count):
                _skip_text(file)
        else:
            file.seek(_NUMBERS[item] * count, 1)
    else:
        file.seek(_NUMBERS[kind], 1)


def _skip_text(file: BinaryIO) -> None:
    length = _integer(file, 8)
    if length > 1 << 30:
        raise ValueError("a text that is too long")
    file.seek(length, 1)


def _integer(file: BinaryIO, width: int) -> int:
    return int.from_bytes(_read(file, width), "little")


def _read(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise ValueError("the file ends early")
    return data
