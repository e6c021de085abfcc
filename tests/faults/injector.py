"""Runs ragc's command line with a fault at one of its system calls, and reads the calls that it made.

`syscalls.c` is compiled when it is first needed. It works on Linux with gcc on x86_64 and aarch64.
"""

from __future__ import annotations

import atexit
import ctypes
import errno
import functools
import os
import platform
import runpy
import shutil
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests import processes

SOURCE = Path(__file__).with_name("syscalls.c")
LIBRARY_ENV = "FAULTS_LIBRARY"
KINDS = (
    "", "write", "open", "mkdir", "rename", "link", "symlink", "unlink", "rmdir", "truncate", "sync", "lock",
)  # fmt: skip
NOTHING, FAIL_ONCE, FAIL_ON, KILL = range(4)
CREATED, EMPTIED, INJECTED, FOLDER, SWAPPED = 1, 2, 4, 8, 16
_HEAD = struct.Struct("<IIqqqQIIIIII")


@dataclass(frozen=True, slots=True)
class Call:
    """One system call on a file below the watched folder.

    `site` is its kind and path with digests, numbers and random names replaced. `data` is what a write wrote,
    if that was kept. `other` is the second path of a rename or link, and the target of a symbolic link.
    """

    kind: str
    path: str
    other: str
    site: str
    result: int
    offset: int
    length: int
    inode: int
    flags: int
    data: bytes

    @property
    def changes(self) -> bool:
        """Whether a fault here can leave a trace: it is no lock and no opening of a file that is there."""
        return self.kind != "lock" and (self.kind != "open" or bool(self.flags & (CREATED | EMPTIED)))


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at the `at`-th call (from 1) of `site`: `then` is FAIL_ONCE, FAIL_ON or KILL.

    FAIL_ON goes on failing whatever takes room, as a full disk does, with `error`; without a `site` from the
    start. With "lock" for a site every flock fails.
    """

    site: str = ""
    at: int = 0
    then: int = NOTHING
    error: int = 0

    def __str__(self) -> str:
        what = {KILL: "killed"}.get(self.then) or errno.errorcode.get(self.error, "none")
        return f"{what} at {self.site} #{self.at}"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended and the calls that it made."""

    status: int
    out: str
    err: str
    calls: tuple[Call, ...]

    @property
    def errors(self) -> list[str]:
        """The sentences on stderr, progress left out."""
        return [line for line in self.err.splitlines() if line.startswith("ragc: ")]


@functools.cache
def missing() -> str:
    """What this machine lacks to inject faults, as a reason to skip; "" for nothing."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"):
        return "faults at system calls are injected on Linux, on x86_64 and aarch64"
    if shutil.which("gcc") is None:
        return "gcc is not installed"
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    if not actions.exists() or "trap" not in actions.read_text().split():
        return "this kernel has no seccomp filters that trap"
    try:
        library()
    except subprocess.CalledProcessError as error:
        return f"gcc cannot compile {SOURCE.name}: {error.stderr.splitlines()[:1]}"
    return ""


@functools.cache
def library() -> Path:
    """The compiled `syscalls.c`, in a temporary folder of this process."""
    folder = Path(tempfile.mkdtemp(prefix="ragc-faults-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    out = folder / "syscalls.so"
    command = ["gcc", "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", str(out), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return out


def environment(folder: Path, **more: str) -> dict[str, str]:
    """What a watched process has around it; its cache and its state are in `folder`."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("XDG_") and name not in ("RAGC_DEBUG", "LD_PRELOAD")
    }
    own = {
        "RAGC_HOME": str(folder / "home"),
        "XDG_STATE_HOME": str(folder / "state"),
        "PYTHONPATH": processes.PATH,
    }
    return inherited | own | {"PYTHONHASHSEED": "0"} | more


def ragc(
    folder: Path,
    arguments: Sequence[str],
    *,
    fault: Fault | None = None,
    data: bool = False,
    watched: Path | None = None,
    timeout: float = 120,
    variables: Mapping[str, str] | None = None,
) -> Ended:
    """Runs `ragc ARGUMENTS`, or `python SCRIPT`, in `folder`, whose changes are watched, to its end.

    The process is forked from one that has imported ragc. fsync is recorded and not carried out: nobody pulls
    the plug. `data` keeps what is written. `watched` is the folder of the faults, by default `folder`.
    """
    chosen = fault or Fault()
    with tempfile.TemporaryDirectory(prefix="ragc-calls-") as scratch:
        log = Path(scratch) / "calls"
        script = "from tests.faults.injector import execute; execute()"
        numbers = map(str, (chosen.at, chosen.then, chosen.error, int(data)))
        command = ["-c", script, str(watched or folder), str(log), chosen.site, *numbers, *arguments]
        around = environment(folder, **(variables or {})) | {LIBRARY_ENV: str(library())}
        process = processes.start(command, cwd=folder, environment=around, forked=True)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(9)
            process.communicate()
            raise
        calls = tuple(read_calls(log)) if log.exists() else ()
        return Ended(process.wait(), out, err, calls)


def execute() -> None:
    """What the forked process does: watches itself, then runs the command line."""
    folder, log, site, at, then, error, data, *arguments = sys.argv[1:]
    arm(Path(folder), Path(log), Fault(site, int(at), int(then), int(error)), data=data == "1")
    if os.environ.get("FAULTS_STORED"):  # small corpora are stored as large ones are
        from ragc.corpora.storage import corpus

        corpus.STORED_FROM = 1
    if arguments[0] == "python":
        sys.argv = arguments[1:]
        runpy.run_path(arguments[1], run_name="__main__")
        return
    from ragc.cli.main import main

    sys.exit(main(arguments))


def arm(folder: Path, log: Path, fault: Fault, *, data: bool = False) -> None:
    """Watches the calls of this process below `folder` from now on. Raises OSError."""
    path = os.environ[LIBRARY_ENV]
    loaded = ctypes.CDLL(path)
    # What this process starts is watched no more, but lives under its filter.
    os.environ["FAULTS_INHERITED"], os.environ["LD_PRELOAD"] = "1", path
    loaded.faults_arm.argtypes = [
        ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int,
        ctypes.c_int, ctypes.c_int,
    ]  # fmt: skip
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    status = loaded.faults_arm(
        os.fsencode(folder), file, os.fsencode(fault.site), fault.at, fault.then, fault.error, int(data), 1
    )
    if status:
        raise OSError(status, os.strerror(status))


def read_calls(log: Path) -> Iterator[Call]:
    """The calls in the file `log`; one that a kill cut short is left out."""
    content = log.read_bytes()
    at = 0
    while at + _HEAD.size <= len(content):
        size, kind, result, offset, length, inode, flags, _, *sizes = _HEAD.unpack_from(content, at)
        if at + size > len(content):
            return
        ends = [at + _HEAD.size]
        for each in sizes:
            ends.append(ends[-1] + each)
        path, other, site, data = (content[a:b] for a, b in pairwise(ends))
        yield Call(
            KINDS[kind], os.fsdecode(path), os.fsdecode(other), os.fsdecode(site), result, offset, length,
            inode, flags, data,
        )  # fmt: skip
        at += size


def places(calls: Sequence[Call]) -> list[tuple[str, int]]:
    """The call sites of `calls`, each with the numbers (from 1) of its first, middle and last call."""
    total = Counter(call.site for call in calls)
    chosen = dict.fromkeys(call.site for call in calls if call.changes)
    return [
        (site, at) for site in chosen for at in sorted({1, (total[site] + 1) // 2, total[site]})
    ]  # fmt: skip
