"""What this machine offers the embedded model: weights that can be read, memory and processors."""

from __future__ import annotations

import math
import os
from pathlib import Path

from ragc import inputs
from ragc.errors import TargetUnavailable

_MAGIC, _LEAST = b"GGUF", 4096
_CPU_FILES = Path("/sys/devices/system/cpu")


def check_file(path: Path) -> None:
    """Raise TargetUnavailable unless `path` is a GGUF file that may fit into memory."""
    try:
        size = inputs.regular(path).stat().st_size
        with path.open("rb") as file:
            head = file.read(8)
    except OSError as error:
        reason = error.strerror or str(error)
        raise TargetUnavailable(f"The weights {path} cannot be read: {reason}; name a GGUF file.") from error
    if head[:4] != _MAGIC:
        raise TargetUnavailable(f"{path} is no GGUF file: it begins with {head[:4]!r} instead of {_MAGIC!r}.")
    if size < _LEAST:
        raise TargetUnavailable(f"{path} is cut short: a GGUF file of {size} bytes holds no model.")
    if size > available():
        raise TargetUnavailable(
            f"{path} needs {size >> 20} MiB of memory and {available() >> 20} MiB are free; "
            "use a smaller model."
        )


def cores() -> int:
    """The physical cores this process may use: its affinity, without SMT siblings, within its quota."""
    mine = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    found = {_read(_CPU_FILES / f"cpu{n}/topology/thread_siblings_list") or str(n) for n in mine}
    quota, _, period = _read(Path("/sys/fs/cgroup/cpu.max")).partition(" ")
    allowed = math.ceil(int(quota) / int(period)) if quota.isdigit() and period.isdigit() else len(found)
    return max(1, min(len(found), allowed))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def available() -> int:
    """Bytes of memory that can be had without swapping; very many where the system does not say."""
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 2**60
