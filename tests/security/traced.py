"""Runs commands of ragc in one process and writes down what they do: `python -c SOURCE JOBS LOG FOLDERS...`.

JOBS is a JSON list of argument lists. Every line of LOG is a JSON list: the number of the command, then an
event of `sys.addaudithook` with its arguments. Written down are connections and started programs, libraries
that are loaded, code that is run from a file in one of FOLDERS, and every change of a file or folder there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

CHANGES = {
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.link", "os.symlink",
    "os.truncate", "os.utime", "os.setxattr", "shutil.rmtree", "shutil.move", "shutil.copyfile",
    "shutil.copymode", "shutil.copystat", "shutil.copytree", "tempfile.mkstemp", "tempfile.mkdtemp",
    "sqlite3.connect",
}  # fmt: skip
ALWAYS = {
    "socket.connect", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname",
    "subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.startfile",
}  # fmt: skip
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def watch(log: int, folders: tuple[str, ...]) -> Callable[[int], None]:
    """Install the hook; what it returns sets the number of the command."""
    number = -1

    def inside(value: Any, folder_handle: int = -1) -> bool:
        if isinstance(value, bytes):
            value = os.fsdecode(value)
        elif isinstance(value, os.PathLike):
            value = os.fspath(value)
        if not isinstance(value, str) or not value or value.startswith((":memory:", "<")):
            return False
        value = value.partition("?")[0].removeprefix("file://") if value.startswith("file://") else value
        if folder_handle >= 0:  # the path leads from an open folder
            with suppress(OSError):
                value = os.path.join(os.readlink(f"/proc/self/fd/{folder_handle}"), value)  # noqa: PTH115, PTH118
        here = f"{os.path.abspath(value)}/"  # noqa: PTH100 - links are to be seen as they are written
        return any(here.startswith(f"{folder}/") for folder in folders)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if number < 0:
            return
        if event == "open":
            path, _, flags = arguments
            noted = inside(path) and (bool(flags & WRITING) or "canary" in str(path))
        elif event == "exec":
            noted = inside(getattr(arguments[0], "co_filename", ""))
        elif event in ("compile", "ctypes.dlopen"):
            noted = inside(arguments[-1])
        else:
            handle = arguments[-1] if arguments and isinstance(arguments[-1], int) else -1
            noted = event in ALWAYS or (event in CHANGES and any(inside(each, handle) for each in arguments))
        if noted:
            line = json.dumps([number, event, *(repr(each)[:300] for each in arguments)])
            os.write(log, f"{line}\n".encode())

    def begin(next_number: int) -> None:
        nonlocal number
        number = next_number

    sys.addaudithook(hook)
    return begin


def run(jobs: list[list[str]], begin: Callable[[int], None]) -> list[int]:
    """The exit status of each command."""
    from ragc.cli.main import main

    statuses = []
    for number, words in enumerate(jobs):
        begin(number)
        print(f"--- {number}", file=sys.stderr, flush=True)
        try:
            statuses.append(main(words))
        except SystemExit as ended:
            statuses.append(ended.code if isinstance(ended.code, int) else 1)
    begin(-1)
    return statuses


def traced(jobs_file: str, log_file: str, *folders: str) -> None:
    """What `python -c SOURCE` calls; prints the statuses as its last line."""
    with open(jobs_file, encoding="utf-8") as file:  # noqa: PTH123
        jobs = json.load(file)
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    begin = watch(log, folders)
    print(json.dumps(run(jobs, begin)))


SOURCE = "import sys; from tests.security.traced import traced; traced(*sys.argv[1:])"
