"""On what a benchmark runs."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def machine() -> str:
    """The processor, its cores, how busy they are, and the version of Python."""
    info = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(": ")[1] for line in info if line.startswith("model name")), platform.machine())
    load = ", ".join(f"{n:.1f}" for n in os.getloadavg())
    return f"{model}, {os.cpu_count()} cores, load {load}, Python {platform.python_version()}"
