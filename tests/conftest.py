"""What holds for every test: no network beyond this machine, no files outside, the same examples in CI."""

from __future__ import annotations

import gc
import ipaddress
import os
import shutil
import signal
import socket
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.examples import NETS, QUICK_CASES, THOROUGH, WHOLE_RUN, cases, examples

# Tests start many processes: each would compile all modules anew where the environment forbids bytecode.
os.environ["PYTHONDONTWRITEBYTECODE"] = ""
sys.dont_write_bytecode = False

# A shell lets what it runs in the background ignore interrupts; so would all that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # by nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# LiteLLM reads this when it is imported, and would fetch prices otherwise.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")

settings.register_profile("local", deadline=None, max_examples=examples(100))
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if THOROUGH else "local")


class Apart(LoadScopeScheduling):
    """Where tests run in several workers, a file stays in one: what its tests share is made once.

    One worker takes all that are integration, as models fill a machine; those of exports start no model.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        alone = file.startswith("tests/integration/") and "/test_exports_" not in file
        return "integration" if alone else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Apart:
    """As pytest-xdist asks for; its own groups of tests fail under pytest 9.2."""
    return Apart(config, log)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected lives to the end: no search for garbage goes over it meanwhile."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves a few cases of each test, where a developer runs the whole suite; a file alone runs in full."""
    if THOROUGH or len({item.path for item in items}) <= WHOLE_RUN:
        return
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    left = {item for listed in by_test.values() for item in cases(listed, QUICK_CASES)}
    left |= {item for item in items if item.nodeid.startswith(NETS)}
    config.hook.pytest_deselected(items=[item for item in items if item not in left])
    items[:] = [item for item in items if item in left]


_DSPY = "dspy.dsp.utils.settings"


class NetworkBlocked(AssertionError):
    """A test reached for another machine. No library takes this for a failed connection and tries again."""


def is_here(host: object) -> bool:
    """Whether `host`, a name or an address, is this machine."""
    name = host.decode() if isinstance(host, bytes) else str(host or "localhost")
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return name == "localhost" or name.endswith(".localhost") or name == socket.gethostname()
    return address.is_loopback or address.is_unspecified


@pytest.fixture(autouse=True, scope="session")
def _only_loopback() -> Iterator[None]:
    """Connections and look-ups that would leave this machine fail the test."""
    connect, connect_ex, getaddrinfo = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def check(address: Any) -> None:
        if isinstance(address, tuple) and not is_here(address[0]):
            raise NetworkBlocked(f"a test may not connect to {address[0]}:{address[1]}")

    def guarded_connect(self: socket.socket, address: Any) -> None:
        check(address)
        connect(self, address)

    def guarded_connect_ex(self: socket.socket, address: Any) -> int:
        check(address)
        return connect_ex(self, address)

    def guarded_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_here(host):
            raise NetworkBlocked(f"a test may not look up {host}")
        return getaddrinfo(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        patch.setattr(socket, "getaddrinfo", guarded_getaddrinfo)
        yield


@pytest.fixture(autouse=True, scope="session")
def _own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Store, studies, indexes and weights live in a folder of this run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGC_HOME", str(tmp_path_factory.mktemp("ragc-home")))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache-home")))
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state-home")))
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of this test's own, whose `home` is where ragc keeps what it keeps."""
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture(autouse=True)
def _own_ledger(_own_home: None) -> None:
    """No test sees which questions another one used: the ledger of this run begins empty."""
    shutil.rmtree(Path(os.environ["RAGC_HOME"]) / "uses", ignore_errors=True)


@pytest.fixture(autouse=True)
def _own_dspy_settings() -> Iterator[None]:
    """No test sees what another one, such as a page of the docs, told `dspy.configure`."""
    before = _dspy_settings()
    earlier = None if before is None else dict(before)
    yield
    after = _dspy_settings()
    if after is not None and (earlier is None or dict(after) != earlier):
        after.clear()
        after.update(
            dict(sys.modules[_DSPY].DEFAULT_CONFIG, trace=[], callbacks=[]) if earlier is None else earlier
        )


def _dspy_settings() -> Any:
    """What `dspy.configure` changes, for all threads; None where nothing has imported DSPy yet."""
    return getattr(sys.modules.get(_DSPY), "main_thread_config", None)


@pytest.fixture(autouse=True, scope="session")
def _disk_not_awaited() -> Iterator[None]:
    """No test sees whether a disk has what was written; on a developer's machine none waits for it."""
    with pytest.MonkeyPatch.context() as patch:
        if not THOROUGH:
            patch.setattr(os, "fsync", os.fstat)
        yield
