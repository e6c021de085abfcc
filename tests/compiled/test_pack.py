"""Packs: one file that opens on another machine under the trust rule, and damaged ones are one sentence."""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import ragc
from ragc.cli.main import main
from ragc.compiled.pack import WEIGHTS
from ragc.errors import ArtefactError, RagcError, Untrusted, UsageError
from tests.examples import thorough
from tests.security.foreign import (
    QUESTION,
    Recorded,
    command,
    compiled_directory,
    target_table,
)


@pytest.fixture
def pack(compiled: Path, tmp_path: Path) -> Path:
    return ragc.pack(compiled, out=tmp_path / "mine.ragc").path


def test_a_pack_answers_elsewhere_once_its_address_is_allowed(
    pack: Path, tmp_path: Path, server: Recorded
) -> None:
    home = tmp_path / "other"
    refused = command("ask", pack, QUESTION, home=home, cwd=home)
    assert refused.returncode == 2
    assert "--trust-targets" in refused.stderr
    assert not server.seen
    answered = command("ask", pack, QUESTION, "--json", "--trust-targets", home=home, cwd=home)
    assert answered.returncode == 0, answered.stderr
    assert json.loads(answered.stdout)["prediction"] == "red"
    assert [row for row in server.seen if "The mug is red." in row]
    assert {path.name for path in home.iterdir()} <= {".cache", ".local"}


def test_a_pack_that_was_trusted_answers_in_python(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "other"))
    with pytest.raises(Untrusted):
        ragc.load(pack)
    assert not ragc.trust_listing(pack).trusted
    ragc.trust(pack)
    with ragc.load(pack) as program:
        assert program(QUESTION).prediction == "red"
    assert ragc.ask(pack, QUESTION).prediction == "red"


def test_the_bytes_depend_on_the_content_alone(compiled: Path, tmp_path: Path) -> None:
    first = ragc.pack(compiled, out=tmp_path / "a.ragc")
    for name in ("b.ragc", "a.ragc"):  # its own file is replaced
        assert ragc.pack(compiled, out=tmp_path / name).path.read_bytes() == first.path.read_bytes()
    assert first.digest == ragc.trust_listing(compiled).digest
    names = zipfile.ZipFile(first.path).namelist()
    assert names[0] == "pack.json"
    assert {"program.json", "recipe.toml", "corpus.jsonl", "run.json"} <= set(names)


def test_what_cannot_be_packed_is_one_sentence(
    compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken.ragc").write_text("mine", "utf-8")
    for out, words in (("taken.ragc", "is no pack"), ("mine.zip", "must end in .ragc")):
        assert main(["pack", str(compiled), "--out", str(tmp_path / out)]) == 2
        assert words in " ".join(capsys.readouterr().err.split())
    assert (tmp_path / "taken.ragc").read_text("utf-8") == "mine"
    (tmp_path / "origin" / "corpus.jsonl").unlink()
    with pytest.raises(UsageError, match="a pack needs it"):
        ragc.pack(compiled, out=tmp_path / "none.ragc")
    (tmp_path / "secret").write_text("secret", "utf-8")
    (tmp_path / "origin" / "corpus.jsonl").symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match="leads out"):
        ragc.pack(compiled, out=tmp_path / "none.ragc")
    assert not (tmp_path / "none.ragc").exists()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("own:1.gguf", "own.gguf"), "has a colon"),
        (("own\\1.gguf", "own.gguf"), "a backslash"),
        (("Own.gguf", "own.gguf"), "differ in upper and lower case alone"),
    ],
)
def test_what_no_pack_may_hold_is_said_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, str], words: str
) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "machine"))
    (tmp_path / "origin").mkdir()
    for name in names:
        (tmp_path / "origin" / name).write_bytes(b"GGUF")
    main_model, judge_model = map(json.dumps, names)
    table = f'[targets.main]\nkind = "embedded"\nmodel = {main_model}\n'
    table += f'[targets.judge]\nkind = "embedded"\nmodel = {judge_model}\n'
    out = compiled_directory(tmp_path / "origin", tmp_path / "mine", table)
    with pytest.raises(UsageError, match=words):
        ragc.pack(out, out=tmp_path / "mine.ragc", weights=True)
    assert not (tmp_path / "mine.ragc").exists()


def with_own_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiled directory whose main target has a model file of its own, on a machine of its own."""
    monkeypatch.setenv("RAGC_HOME", str(folder / "machine"))
    (folder / "origin").mkdir()
    (folder / "origin" / "own.gguf").write_bytes(b"GGUF")
    table = target_table(kind="embedded", model="own.gguf")
    return compiled_directory(folder / "origin", folder / "mine", table)


def test_a_pack_with_a_model_of_its_own_is_refused_until_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = with_own_model(tmp_path, monkeypatch)
    light = ragc.pack(out, out=tmp_path / "light.ragc").path
    heavy = ragc.pack(out, out=tmp_path / "heavy.ragc", weights=True).path
    assert "own.gguf" not in zipfile.ZipFile(light).namelist()
    assert "own.gguf" in zipfile.ZipFile(heavy).namelist()
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "other"))
    for path in (light, heavy):
        with pytest.raises(Untrusted, match=r"brings a model of its own .*refused until you trust it"):
            ragc.load(path)
    ragc.trust(heavy)
    ragc.load(heavy).close()


# Packs of strangers


def test_trust_in_a_pack_is_none_in_the_models_of_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = with_own_model(tmp_path, monkeypatch)
    known = ragc.pack(out, out=tmp_path / "known.ragc", weights=True).path
    other = rewritten(known, tmp_path / "other.ragc", lambda files: files.update({"own.gguf": b"GGUF?"}))
    ragc.load(other).close()  # on the machine that compiled it, whose own model is read
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "other"))
    ragc.trust(known)
    ragc.load(known).close()
    with pytest.raises(Untrusted, match=r"brings a model of its own .*refused until you trust it"):
        ragc.load(other)
    assert ragc.trust_listing(known).trusted
    assert not ragc.trust_listing(other).trusted
    assert main(["trust", str(other), "--yes"]) == 0
    ragc.load(other).close()


def rewritten(
    pack: Path, out: Path, change: Callable[[dict[str, bytes]], None], *, listed: bool = True
) -> Path:
    """The pack with its files changed; with `listed` the manifest says so too."""
    with zipfile.ZipFile(pack) as archive:
        files = {name: archive.read(name) for name in archive.namelist()[1:]}
        manifest = archive.read("pack.json")
    change(files)
    if listed:
        entries = {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
            for name, content in files.items()
        }
        manifest = json.dumps({"format": "ragc.pack/1", "files": entries}).encode()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pack.json", manifest)
        for name, content in files.items():
            archive.writestr(name, content)
    return out


def refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The one sentence in which opening `path` ends; nothing stays of it, in the cache or outside."""
    home = tmp_path / "victim"
    monkeypatch.setenv("RAGC_HOME", str(home))
    before = {item for item in tmp_path.rglob("*") if not item.is_relative_to(home)}
    with pytest.raises(ArtefactError) as caught:
        ragc.load(path)
    assert {item for item in tmp_path.rglob("*") if not item.is_relative_to(home)} == before
    assert not [item for item in home.rglob("*") if item.is_file()]
    assert not list((home / "packs").iterdir())
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    "name",
    [
        "../out",
        "a/../../out",
        "/out-of-pack",
        "a//b",
        "./a",
        "..\\out",
        "C:out",
        "a\x1bb",
        "a/",
        ".weights/x",
    ],
)
def test_names_that_lead_out_are_refused(
    name: str, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = rewritten(pack, tmp_path / "bad.ragc", lambda files: files.update({name: b"x"}))
    assert "which leads out of it" in refused(bad, tmp_path, monkeypatch)
    assert not Path("/out-of-pack").exists()


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFDIR])
def test_links_and_other_kinds_of_files_are_refused(
    kind: int, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = rewritten(pack, tmp_path / "bad.ragc", lambda files: None)
    entry = zipfile.ZipInfo("link")
    entry.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(bad, "a") as archive:
        archive.writestr(entry, "/etc/passwd")
    assert "which is no regular file" in refused(bad, tmp_path, monkeypatch)


def test_bombs_are_refused(pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = rewritten(
        pack, tmp_path / "honest.ragc", lambda files: files.update({"big": bytes(100 * 2**20)})
    )
    assert "out of proportion" in refused(honest, tmp_path, monkeypatch)

    def hide(files: dict[str, bytes]) -> None:
        files["corpus.jsonl"] = bytes(50 * 2**20)

    lying = rewritten(pack, tmp_path / "lying.ragc", hide, listed=False)
    assert "is not what was packed" in refused(lying, tmp_path, monkeypatch)
    many = rewritten(
        pack, tmp_path / "many.ragc", lambda files: files.update({f"n{n}": b"" for n in range(10_001)})
    )
    assert "more than 10,000 files" in refused(many, tmp_path, monkeypatch)


def test_other_files_than_listed_and_two_of_one_name_are_refused(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[Callable[[dict[str, bytes]], None]] = [
        lambda files: files.update({"more": b"x"}),
        lambda files: files.__delitem__("corpus.jsonl"),
    ]
    for change in changes:
        bad = rewritten(pack, tmp_path / "bad.ragc", change, listed=False)
        assert "are not those of its pack.json" in refused(bad, tmp_path, monkeypatch)
    for names in ({"A": b"", "a": b""}, {"b": b"", "b/c": b""}):
        bad = rewritten(pack, tmp_path / "bad.ragc", lambda files, names=names: files.update(names))  # type: ignore[misc]
        assert "are not those of its pack.json" in refused(bad, tmp_path, monkeypatch)


def test_other_weights_under_the_name_of_the_default_ones_are_refused(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = rewritten(pack, tmp_path / "bad.ragc", lambda files: files.update({WEIGHTS: b"GGUF"}))
    assert "are not those of ragc" in refused(bad, tmp_path, monkeypatch)


@thorough
def test_damage_anywhere_is_one_sentence(pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, bad = pack.read_bytes(), tmp_path / "bad.ragc"
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "victim"))
    opened, sentences = 0, list[str]()
    for at in [*range(0, len(whole), max(1, len(whole) // 60)), *range(len(whole) - 60, len(whole), 2)]:
        for content in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            bad.write_bytes(content)
            try:
                ragc.load(bad, access=ragc.Access(targets=True)).close()
                opened += 1  # times and other fields that nobody reads
            except RagcError as error:
                sentences.append(str(error))
    assert opened < 30
    assert not [text for text in sentences if "\n" in text]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"no archive"])
def test_what_is_no_archive_is_one_sentence(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = tmp_path / "bad.ragc"
    bad.write_bytes(content)
    assert "is no sound pack" in refused(bad, tmp_path, monkeypatch)
