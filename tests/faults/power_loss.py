"""What a disk may hold after a power loss, from the calls of an undisturbed run.

POSIX promises that the content of a file is there after fsync of the file, and a change of names after fsync
of a folder that it touches; everything else may be missing, whatever its order. A rename is there or not, in
both folders. From each prefix of the calls some of the possible trees are built, see `STATES`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.injector import CREATED, EMPTIED, FOLDER, SWAPPED, Call

STATES = ("written", "synced", "names only", "contents only", "halves", "zeros", "one change missing")
"""What a disk holds: all that was written; nothing that was not synced; all names, but only synced contents;
all contents, but only synced names; half of what was added to each file since its sync; zeros in its place;
all but one change of a name."""


@dataclass(eq=False)
class File:
    """A file: its content now and when it was last synced, and what it was before with its time of change."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    before: tuple[bytes, int] | None = None


@dataclass(eq=False)
class Folder:
    """A folder. Its entries now; an entry of text is a symbolic link."""

    entries: dict[str, File | Folder | str] = field(default_factory=dict)


Entry = File | Folder | str


@dataclass
class Change:
    """What one call did to names: the new entry of each, None for none. `synced` says that it will last."""

    names: tuple[tuple[Folder, str, Entry | None], ...]
    synced: bool = False


class Disk:
    """The tree below `root` as a run changes it, call by call."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.changes: list[Change] = []
        self._files: dict[int, File] = {}
        self._first: list[tuple[Folder, dict[str, Entry]]] = []
        self.top = self._read(root)

    def _read(self, path: Path) -> Folder:
        folder = Folder()
        for entry in sorted(path.iterdir()):
            if entry.is_symlink():
                folder.entries[entry.name] = str(entry.readlink())
            elif entry.is_dir():
                folder.entries[entry.name] = self._read(entry)
            else:
                content = entry.read_bytes()
                before = content, entry.stat().st_mtime_ns
                folder.entries[entry.name] = File(bytearray(content), content, before)
        self._first.append((folder, dict(folder.entries)))
        return folder

    def apply(self, call: Call) -> None:
        """Carries out `call`. A call that failed changes nothing."""
        if call.result < 0:
            return
        file = self._files.get(call.inode)
        match call.kind:
            case "open":
                self._open(call)
            case "write" if file:
                end = call.offset + len(call.data)
                file.content.extend(b"\0" * (call.offset - len(file.content)))
                file.content[call.offset : end] = call.data
            case "truncate" if file:
                file.content.extend(b"\0" * (call.length - len(file.content)))
                del file.content[call.length :]
            case "sync" if call.flags & FOLDER:
                folder = self._find(call.path)
                for change in self.changes:
                    change.synced = change.synced or any(at is folder for at, _, _ in change.names)
            case "sync" if file:
                file.content, file.synced = bytearray(call.data), call.data
            case "mkdir" | "symlink" | "unlink" | "rmdir" | "rename" | "link":
                self._change(call)

    def _open(self, call: Call) -> None:
        folder, name = self._parent(call.path)
        if call.flags & CREATED:
            self._set((folder, name, File()))
        if isinstance(file := folder.entries.get(name), File):
            self._files[call.inode] = file
            if call.flags & EMPTIED:
                file.content.clear()

    def _change(self, call: Call) -> None:
        folder, name = self._parent(call.path)
        match call.kind:
            case "mkdir":
                self._set((folder, name, Folder()))
            case "symlink":
                self._set((folder, name, call.other))
            case "unlink" | "rmdir":
                self._set((folder, name, None))
            case "link":
                self._set((*self._parent(call.other), folder.entries[name]))
            case "rename":
                other, target = self._parent(call.other)
                swapped = other.entries.get(target) if call.flags & SWAPPED else None
                self._set((folder, name, swapped), (other, target, folder.entries[name]))

    def _set(self, *names: tuple[Folder, str, Entry | None]) -> None:
        self.changes.append(Change(names))
        _carry_out(names, {id(folder): folder.entries for folder, _, _ in names})

    def _find(self, path: str) -> Entry | None:
        entry: Entry | None = self.top
        for part in Path(path).relative_to(self.root).parts:
            entry = entry.entries.get(part) if isinstance(entry, Folder) else None
        return entry

    def _parent(self, path: str) -> tuple[Folder, str]:
        above, name = os.path.split(path)
        folder = self._find(above)
        assert isinstance(folder, Folder), path
        return folder, name

    def loose(self) -> list[Change]:
        """The changes of names that are not synced, the last first."""
        return [change for change in reversed(self.changes) if not change.synced]

    def write(self, state: str, missing: Change | None = None) -> None:
        """Makes the tree at `root` one of `STATES`, without the change `missing`."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        entries = {id(folder): dict(names) for folder, names in self._first}
        for change in self.changes:
            if change.synced or (state not in ("synced", "contents only") and change is not missing):
                _carry_out(change.names, entries)
        _write(self.top, self.root, entries, state)


def _carry_out(
    names: Iterable[tuple[Folder, str, Entry | None]], entries: Mapping[int, dict[str, Entry]]
) -> None:
    for folder, name, entry in names:
        held = entries.setdefault(id(folder), {}) if isinstance(entries, dict) else entries[id(folder)]
        held.pop(name, None)
        if entry is not None:
            held[name] = entry


def _write(folder: Folder, path: Path, entries: Mapping[int, dict[str, Entry]], state: str) -> None:
    for name, entry in entries.get(id(folder), {}).items():
        match entry:
            case str():
                (path / name).symlink_to(entry)
            case Folder():
                (path / name).mkdir()
                _write(entry, path / name, entries, state)
            case File():
                content = _content(entry, state)
                (path / name).write_bytes(content)
                if entry.before and entry.before[0] == content:  # the copy of a corpus is named by its time
                    os.utime(path / name, ns=(entry.before[1], entry.before[1]))


def _content(file: File, state: str) -> bytes:
    whole = bytes(file.content)
    if state in ("synced", "names only"):
        return file.synced
    if state not in ("halves", "zeros") or whole == file.synced:
        return whole
    pairs = enumerate(zip(whole, file.synced, strict=False))
    shorter = min(len(whole), len(file.synced))
    shared = next((at for at, (now, before) in pairs if now != before), shorter)
    if state == "halves":
        return whole[: shared + (len(whole) - shared) // 2]
    return whole[:shared] + b"\0" * (len(whole) - shared)


@dataclass(frozen=True)
class Loss:
    """A power loss after the first `after` calls: what the disk then holds. `change` counts from the last."""

    after: int
    state: str
    change: int = 0

    def __str__(self) -> str:
        return f"power lost after call {self.after}, {self.state} {self.change or ''}"


def moments(calls: Sequence[Call]) -> list[int]:
    """After how many of `calls` a power loss is tried: around each first and last call of a site, and around
    each change of names.
    """
    chosen = {len(calls)}
    seen: dict[str, int] = {}
    for number, call in enumerate(calls):
        if call.kind in ("rename", "symlink", "link"):
            chosen |= {number, number + 1}
        elif call.changes:
            chosen |= {number + 1} if call.site not in seen else set()
            seen[call.site] = number + 1
    return sorted({*chosen, *seen.values()})


def losses(calls: Sequence[Call], changes: int = 2) -> list[Loss]:
    """The states of the disk at `moments`, with `changes` single changes that are missing at each."""
    return [
        Loss(after, state, change)
        for after in moments(calls)
        for state in STATES
        for change in (range(1, changes + 1) if state == STATES[-1] else (0,))
    ]


def leave(root: Path, calls: Sequence[Call], loss: Loss) -> bool:
    """Makes `root`, as it was before the run that made `calls`, what `loss` leaves of it.

    False where no such change is missing.
    """
    disk = Disk(root)
    for call in calls[: loss.after]:
        disk.apply(call)
    loose = disk.loose()
    if loss.change > len(loose):
        return False
    disk.write(loss.state, loose[loss.change - 1] if loss.change else None)
    return True
