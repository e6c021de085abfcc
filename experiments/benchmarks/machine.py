"""On what a benchmark runs: the machine and the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path


def machine() -> str:
    """The processor, its cores, how busy they are, and the version of Python."""
    info = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(": ")[1] for line in info if line.startswith("model name")), platform.machine())
    load = ", ".join(f"{n:.1f}" for n in os.getloadavg())
    return f"{model}, {os.cpu_count()} cores, load {load}, Python {platform.python_version()}"


def commit(name: str = "HEAD") -> str:
    """The short digest of a commit of this repository, "+" at its end where files differ from HEAD; or ""."""
    folder = Path(__file__).parent
    digest = subprocess.run(
        ["git", "rev-parse", "--short=12", name], cwd=folder, check=False, capture_output=True, text=True
    )
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=folder, check=False, capture_output=True, text=True
    )
    return digest.stdout.strip() + ("+" if name == "HEAD" and status.stdout.strip() else "")
