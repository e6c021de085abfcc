"""A full disk, no permission, a device for a file: one sentence, and what was answered is kept."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragc.cli.main import main
from tests import processes
from tests.examples import cases, thorough
from tests.security.command_line import (
    NOISE,
    command,
    contents,
    environment,
    needs_privileges_dropped,
    prepared,
    ragc,
)
from tests.support.loopback import Loopback
from tests.support.loopback_world import reply

unprivileged = needs_privileges_dropped()


@contextmanager
def disk(folder: Path, size: str) -> Iterator[Path]:
    """A small file system at `folder`; skips where none may be mounted."""
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def filled(folder: Path, leave: int) -> Path:
    """A file in `folder` that leaves `leave` bytes free."""
    path = folder / "filler"
    free = os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize
    path.write_bytes(b"\0" * max(0, free - leave))
    return path


@thorough
@pytest.mark.parametrize("leave", cases([130_000, 0, 180_000], 1))
def test_a_full_cache_is_one_sentence_and_what_was_answered_is_replayed(
    leave: int, server: Loopback, tmp_path: Path
) -> None:
    prepared(tmp_path, server)
    (tmp_path / "whole").mkdir()
    first, command = server.log.requests, ("compile", "recipe.toml", "--out")
    assert ragc(tmp_path, *command, "whole/out", home=tmp_path / "whole/home").status == 0
    before = server.log.requests
    with disk(tmp_path / "home", "2m") as home:
        filler = filled(home, leave)
        ended = ragc(tmp_path, *command, "out")
        assert ended.status in (1, 2)
        assert any(word in ended.err for word in ("No space left", "full", "disk I/O"))
        assert not (tmp_path / "out").exists()
        filler.unlink()
        assert ragc(tmp_path, *command, "out", "--resume").status == 0
        lost = server.log.requests - before - (before - first)
        assert lost <= 8  # those in flight when it filled up
    for name in ("program.json", "provenance.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole/out" / name).read_bytes()


@pytest.mark.parametrize("arguments", [("compile",), ("eval", "--split", "dev")])
def test_a_full_disk_for_the_result_is_noticed_before_the_first_request(
    arguments: tuple[str, ...], server: Loopback, tmp_path: Path
) -> None:
    prepared(tmp_path, server)
    with disk(tmp_path / "small", "200k") as small:
        filled(small, 0)
        sent = server.log.requests
        ended = ragc(tmp_path, arguments[0], "recipe.toml", *arguments[1:], "--out", "small/out")
        assert (ended.status, server.log.requests) == (2, sent)
        assert "cannot be written: No space left on device" in ended.err


def test_a_mount_point_as_a_folder_for_the_result_is_refused_before_the_first_request(
    server: Loopback, tmp_path: Path
) -> None:
    prepared(tmp_path, server)
    with disk(tmp_path / "mounted", "4m"):
        sent = server.log.requests
        ended = ragc(tmp_path, "compile", "recipe.toml", "--out", "mounted")
        assert (ended.status, server.log.requests) == (2, sent)
        assert "a mount point, the current folder or one without the right to write cannot be" in ended.err
        assert ragc(tmp_path, "compile", "recipe.toml", "--out", "mounted/out").status == 0


@unprivileged
@pytest.mark.parametrize(
    ("arguments", "outs"),
    [
        (("compile",), ("locked/out", "locked/new/out", "here")),
        (("eval", "--split", "dev"), ("locked/out", "locked/new/out")),
    ],
)
def test_an_out_without_permission_is_noticed_before_the_first_request(
    arguments: tuple[str, ...], outs: tuple[str, ...], server: Loopback, tmp_path: Path
) -> None:
    prepared(tmp_path, server)
    assert ragc(tmp_path, "compile", "recipe.toml", "--out", "here").status == 0
    for folder in ("locked", "here"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder).chmod(0o555)
    sent, old = server.log.requests, contents(tmp_path / "here")
    for out in outs:
        ended = ragc(tmp_path, arguments[0], "recipe.toml", *arguments[1:], "--out", out, unprivileged=True)
        assert (ended.status, server.log.requests) == (2, sent)
        assert "choose another --out" in ended.err
    assert (contents(tmp_path / "locked"), contents(tmp_path / "here")) == ({}, old)


@unprivileged
def test_a_cache_without_permission_is_one_sentence_and_nothing_is_sent(
    server: Loopback, tmp_path: Path
) -> None:
    prepared(tmp_path, server)
    (tmp_path / "home").mkdir(mode=0o555)
    sent = server.log.requests
    for arguments in (("compile", "recipe.toml"), ("eval", "recipe.toml"), ("ask", "recipe.toml", "What?")):
        ended = ragc(tmp_path, *arguments, unprivileged=True)
        assert (ended.status, server.log.requests) == (1, sent)
        assert "Permission denied" in ended.err
        assert "RAGC_HOME" in ended.err


def ended_here(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The status and the one sentence of a command in this process."""
    capsys.readouterr()
    status = main(arguments)
    err = capsys.readouterr().err
    assert not [word for word in NOISE if word in err]
    assert len([line for line in err.splitlines() if line.startswith("ragc: ")]) == 1
    return status, err


@pytest.mark.parametrize("home", ["recipe.toml", "recipe.toml/x", "/dev/null", "/proc/x", "x" * 300])
def test_a_cache_that_cannot_be_is_one_sentence(
    home: str,
    server: Loopback,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(prepared(tmp_path, server))
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / home))
    sent = server.log.requests
    for arguments in (("compile", "recipe.toml"), ("ask", "recipe.toml", "What?"), ("index", "recipe.toml")):
        status, err = ended_here(capsys, *arguments)
        assert (status, server.log.requests) == (1, sent)
        assert "RAGC_HOME" in err


def test_no_home_at_all_is_one_sentence(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\n"
        "def home(cls): raise RuntimeError\n"
        "pathlib.Path.home = classmethod(home)\n"
        "from ragc.cli.main import main\n"
        "sys.exit(main(['compile', sys.argv[1]]))"
    )
    path = tmp_path / "recipe.toml"
    path.write_text(
        'program = "no_retrieval"\n[data]\ndataset = "pydocs"\ndev = 2\n[targets.main]\nkind = "embedded"\n'
    )
    variables = environment(tmp_path)
    del variables["RAGC_HOME"]
    done = processes.run(["-c", code, str(path)], cwd=tmp_path, environment=variables)
    assert done.returncode == 2
    assert "has no home folder to keep the cache in; set RAGC_HOME" in done.stderr


DEVICES = ["/dev/zero", "/dev/full", "/dev/urandom", "pipe"]
PLACES = {
    "recipe": ("compile", "DEVICE"),
    "questions": ("compile", "recipe.toml", "--set", 'data.questions="DEVICE"'),
    "corpus": ("compile", "recipe.toml", "--set", 'data.corpus="DEVICE"'),
    "prompt": ("compile", "recipe.toml", "--set", 'prompts.answer="DEVICE"'),
    "split": ("compile", "recipe.toml", "--set", 'data.dev="DEVICE"'),
    "program": ("ask", "DEVICE", "What?"),
    "evaluated": ("eval", "DEVICE"),
    "weights": ("compile", "recipe.toml", "--set", 'targets.main={kind="embedded", model="DEVICE"}'),
    "exported": ("export", "out", "--check", "DEVICE"),
}


@pytest.mark.parametrize("location", PLACES)
def test_a_device_or_pipe_is_never_read_as_a_file(
    location: str,
    server: Loopback,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(prepared(tmp_path, server))
    os.mkfifo(tmp_path / "pipe")
    if location == "exported":
        assert main(["compile", "recipe.toml", "--out", "out"]) == 0
    sent = server.log.requests
    for device in DEVICES:
        status, err = ended_here(capsys, *(part.replace("DEVICE", device) for part in PLACES[location]))
        assert status in (1, 2), (device, err)
        assert server.log.requests == sent


@pytest.mark.parametrize(
    "arguments",
    cases(
        [
            ("compile", "x" * 300),
            ("compile", "recipe.toml", "--set", b"targets.main.model=\xff"),
            ("compile", "recipe.toml", "--set", "prompts.answer=/"),
            ("compile", "recipe.toml", "--set", "data.questions=" + "x" * 300),
            ("ask", "recipe.toml/x", "What?"),
            ("eval", "loop"),
            ("study", "status", "x" * 300),
            ("export", "recipe.toml", "--check", "x" * 300),
        ],
        3,
    ),
    ids=str,
)
def test_an_impossible_path_is_one_sentence_of_use(
    arguments: tuple[str | bytes, ...], server: Loopback, tmp_path: Path
) -> None:
    prepared(tmp_path, server)
    (tmp_path / "loop").symlink_to("loop")
    sent = server.log.requests
    ended = ragc(tmp_path, *arguments)
    assert ended.status in (1, 2)
    assert "error in ragc" not in ended.err
    assert server.log.requests == sent


def test_a_full_or_closed_stdout_and_a_reader_that_left(tmp_path: Path) -> None:
    shell = " ".join(map(str, command("list", "programs")))
    for how, status, expected in (
        (">&-", 1, "stdout is closed"),
        (">/dev/full", 1, "No space left on device; free space there."),
        ("| head -c 1", 0, ""),
        ("2>&- >/dev/full", 1, ""),
    ):
        script = f"set -o pipefail; {shell} {how}"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment(tmp_path),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, how
        assert not [word for word in NOISE if word in done.stderr]
        assert expected in done.stderr


def test_an_error_of_our_own_leaves_a_log_and_no_traceback(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from ragc.api import studies\n"
        "from ragc.cli import main as cli\n"
        "studies.compile = lambda *args, **more: {}['oops']\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    for debug in ("", "1"):
        done = processes.run(
            ["-c", code, "compile", "x.toml", "--dry-run"],
            cwd=tmp_path,
            environment=environment(tmp_path, RAGC_DEBUG=debug),
        )
        assert done.returncode == 1
        assert (
            "ragc: ragc compile failed by an error in ragc (KeyError: 'oops'); its traceback" in done.stderr
        )
        assert ("Traceback" in done.stderr) == bool(debug)
    assert "KeyError: 'oops'" in (tmp_path / "home" / "last-error.log").read_text()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda how: how.name)
def test_an_interrupt_leaves_no_noise_and_says_how_to_go_on(tmp_path: Path, how: signal.Signals) -> None:
    asked = threading.Event()

    def answer(body: Mapping[str, Any]) -> str:
        asked.set()
        return reply(body)

    with Loopback(latency_s=0.6, answer=answer) as server:
        prepared(tmp_path, server)
        process = processes.start(
            ["-m", "ragc", "compile", "recipe.toml", "--out", "out"],
            cwd=tmp_path,
            environment=environment(tmp_path),
        )
        assert asked.wait(60)
        process.send_signal(how)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 128 + how
    assert "Interrupted; every finished request is kept. Run the same command with --resume to go on;" in err
    assert not [word for word in NOISE if word in out + err]
