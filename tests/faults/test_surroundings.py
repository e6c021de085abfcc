"""A home that is read-only, a file system without locks, a clock that goes backwards, poisoned states."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragc.targets.embedded.prefix_states import PrefixStates, state_key
from tests.examples import thorough
from tests.faults.checks import same
from tests.faults.commands import COMMANDS, COMPILE, NOISE, Prepared, prepare
from tests.faults.injector import FAIL_ON, FAIL_ONCE, Ended, Fault, environment, library, missing, ragc
from tests.support.loopback import Loopback

injected = pytest.mark.skipif(bool(missing()), reason=missing())
READ_ONLY = Fault("", 0, FAIL_ON, errno.EROFS)
ASKS = (
    COMPILE, ("compile", "recipe.toml", "--out", "other"), ("eval", "recipe.toml", "--split", "dev"),
    ("ask", "recipe.toml", "What colour is thing number3?"), ("ask", "out", "What colour is thing number3?"),
    ("grid", "recipe.toml", "--out", "grid"),
)  # fmt: skip
"""Commands that would send requests, and need somewhere to keep the replies."""
LOOKS = (
    ("export", "out", "--to", "python", "--out", "x.py"), ("study", "status", "out"), ("list", "programs"),
    ("doctor",), ("compile", "recipe.toml", "--dry-run"), ("trust", "out"),
    ("report", "out", "--out", "report.html"), ("index", "recipe.toml"),
)  # fmt: skip
"""Commands that send none."""


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with Loopback(latency_s=0.001) as endpoint:
        yield endpoint


@pytest.fixture(scope="module")
def prepared(server: Loopback, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prepared]:
    """A compiled program `out`, over which another may be compiled."""
    folder = tmp_path_factory.mktemp("surroundings")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGC_HOME", str(folder / "work/home"))
        patch.setenv("XDG_STATE_HOME", str(folder / "work/state"))
        yield prepare(COMMANDS["compile over an older program"], folder, server)


def one_sentence(ended: Ended) -> None:
    """Fails unless the command ended well, or with one sentence."""
    assert not [word for word in NOISE if word in ended.err], ended.err
    shown = ended.out.startswith("ok   python")  # doctor says what is wrong in a line of its table
    assert len(ended.errors) == (1 if ended.status and not shown else 0), ended.err
    assert ended.status in (0, 1, 2)


@injected
@thorough
@pytest.mark.parametrize("arguments", [*ASKS, *LOOKS], ids=" ".join)
def test_a_read_only_home_is_one_sentence_and_nothing_is_sent(
    arguments: tuple[str, ...], prepared: Prepared
) -> None:
    prepared.lay()
    sent = prepared.server.log.requests
    ended = ragc(prepared.folder, arguments, fault=READ_ONLY, watched=prepared.folder / "home")
    one_sentence(ended)
    assert prepared.server.log.requests == sent
    if arguments in ASKS:
        assert ended.status
        assert "RAGC_HOME" in ended.err
    assert same(prepared.read(), prepared.old)


@injected
@thorough
@pytest.mark.parametrize("arguments", [ASKS[0], ASKS[3], LOOKS[2], LOOKS[3]], ids=" ".join)
def test_folders_of_the_user_that_nobody_may_write_are_one_sentence(
    arguments: tuple[str, ...], prepared: Prepared
) -> None:
    prepared.lay()
    sent, locked = prepared.server.log.requests, prepared.folder / "locked"
    locked.mkdir()
    folders = {f"XDG_{kind}_HOME": str(locked / kind.lower()) for kind in ("CACHE", "STATE")}
    nowhere = {"RAGC_HOME": "", **folders}
    ended = ragc(prepared.folder, arguments, fault=READ_ONLY, watched=locked, variables=nowhere)
    one_sentence(ended)
    assert prepared.server.log.requests == sent
    assert not any(locked.iterdir())


@injected
@thorough
@pytest.mark.parametrize("error", [errno.ENOLCK, errno.ENOSYS], ids=errno.errorcode.get)
@pytest.mark.parametrize("arguments", [COMPILE, ASKS[2], ASKS[5], LOOKS[7]], ids=" ".join)
def test_a_home_without_locks_is_one_sentence_or_does_without(
    arguments: tuple[str, ...], error: int, prepared: Prepared
) -> None:
    prepared.lay()
    sent = prepared.server.log.requests
    ended = ragc(prepared.folder, arguments, fault=Fault("lock", 1, FAIL_ONCE, error))
    one_sentence(ended)
    assert not ended.status or prepared.server.log.requests == sent
    assert "RAGC_HOME" in ended.err or not ended.status
    assert same(prepared.read(), prepared.old) or not ended.status


@injected
@thorough
def test_a_clock_that_goes_backwards_changes_nothing(prepared: Prepared) -> None:
    prepared.lay()
    sent = prepared.server.log.requests
    shifted = {"LD_PRELOAD": str(library()), "FAULTS_CLOCK_FROM": "1", "FAULTS_CLOCK_BACK": str(400 * 86400)}
    command = [sys.executable, "-m", "ragc", *prepared.command.run]
    for more in ((), ("--resume",)):
        done = subprocess.run(
            [*command, *more], cwd=prepared.folder, env=environment(prepared.folder, **shifted),
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert not [word for word in NOISE if word in done.stderr]
        assert same(prepared.read(), prepared.new)
    assert prepared.server.log.requests - sent == prepared.sent
    shifted["FAULTS_CLOCK_FROM"] = "0"
    tell = [sys.executable, "-c", "import time; print(time.time())"]
    seen = subprocess.run(tell, env=os.environ | shifted, capture_output=True, text=True, check=True)
    assert float(seen.stdout) < prepared.folder.stat().st_mtime - 300 * 86400  # it was shifted indeed


@pytest.mark.parametrize(
    "kind", ["other content", "link to another", "pipe", "folder", "link to nothing", "cut"]
)
def test_a_poisoned_prefix_state_is_refused_and_made_anew(kind: str, tmp_path: Path) -> None:
    states, key = PrefixStates(tmp_path / "prefixes"), state_key("weights", ["engine", 1], [1, 2, 3])
    source = tmp_path / "made"
    source.write_bytes(b"what was computed " * 100)
    states.save(key, source)
    (path,) = states.paths(key)
    name, content = path.name, path.read_bytes()
    path.unlink()
    hostile = tmp_path / "hostile"
    hostile.write_bytes(b"what somebody else computed " * 100)
    match kind:
        case "other content":
            path.write_bytes(hostile.read_bytes())
        case "link to another":
            path.symlink_to(hostile)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link to nothing":
            path.symlink_to(tmp_path / "nothing")
        case _:
            path.write_bytes(content[:-1])
    target = tmp_path / "slot.state"
    assert not PrefixStates(states.folder).load(key, target)
    assert not target.exists()
    assert hostile.read_bytes() == b"what somebody else computed " * 100
    if kind != "folder":
        states.save(key, source)
        assert PrefixStates(states.folder).load(key, target)
        assert (target.read_bytes(), [one.name for one in states.paths(key)]) == (content, [name])
