"""A machine that offers itself to a running study: a Ray node in the foreground."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from ragc.errors import Untrusted, UsageError
from ragc.optimizers.sharing import mark
from ragc.optimizers.status import find, is_outside

_ADDRESS = re.compile(r"[^\s/@:]+:[0-9]{1,5}")
_STORE_BYTES = 128 * 2**20


def join(where: str, *, trials: int | None = None) -> NoReturn:
    """Become a worker of the study at `where` until it is interrupted; this process is replaced by Ray's.

    `where` is a study as `status` takes it, on a machine that has its directory, or the address of its
    cluster, HOST:PORT, as the study's own machine shows it. `trials` run at a time, by default one a core.
    The environment holds what the recipe leaves to it: RAGC_STORE, RAGC_STORAGE, PGPASSWORD, API keys. What a
    worker that leaves had not finished is run again elsewhere. Raises UsageError.
    """
    if trials is not None and trials < 1:
        raise UsageError(f"A worker runs at least one trial at a time, found {trials}.")
    address = address_of(where)
    if find_spec("ray") is None:
        raise UsageError(
            "Workers need Ray, which is not installed; run: pip install 'ragc[ray,postgres,redis]'."
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--address", address]
    command += ["--object-store-memory", str(_STORE_BYTES)]
    command += [] if trials is None else ["--num-cpus", str(trials)]
    os.execv(sys.executable, command)  # noqa: S606 - no shell, and no argument is anyone's text but the user's


def address_of(where: str) -> str:
    """The address of the cluster that `where` means, as `join` takes it. Raises UsageError."""
    if _ADDRESS.fullmatch(where) and not Path(where).exists():
        return where
    directory = find(where)
    if is_outside(directory):
        raise Untrusted(
            f"{directory} is no study of this machine's, and whom a worker joins runs programs on it; name "
            "the cluster itself: ragc study worker HOST:PORT."
        )
    address = mark(directory).get("workers", "")
    if not address:
        raise UsageError(
            f"The study at {where} has no workers to join now; start it with study.workers in its recipe, "
            "and join while it runs."
        )
    return address
