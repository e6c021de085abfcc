"""Programs that look at what ragc writes: where they are installed, and how they are started."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.paths import ROOT

ENVIRONMENT = ROOT / ".venv-consumers"
"""Where `make nightly` installs them; RAGC_CONSUMERS names another environment."""


def tool(name: str) -> str:
    """The path of the program `name`, "" where it is not installed."""
    folder = Path(os.environ.get("RAGC_CONSUMERS") or ENVIRONMENT) / "bin"
    return shutil.which(name, path=str(folder)) or shutil.which(name) or ""


def missing(name: str) -> str:
    """Why a test with the program `name` is skipped; "" where it can run."""
    return "" if tool(name) else f"{name} is not installed (make nightly)"


@contextmanager
def serving(
    command: Sequence[str], address: str, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[httpx.Client]:
    """A client of the server that `command` starts at `address`; it is ended afterwards."""
    with log.open("wb") as out:
        job = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
        )
    try:
        with httpx.Client(base_url=address, timeout=60, trust_env=False) as client:
            end = time.monotonic() + 500
            while not _answers(client):
                assert job.poll() is None, log.read_text("utf-8", "replace")[-2000:]
                assert time.monotonic() < end, f"waited 500 s for {command[0]}"
                time.sleep(0.2)
            yield client
    finally:
        job.terminate()
        try:
            job.wait(timeout=30)
        finally:
            job.kill()
            job.wait(timeout=30)


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/").status_code < 500
    except httpx.TransportError:
        return False
