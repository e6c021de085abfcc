"""A pack: one file with a compiled program and the files it reads, to be opened on another machine.

    pack.json               format, and the SHA-256 and size of every other file
    program.json ...        the compiled directory, as it was written
    corpus.jsonl ...        each file that its recipe names, at the same path
    .weights/NAME.gguf      on demand: ragc's default weights

It is a zip archive whose bytes depend on the content alone. Opening one unpacks it into this user's cache,
once, in a folder named by the SHA-256 of the archive. The result is a compiled directory from elsewhere: the
trust rule applies to it (`ragc.compiled.trust`). Beyond the rule, models that it contains are refused until
it is trusted, except the default weights, which are known by their checksum.

No archive is trusted: names that lead out, links, other kinds of files, more content than declared, and
declared sizes out of proportion end in one sentence, with nothing written outside the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

from ragc.compiled import trust
from ragc.compiled.base import FRONT, PACKED, RUN, CompiledProgram, load
from ragc.compiled.trust_record import DIGESTED, base_of, entries, is_named, is_trusted
from ragc.core.digest import file_digest, pretty
from ragc.core.display import describe
from ragc.core.files import (
    cache_home,
    check_writable,
    make_private,
    open_regular,
    own_files,
    replacing_file,
    resolve_out,
)
from ragc.core.marks import RequestedAccess
from ragc.corpora.files.records import files_named
from ragc.downloads import SMOLLM2, default_weights
from ragc.errors import ArtefactError, Untrusted, UsageError
from ragc.recipe import Recipe
from ragc.recipe.load import parse_partly
from ragc.targets import TARGETS
from ragc.targets.options import TargetSpec

MANIFEST = "pack.json"
FORMAT = "ragc.pack/1"
WEIGHTS = f".weights/{SMOLLM2.name}"
"""Where the default weights stand in a pack; they go to the cache of weights."""

MAX_FILES = 10_000
MAX_MANIFEST_BYTES = 16 * 2**20
"""Bytes of the manifest."""
RATIO, FREE = 100, 64 * 2**20
"""A pack of n bytes holds at most RATIO * n + FREE bytes: text shrinks to a tenth, bombs to a thousandth."""

_CHUNK = 2**20
_EARLIEST = (1980, 1, 1, 0, 0, 0)
_PART = re.compile(r"[^\x00-\x1f\x7f/\\:\ud800-\udfff]{1,255}")
_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    ValueError,
    OverflowError,
    KeyError,
    TypeError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class Packed:
    """A written pack: its `path`, `digest` (that of the compiled program), `files` and their `bytes`.

    `weights` says whether models are in it.
    """

    path: Path
    digest: str
    files: int
    bytes: int
    weights: bool

    def __repr__(self) -> str:
        return describe("Packed", repr(str(self.path)), files=self.files, bytes=self.bytes)

    def to_json(self) -> dict[str, Any]:
        """Returns the output of `ragc pack --json`."""
        return {"path": str(self.path), "digest": self.digest, "files": self.files} | {
            "bytes": self.bytes,
            "weights": self.weights,
        }


def pack(path: str | Path, out: str | Path, *, weights: bool = False) -> Packed:
    """Writes the compiled program in the directory `path` as the pack `out`, with the files that it reads.

    With `weights` its models are included. Raises UsageError for files that lead out of the folder of the
    recipe, are missing, share a name, or have one that no pack may hold, and for an `out` that holds
    something else; ArtefactError.
    """
    target = resolve_out(out)
    if target.suffix != PACKED:
        raise UsageError(f"--out {out} must end in {PACKED}, by which a pack is known.")
    if os.path.lexists(target) and not _is_pack(target):
        raise UsageError(f"{out} exists and is no pack, so it is not replaced; move it away.")
    compiled = load(path)
    contents = dict(sorted(_contents(compiled, Path(path), weights).items()))
    _check_names(contents)
    manifest = {
        "format": FORMAT,
        "files": {
            name: {"sha256": file_digest(file), "bytes": file.stat().st_size}
            for name, file in contents.items()
        },
    }
    check_writable(target)
    with replacing_file(target) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(MANIFEST, _EARLIEST), pretty(manifest), zipfile.ZIP_DEFLATED)
        for name, source in contents.items():
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.compress_type = zipfile.ZIP_STORED if name.endswith(".gguf") else zipfile.ZIP_DEFLATED
            entry.file_size = source.stat().st_size
            with open_regular(source) as read, archive.open(entry, "w") as write:
                shutil.copyfileobj(read, write, _CHUNK)
    return Packed(target, compiled.digest, len(contents), target.stat().st_size, weights)


def _contents(compiled: CompiledProgram, folder: Path, weights: bool) -> dict[str, Path]:
    """Returns the files of a pack by their names in it."""
    listed = {name for name in own_files(folder, RUN) if not name.startswith(f"{FRONT}/")}
    names = {*DIGESTED, *listed, *compiled.modules}
    names |= {RUN} if (folder / RUN).is_file() else set()
    contents = {name: _inside(folder, name) for name in names}
    trusted = is_trusted(compiled.digest, folder)
    root = base_of(compiled.digest, folder) if trusted else folder.resolve()
    recipe, _ = parse_partly(compiled.recipe, where=str(folder / "recipe.toml"), base=root)
    for want in _reads(recipe):
        if _is_model(want) and not weights:
            continue
        for name, file in _files_of(root, want).items():
            if contents.setdefault(name, file) != file and file != contents[name].resolve():
                raise UsageError(
                    f"{want} has the name of a file of the compiled program; rename it and compile again."
                )
    if weights and any(map(_has_default_weights, recipe.targets.values())):
        contents[WEIGHTS] = default_weights()
    return contents


def _check_names(names: Collection[str]) -> None:
    """Raises UsageError for files that opening the pack would refuse, by their names or their number."""
    if len(names) >= MAX_FILES:
        raise UsageError(f"The program reads {len(names):,} files; a pack holds fewer than {MAX_FILES:,}.")
    again = "and compile again, which replays what was asked."
    folded: dict[str, str] = {}
    for name in names:
        if not _may_stand(name):
            raise UsageError(
                f"No pack holds a file called {name!r}: its name has a colon, a backslash, a control "
                f"character or no UTF-8, or is below .weights; rename it {again}"
            )
        if (other := folded.setdefault(name.casefold(), name)) != name:
            raise UsageError(
                f"The files {other!r} and {name!r} differ in upper and lower case alone, which not every "
                f"file system tells apart; rename one {again}"
            )


def _may_stand(name: str) -> bool:
    """Returns whether a pack may hold a file called `name`: below its folder, and on every system."""
    parts = name.split("/")
    own_weights = parts[0].casefold() == ".weights" and name != WEIGHTS
    return not own_weights and all(part not in (".", "..") and _PART.fullmatch(part) for part in parts)


def _has_default_weights(spec: TargetSpec) -> bool:
    record = TARGETS.loaded(spec.kind)
    return record is not None and bool(record.weights_of(spec))


def _reads(recipe: Recipe) -> Iterator[RequestedAccess]:
    """Yields the files that opening the program of `recipe` reads."""
    for want in trust.list_accesses(recipe):
        only_compiling = want.keys[0] == "prompts" or str(want.keys[-1]).startswith("cross_domain")
        if want.kind == "reads" and want.path and not want.own_weights and not only_compiling:
            yield want


def _is_model(want: RequestedAccess) -> bool:
    return bool(want.model) or want.keys[0] == "targets"


def _files_of(root: Path, want: RequestedAccess) -> dict[str, Path]:
    """Returns the files that `want` reads, those of folders and patterns among them, by their paths from
    `root`.
    """
    if any(name.startswith("/") or ".." in PurePosixPath(name).parts for name in want.path.splitlines()):
        raise UsageError(
            f"{want} leads out of {root}, so it has no path in a pack; copy it below the recipe, name the "
            "copy there and compile again, which replays what was asked."
        )
    named = files_named(root, want.path)
    if not named:
        raise UsageError(f"{want}: there is no such file in {root}; a pack needs it.")
    files = [file for path in named for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    names = [path.relative_to(root) for path in files if path.is_file()]
    return {name.as_posix(): _inside(root, name) for name in names}


def _inside(root: Path, name: str | PurePosixPath | Path) -> Path:
    """Returns the real path of the file `name` below `root`. Raises UsageError if links lead out."""
    real = (root / name).resolve()
    if not real.is_relative_to(root.resolve()):
        raise UsageError(f"{root / name} is a link that leads out of {root}; put the file itself there.")
    return real


def _is_pack(path: Path) -> bool:
    try:
        with open_regular(path, follow=False) as file, zipfile.ZipFile(file) as archive:
            return bool(archive.namelist()[:1] == [MANIFEST])
    except (OSError, *_UNREADABLE):
        return False


# Opening


def unpacked(path: Path, *, refuse: bool = True) -> Path:
    """Returns the compiled directory of the pack `path`, unpacked into the cache if it is not there yet.

    Raises ArtefactError for an invalid pack, and, with `refuse`, Untrusted for one with models that was not
    trusted.
    """
    home = make_private(cache_home() / "packs")
    try:
        with open_regular(path) as file:
            known = hashlib.sha256()
            while chunk := file.read(_CHUNK):
                known.update(chunk)
            folder = home / known.hexdigest()
            if not folder.is_dir():
                _unpack(file, path, home, folder)
    except _UNREADABLE as error:
        raise ArtefactError(f"{path} is no sound pack of ragc ({error}); copy it again.") from None
    except OSError as error:
        raise ArtefactError(f"The pack {path} cannot be opened: {error.strerror or error}.") from None
    if refuse:
        _refuse_models(path, folder)
    return folder


def is_unpacked(folder: Path) -> bool:
    """Returns whether `folder` is one into which a pack was unpacked."""
    return folder.resolve().parent == (cache_home() / "packs").resolve()


def _refuse_models(path: Path, folder: Path) -> None:
    if models := models_to_trust(folder):
        raise Untrusted(
            f"The pack {path} brings a model of its own ({', '.join(models)}), which is refused until "
            f"you trust it; see what it would do and trust it with `ragc trust {folder}`."
        )


def models_to_trust(folder: Path) -> list[str]:
    """Returns the models that the pack unpacked at `folder` brings or names, and that nobody trusted."""
    compiled = load(folder)
    if is_trusted(compiled.digest, folder) and _trusts_models(compiled.digest, folder):
        return []
    recipe, _ = parse_partly(compiled.recipe, where=str(folder / "recipe.toml"), base=folder)
    return [str(want) for want in _reads(recipe) if _is_model(want)]


def _trusts_models(digest: str, folder: Path) -> bool:
    """Returns whether trust in the program with this `digest` holds for the models in the pack at `folder`.

    The digest covers no models: another pack may have the same one. So it holds where this very pack was
    trusted, where the environment names the digest, and where models are read from a folder of the user's.
    """
    here = str(folder.resolve())
    return (
        is_named(digest)
        or str(base_of(digest, folder)) != here
        or any(entry.path == here for entry in entries(digest, folder))
    )


def _unpack(file: IO[bytes], path: Path, home: Path, folder: Path) -> None:
    """Unpacks the archive `file` into `folder`, completely or not at all."""
    with zipfile.ZipFile(file) as archive:
        declared = _declared(archive, path, os.fstat(file.fileno()).st_size)
        if shutil.disk_usage(home).free < sum(size for _, size in declared.values()):
            raise ArtefactError(f"There is no space in {home} for what the pack {path} holds; free some.")
        scratch = Path(tempfile.mkdtemp(prefix=".", dir=home))
        try:
            for name, (sha256, size) in declared.items():
                _write(archive, name, scratch / name, sha256, size, path)
            if WEIGHTS in declared:
                _keep_weights(scratch / WEIGHTS)
            with suppress(FileExistsError, OSError):
                scratch.rename(folder)  # another process may have been faster
            if not folder.is_dir():
                raise ArtefactError(f"The pack {path} could not be unpacked into {folder}; try again.")
        finally:
            shutil.rmtree(scratch, ignore_errors=True)


def _declared(archive: zipfile.ZipFile, path: Path, size: int) -> dict[str, tuple[str, int]]:
    """Returns the SHA-256 and size of each file of `archive` by its manifest, after checking them all."""
    entries = archive.infolist()
    if not entries or entries[0].filename != MANIFEST:
        raise ArtefactError(f"{path} is no pack of ragc: it does not begin with {MANIFEST}.")
    if len(entries) > MAX_FILES:
        raise ArtefactError(f"The pack {path} holds more than {MAX_FILES:,} files; pack fewer.")
    for entry in entries:
        _check_entry(entry, path)
    with archive.open(entries[0]) as read:
        content = read.read(MAX_MANIFEST_BYTES + 1)
    manifest = json.loads(content) if len(content) <= MAX_MANIFEST_BYTES else {}
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ArtefactError(
            f"The pack {path} has no {MANIFEST} of the format {FORMAT}; pack the program again."
        )
    files: Mapping[str, Any] = manifest["files"]
    declared = {str(name): (str(held["sha256"]), int(held["bytes"])) for name, held in files.items()}
    names = [entry.filename for entry in entries[1:]]
    folded = {name.casefold() for name in names}
    parents = {str(parent).casefold() for name in names for parent in PurePosixPath(name).parents}
    if sorted(names) != sorted(declared) or len(folded) < len(names) or folded & parents:
        raise ArtefactError(
            f"The files of the pack {path} are not those of its {MANIFEST}; pack the program again."
        )
    total = sum(length for _, length in declared.values())
    if total > RATIO * size + FREE or any(length < 0 for _, length in declared.values()):
        raise ArtefactError(
            f"The pack {path} would unpack to {total:,} bytes from {size:,}, out of proportion; it is not "
            "opened."
        )
    if (held := declared.get(WEIGHTS)) and held[0] != SMOLLM2.sha256:
        raise ArtefactError(f"The weights in the pack {path} are not those of ragc; it is not opened.")
    return declared


def _check_entry(entry: zipfile.ZipInfo, path: Path) -> None:
    """Raises ArtefactError for an entry that is no regular file below the folder."""
    if not _may_stand(entry.filename):
        raise ArtefactError(
            f"The pack {path} holds {entry.filename!r}, which leads out of it; it is not opened."
        )
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG):
        raise ArtefactError(
            f"The pack {path} holds {entry.filename!r}, which is no regular file; it is not opened."
        )
    if entry.flag_bits & 1 or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ArtefactError(
            f"{entry.filename!r} in the pack {path} is written in a way that ragc never does."
        )


def _write(archive: zipfile.ZipFile, name: str, target: Path, sha256: str, size: int, path: Path) -> None:
    """Writes one file; reads at most the declared number of bytes."""
    target.parent.mkdir(parents=True, exist_ok=True)
    known, length = hashlib.sha256(), 0
    with archive.open(name) as read, target.open("xb") as write:
        while chunk := read.read(min(_CHUNK, size - length + 1)):
            length += len(chunk)
            if length > size:
                break
            known.update(chunk)
            write.write(chunk)
    if length != size or known.hexdigest() != sha256:
        raise ArtefactError(f"{name!r} in the pack {path} is not what was packed; copy the pack again.")


def _keep_weights(file: Path) -> None:
    """Moves the default weights, whose checksum was checked, to the cache of weights."""
    held = cache_home() / "weights"
    held.mkdir(parents=True, exist_ok=True)
    final = held / SMOLLM2.name
    if final.exists():
        file.unlink()
    else:
        file.replace(final)
    file.parent.rmdir()
