"""Calling a compiled program: opened at the first question, then held for all threads and event loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragc.core import event_loop
from ragc.optimizers.answering import Row
from ragc.optimizers.results import evaluate
from ragc.optimizers.results.compiled import CompiledProgram, load
from ragc.optimizers.results.evaluate import OpenProgram
from ragc.optimizers.results.resolve import Opening


def load_to_answer(path: str | Path, how: Opening) -> CompiledProgram:
    """The compiled program in the directory `path`, which answers as `how` allows. Raises ArtefactError."""
    # The program may be called from another working directory.
    return load(Path(path).absolute(), Session(how))


class Session:
    """How one compiled program is opened, and what it holds once it is; safe in several threads."""

    def __init__(self, how: Opening) -> None:
        self._how = how
        self._lock = threading.Lock()
        self._opened: OpenProgram | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Session, (self._how,)  # a copy opens for itself

    def ask(self, compiled: CompiledProgram, question: str, context: Mapping[str, Any]) -> Row:
        """Answer `question` with `compiled`. Raises RagcError."""
        return evaluate.ask(self._ready(compiled), question, context=context)

    async def aask(self, compiled: CompiledProgram, question: str, context: Mapping[str, Any]) -> Row:
        """As `ask`; files are read in a thread, so that the caller's loop goes on."""
        ready = await asyncio.to_thread(self._ready, compiled)
        return await event_loop.on_loop(evaluate.answer_question(ready, question, context=context))

    def close(self) -> None:
        """Free what is held."""
        with self._lock:
            held, self._opened = self._opened, None
        if held is not None:
            held.close()

    def _ready(self, compiled: CompiledProgram) -> OpenProgram:
        with self._lock:
            if self._opened is None:
                self._opened = evaluate.open_compiled(compiled, self._how, questions=False)
            return self._opened
