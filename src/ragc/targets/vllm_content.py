"""What a model that vLLM loads is known by: its id, or the content of its folder, and how it is run."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ragc.errors import TargetUnavailable
from ragc.fingerprint import digest
from ragc.targets.options import VllmOptions

_WHOLE = 2**22
_ENDS = 2**20


def identity(model: str, options: VllmOptions) -> str:
    """What the call store keys on for `model`, an id or a folder, run with `options`; the latter's own wins.

    Raises TargetUnavailable when the folder cannot be read.
    """
    folder, shaping = Path(model), [options.dtype, dict(options.flags), dict(options.body)]
    named = f"{folder.name}@{_content(folder)}" if folder.is_dir() else model
    return options.identity or f"{named}#{digest(shaping)[:12]}"


def _content(folder: Path) -> str:
    """A digest of the files in `folder`: small ones whole, of large ones their size and both ends."""
    try:
        found = {file.name: _ends(file) for file in sorted(folder.iterdir()) if file.is_file()}
    except OSError as error:
        raise TargetUnavailable(
            f"The model in {folder} cannot be read ({error.strerror or error})."
        ) from error
    return digest(found)[:16]


def _ends(file: Path) -> list[str | int]:
    size = file.stat().st_size
    with file.open("rb") as data:
        read = data.read(_WHOLE if size <= _WHOLE else _ENDS)
        if size > _WHOLE:
            data.seek(size - _ENDS)
            read += data.read()
    return [size, hashlib.sha256(read).hexdigest()]
