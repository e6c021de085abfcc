"""Sessions of compiled programs: opened at the first question, then shared by all threads and event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragc.compiled import opened
from ragc.compiled.base import CompiledProgram, load
from ragc.compiled.opened import OpenProgram
from ragc.compiled.resolve import Opening, check_access
from ragc.core import event_loop
from ragc.task.answering import Row


def load_to_answer(path: str | Path, how: Opening) -> CompiledProgram:
    """Loads the compiled program in the directory `path`, to answer with the access of `how`.

    Raises ArtefactError, and Untrusted for access that is not allowed.
    """
    # The program may be called later from another working directory.
    compiled = load(opened.directory_of(path).absolute(), Session(how))
    check_access(compiled, how)
    return compiled


class Session:
    """Opens one compiled program on demand and keeps it open. Thread-safe."""

    def __init__(self, how: Opening) -> None:
        self._how = how
        self._lock = threading.Lock()
        self._opened: OpenProgram | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Session, (self._how,)  # a copy opens the program itself

    def ask(self, compiled: CompiledProgram, question: str, context: Mapping[str, Any]) -> Row:
        """Answers `question` with `compiled`. Raises RagcError."""
        return opened.ask(self._ready(compiled), question, context=context)

    async def aask(self, compiled: CompiledProgram, question: str, context: Mapping[str, Any]) -> Row:
        """Awaits what `ask` returns. Files are read in a thread, so the caller's loop is not blocked."""
        ready = await asyncio.to_thread(self._ready, compiled)
        return await event_loop.on_loop(opened.answer_question(ready, question, context=context))

    def close(self) -> None:
        """Frees models, connections and files."""
        with self._lock:
            held, self._opened = self._opened, None
        if held is not None:
            held.close()

    def _ready(self, compiled: CompiledProgram) -> OpenProgram:
        with self._lock:
            if self._opened is None:
                self._opened = opened.open_compiled(compiled, self._how, questions=False)
            return self._opened
