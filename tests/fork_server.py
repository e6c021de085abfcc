"""Forks processes from one that has imported what ragc's commands import; see `tests.processes`.

    python -m tests.fork_server DESCRIPTOR

The descriptor is a socket. Each message on it is a request, with the streams of the new process and a socket
to which its id and later its exit status are sent. A process between this one and the new one awaits its end.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import io
import json
import os
import random
import runpy
import signal
import socket
import sys
from types import ModuleType
from typing import Any

LIBRARIES = (
    "ragc.cli.commands.compile",
    "ragc.reports.report",
    "ragc.cli.main",
    "ragc.optimizers.compile",
    "ragc.optimizers.integrations.optuna_objective",
    "ragc.compiled.evaluate",
)


def serve(requests: socket.socket) -> list[str]:
    """Fork as asked until nobody can ask; in a new process its command is returned."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        if not message:
            sys.exit()
        if os.fork() == 0:
            *streams, reports = descriptors
            child = os.fork()
            if child == 0:
                requests.close()
                os.close(reports)
                return become(json.loads(message), streams)
            for descriptor in streams:
                os.close(descriptor)
            os.write(reports, str(child).encode())
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            os.write(reports, str(status).encode())
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        while reaped():
            pass


def reaped() -> bool:
    """Whether a process that waited for another had ended."""
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def become(request: dict[str, Any], streams: list[int]) -> list[str]:
    """Take the folder, environment and streams of `request`; its command."""
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["unprivileged"] and os.getuid() == 0:
        drop_powers()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin = open(0, encoding="utf-8", errors="strict", closefd=False)  # noqa: SIM115
    sys.stdout = opened(1, "strict")
    sys.stderr = opened(2, "backslashreplace", line_buffering=True)
    random.seed()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    command: list[str] = request["command"]
    return command


def drop_powers() -> None:
    """Take root's power over permissions from this process for good: Linux's capabilities 1 to 3."""
    library, drop = ctypes.CDLL(None, use_errno=True), 24  # PR_CAPBSET_DROP
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    for capability in (1, 2, 3):
        check(library.prctl(drop, capability, 0, 0, 0))
    check(library.capget(header, sets))
    for number in range(3):  # effective, permitted, inheritable: the first 32 of each
        sets[number] &= ~0b1110
    check(library.capset(header, sets))


def check(status: int) -> None:
    """Raise OSError where a call of the system failed."""
    if status:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def opened(descriptor: int, errors: str, *, line_buffering: bool = False) -> io.TextIOWrapper:
    """An output stream as the interpreter makes it."""
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding="utf-8",
        errors=errors,
        line_buffering=line_buffering or os.isatty(descriptor),
    )


def execute(option: str, source: str, arguments: list[str]) -> None:
    """Do what `python OPTION SOURCE ARGUMENTS` does, with -m or -c for OPTION."""
    if option == "-m":
        sys.path[0] = os.getcwd()  # noqa: PTH109 - as the interpreter does
        sys.argv = [source, *arguments]
        runpy.run_module(source, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = ""
        sys.argv = ["-c", *arguments]
        module = ModuleType("__main__")
        sys.modules["__main__"] = module
        exec(compile(source, "<string>", "exec"), vars(module))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.collect()
    gc.freeze()
    option, source, *arguments = serve(socket.socket(fileno=int(sys.argv[1])))
    execute(option, source, arguments)
