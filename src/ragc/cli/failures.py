"""Converts the error that ends a command into one sentence: system errors, and unexpected ones."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from ragc.core.files import cache_home, put_file

DEBUG_ENV = "RAGC_DEBUG"
"""The environment variable that shows tracebacks."""

LOG = "last-error.log"
"""The file in the cache folder with the traceback of the last unexpected error."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_REMEDIES = {
    **dict.fromkeys(_FULL, "free space there"),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS),
        "grant access there, or choose another place with --out or RAGC_HOME",
    ),
    errno.ENAMETOOLONG: "use a shorter path",
    errno.EMFILE: "allow more open files (ulimit -n)",
}
_MAX_CHARS = 300


def sentence(error: BaseException, command: str, *, resumable: bool = False) -> str:
    """Returns one sentence: what `error` ended, why, and what to do; `command` is its name (`ragc compile`).

    The traceback of an unexpected error is written to the cache folder, or to stderr with RAGC_DEBUG=1.
    `resumable` says that --resume continues the command.
    """
    cause = _first_error(error)
    reason, remedy = _diagnose(cause)
    if not reason:
        return _describe_bug(error, cause, command)
    if os.environ.get(DEBUG_ENV):
        _show(error)
    again = "what was answered so far is kept in the store; run the same command again with --resume"
    parts = filter(None, (reason, remedy, again if resumable else ""))
    return _one_line(f"{command} failed: {'; '.join(parts)}.")


def _first_error(error: BaseException) -> BaseException:
    """Returns the first error of a group, else `error`."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _diagnose(error: BaseException) -> tuple[str, str]:
    """Returns the cause and the remedy; "" for an unexpected error."""
    if isinstance(error, UnicodeError):
        return (
            "a text holds what is no Unicode text (lone surrogates, or bytes of another encoding)",
            "",
        )
    if isinstance(error, ValueError) and "null byte" in str(error):
        return "a path holds a NUL byte", "write it without"
    if isinstance(error, OSError):
        where = " -> ".join(str(name) for name in (error.filename, error.filename2) if isinstance(name, str))
        reason = error.strerror or str(error) or type(error).__name__
        remedy = _REMEDIES.get(error.errno or 0, "")
        if where.startswith(str(cache_home())):
            remedy = "; ".join(filter(None, (remedy, "check RAGC_HOME, or set it to another folder")))
        return f"{reason} ({where})" if where else reason, remedy
    if isinstance(error, sqlite3.Error):
        full = "full" in str(error)
        return f"the database of the call store says {error}", "free space there" if full else ""
    if isinstance(error, MemoryError):
        return "there is not enough memory", "use smaller files or a smaller model"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return (
            "the system started no further thread, because memory or processes are limited",
            "raise the limits (ulimit -v, ulimit -u), or lower concurrency",
        )
    if isinstance(error, RecursionError):
        return "something that was read is nested too deeply", ""
    return "", ""


def _describe_bug(error: BaseException, cause: BaseException, command: str) -> str:
    """Returns one sentence on an internal error, whose traceback is stored or shown."""
    description = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    if os.environ.get(DEBUG_ENV):
        _show(error)
        where = "its traceback is above"
    elif log := _write_log(error):
        where = f"its traceback is in {log}; please report it"
    else:
        where = f"set {DEBUG_ENV}=1 to see its traceback"
    return _one_line(f"{command} failed by an error in ragc ({_redact(description)}); {where}.")


def _one_line(text: str) -> str:
    """Returns `text` on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= 2 * _MAX_CHARS else f"{line[:_MAX_CHARS]} … {line[-_MAX_CHARS:]}"


def _traceback_text(error: BaseException) -> str:
    return _redact("".join(traceback.format_exception(error)))


def _redact(text: str) -> str:
    from ragc.core.redact import redact

    return redact(text)


def _show(error: BaseException) -> None:
    with suppress(OSError):
        sys.stderr.write(_traceback_text(error))


def _write_log(error: BaseException) -> Path | None:
    """Writes the traceback of `error` to the log file; returns None if it cannot be written."""
    with suppress(Exception):
        log = cache_home() / LOG
        put_file(log, _traceback_text(error).encode("utf-8", "backslashreplace"), private=True)
        return log
    return None


class _WatchedStream:
    """Wraps a stream and records a failed write, since some writers ignore the error."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.refused: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Writes to the stream and records a failure. Raises OSError."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self.refused = error
            raise

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes to the stream and records a failure. Raises OSError."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flushes the stream and records a failure. Raises OSError."""
        try:
            self._stream.flush()
        except OSError as error:
            self.refused = error
            raise


@contextmanager
def streams() -> Iterator[None]:
    """Lets stdout and stderr accept any text, and not fail again at interpreter exit."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - it lives as long as the process
    plain = sys.stdout
    if plain is not None:
        sys.stdout = cast(TextIO, _WatchedStream(plain))
    try:
        yield
    finally:
        sys.stdout = plain
        for stream in (sys.stdout, sys.stderr):
            if refusal(stream):
                _silence(stream)


_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a command as Ctrl-C does: of a supervisor, of `kill`, and of a terminal that closes."""

_ended_by: list[int] = []
_command_process: list[int] = []


def _end(number: int, frame: Any) -> None:
    if os.getpid() not in _command_process:  # a fork, which has nothing to say
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    _ended_by.append(number)
    signal.default_int_handler(number, frame)


def interrupted_status() -> int:
    """Returns the exit code of a command that was interrupted: 128 and the number of the signal."""
    return 128 + (_ended_by[-1] if _ended_by else signal.SIGINT)


@contextmanager
def endings() -> Iterator[None]:
    """Lets signals that end a process end the command as Ctrl-C does, with a hint how to continue.

    A signal that is ignored (`nohup`) or handled already is left alone.
    """
    usual: dict[int, Any] = {}
    with suppress(ValueError):  # only the main thread receives signals
        for number in _ENDING:
            if signal.getsignal(number) is signal.SIG_DFL:
                usual[number] = signal.signal(number, _end)
    _ended_by.clear()
    _command_process[:] = [os.getpid()]
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


@contextmanager
def ignore_interrupts() -> Iterator[None]:
    """Ignores further interrupts during the cleanup after one, which takes a few seconds at most."""
    try:
        usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # only the main thread receives interrupts
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def refusal(stream: Any) -> OSError | None:
    """Returns the error of writing to `stream`; None when everything was delivered."""
    try:
        stream.flush()
    except OSError as error:
        return error
    except (ValueError, AttributeError):
        return OSError(errno.EBADF, "it is closed")
    refused: OSError | None = getattr(stream, "refused", None)  # a `_WatchedStream`, possibly wrapped
    return refused


def _silence(stream: Any) -> None:
    """Redirects `stream` to nowhere, so that its last flush does not fail."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
