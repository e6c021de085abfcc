"""Opens a compiled program or a recipe on its runtime, and answers single questions with it.

A loaded program has a session, which opens it at the first question, for all threads and event loops.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from ragc import recipe
from ragc.compiled.access import Access
from ragc.compiled.base import PACKED, CompiledProgram, load
from ragc.compiled.resolve import Opening, check_access, resolve
from ragc.core import event_loop
from ragc.core.files import missing_file
from ragc.errors import ArtefactError, UsageError
from ragc.programs.base import RagProgram
from ragc.records import Question
from ragc.store.calls import CallStore
from ragc.targets.base import Target
from ragc.task.answering import Row, answer
from ragc.task.base import Task, prepare


@dataclass(frozen=True, slots=True)
class OpenProgram:
    """A program on its runtime. `compiled` is None if it comes from a recipe alone."""

    task: Task
    program: RagProgram
    compiled: CompiledProgram | None

    def repeated(self, number: int) -> RagProgram:
        """Builds the program anew with replies that are drawn for the `number`th time after the first."""
        task, runtime = self.task, self.task.runtime.repeated(number)
        if self.compiled is not None:
            entry = task.method if task.method.id == self.compiled.state.method else None
            return self.compiled.build(runtime, entry)
        program = task.method.build(runtime, task.recipe.fixed(task.method))
        if task.recipe.prompts:
            from ragc.task.prompts import give_prompts

            program = give_prompts(program, task.recipe)
        program.learned = self.program.learned
        return program

    def ask_anew(self) -> None:
        """Makes later calls ask the models again instead of using stored replies."""
        self.task.runtime.gateway.salt = uuid4().hex[:16]

    def close(self) -> None:
        """Frees models, connections and files."""
        event_loop.run(self.task.runtime.aclose())
        self.task.budget.close()
        self.task.runtime.gateway.store.close()


def directory_of(path: str | Path) -> Path:
    """Returns `path`, or the directory of the pack `path`, a `.ragc` file. Raises ArtefactError."""
    where = Path(path)
    if where.suffix != PACKED or not where.is_file():
        return where
    from ragc.compiled.pack import unpacked

    return unpacked(where)


def program_or_recipe(path: str | Path) -> Path:
    """Returns `directory_of(path)`. Raises ArtefactError also where nothing is there."""
    where = directory_of(path)
    if not where.exists():
        what = f"the recipe or compiled program {str(where)!r}"
        raise ArtefactError(missing_file(what, str(where), Path(), "file or folder"))
    return where


def open_program(
    path: str | Path,
    sets: Sequence[str] = (),
    *,
    questions: bool = True,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
    access: Access = Access(),
) -> OpenProgram:
    """Opens the compiled program or recipe at `path`, with the overrides `sets`. Nothing is sent.

    A recipe gives its program with default knobs, overridden by `[knobs]`, and no demonstrations. `targets`
    replace those of the recipe; `access` is what a directory from elsewhere may do. Raises UsageError and its
    subclasses.
    """
    where = program_or_recipe(path)
    if where.is_dir():
        how = Opening(tuple(sets), access)
        return open_compiled(load(where), how, questions=questions, store=store, targets=targets)
    base = None if access.base is None else Path(access.base)
    resolved = recipe.load(where, sets, base=base)
    task = prepare(resolved, store=store, questions=questions, targets=targets)
    _count_only_for_a_limit(task)
    program = task.method.build(task.runtime, task.recipe.fixed(task.method))
    if resolved.prompts:
        from ragc.task.prompts import give_prompts

        program = give_prompts(program, resolved)
    return OpenProgram(task, program, None)


def open_compiled(
    compiled: CompiledProgram,
    how: Opening,
    *,
    questions: bool = True,
    store: CallStore | None = None,
    targets: Mapping[str, Target] | None = None,
) -> OpenProgram:
    """Opens a loaded program, as `open_program` does. Raises Untrusted for what is not allowed."""
    resolved = resolve(compiled, how, questions=questions, stand_ins=bool(targets))
    task = prepare(resolved, store=store, questions=questions, targets=targets)
    _count_only_for_a_limit(task)
    task.runtime.gateway.salt = compiled.salt
    entry = task.method if task.method.id == compiled.state.method else None
    return OpenProgram(task, compiled.build(task.runtime, entry), compiled)


def _count_only_for_a_limit(task: Task) -> None:
    """Removes the budget unless the recipe has a budget, as an evaluation is never resumed."""
    if task.recipe.budget == recipe.Budget():
        task.runtime.gateway.budget = None


def ask(opened: OpenProgram, question: str, *, context: Mapping[str, Any] | None = None) -> Row:
    """Answers one question."""
    return event_loop.run(answer_question(opened, question, context=context))


async def answer_question(
    opened: OpenProgram, question: str, *, context: Mapping[str, Any] | None = None
) -> Row:
    """Answers as `ask` does, on the process's event loop."""
    if not isinstance(question, str):
        raise UsageError(f"A question is a text, found {type(question).__name__}.")
    if not question.strip():
        raise UsageError("The question is empty; write it as one argument, in quotes.")
    return await answer(opened.program, Question("", question, (), **dict(context or {})))


def load_to_answer(path: str | Path, how: Opening) -> CompiledProgram:
    """Loads the compiled program in the directory `path`, to answer with the access of `how`.

    Raises ArtefactError, and Untrusted for access that is not allowed.
    """
    # The program may be called later from another working directory.
    compiled = load(directory_of(path).absolute(), Session(how))
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
        return ask(self._ready(compiled), question, context=context)

    async def aask(self, compiled: CompiledProgram, question: str, context: Mapping[str, Any]) -> Row:
        """Awaits what `ask` returns. Files are read in a thread, so the caller's loop is not blocked."""
        ready = await asyncio.to_thread(self._ready, compiled)
        return await event_loop.on_loop(answer_question(ready, question, context=context))

    def close(self) -> None:
        """Frees models, connections and files."""
        with self._lock:
            held, self._opened = self._opened, None
        if held is not None:
            held.close()

    def _ready(self, compiled: CompiledProgram) -> OpenProgram:
        with self._lock:
            if self._opened is None:
                self._opened = open_compiled(compiled, self._how, questions=False)
            return self._opened
