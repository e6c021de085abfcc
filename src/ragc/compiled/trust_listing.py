"""Lists what a compiled directory would run, read and connect to, before anybody trusts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ragc.compiled.base import PACKED, load
from ragc.compiled.pack import is_unpacked, models_to_trust, unpacked
from ragc.compiled.trust import is_inside, list_accesses
from ragc.compiled.trust_record import entries, remember
from ragc.core.marks import RequestedAccess
from ragc.errors import ArtefactError, RecipeError, UsageError
from ragc.recipe.load import parse_partly

_HEADS = {
    "runs": "It would run",
    "reads": "It would read",
    "speaks": "It would speak to",
    "unknown": "It sets what this version does not know to be harmless",
}


@dataclass(frozen=True, slots=True)
class TrustListing:
    """The access that the directory at `path` requests, and whether its `digest` is in the record.

    `acts` are lines by kind: runs, reads, speaks, unknown. `base` is the folder of its relative paths once it
    is recorded; "" for the directory itself. `problems` are those of unreadable keys, which are not among the
    lines.
    """

    path: Path
    digest: str
    program: str
    trusted: bool
    acts: Mapping[str, tuple[str, ...]]
    base: str = ""
    problems: tuple[str, ...] = ()

    def record(self) -> TrustListing:
        """Records the directory, as it was read, as trusted.

        Raises UsageError if the record cannot be written, and RecipeError for a recipe with problems: another
        version of ragc might read more of it than was shown.
        """
        if self.problems:
            raise RecipeError(str(self.path / "recipe.toml"), self.problems)
        try:
            remember(self.path, self.digest, self.base)
        except OSError as error:
            raise UsageError(
                f"The digest of {self.path} cannot be recorded: {error}; set RAGC_HOME to a folder that can "
                f"be written, or RAGC_TRUST={self.digest}."
            ) from None
        known = bool(entries(self.digest, self.path))
        if not known:
            raise UsageError(
                f"The record of this machine cannot be used for {self.path}; see that RAGC_HOME is a folder "
                f"of your own outside of it, or set RAGC_TRUST={self.digest}."
            )
        return replace(self, trusted=True)

    def to_json(self) -> dict[str, Any]:
        """Returns the object that `ragc trust --json` prints."""
        head = {"path": str(self.path), "digest": self.digest, "trusted": self.trusted}
        acts = {kind: list(lines) for kind, lines in self.acts.items()}
        wrong = {"problems": list(self.problems)} if self.problems else {}
        return {**head, "program": self.program, **acts, **wrong}

    def lines(self) -> list[str]:
        """Returns the listing as lines for people."""
        text = [
            f"{_one_line(str(self.path))}: {_one_line(self.program)}",
            f"digest {self.digest}" + (", trusted" if self.trusted else ""),
        ]
        for kind, head in _HEADS.items():
            acts = self.acts[kind]
            if acts or kind in ("runs", "speaks"):
                text.append(f"{head}:" if acts else f"{head} nothing.")
            text += [f"  {line}" for line in acts]
        if self.problems:
            text += ["Beside that its recipe has keys that cannot be read, so it cannot be opened as it is:"]
            text += [f"  {_one_line(problem)}" for problem in self.problems]
        return text


def listing(path: str | Path, base: str | Path | None = None) -> TrustListing:
    """Lists what the compiled directory `path` would do, with its relative paths resolved from `base`.

    Opens no target or source and sends nothing. A key of its recipe that cannot be read is listed as a
    problem. Raises ArtefactError when the directory cannot be read, RecipeError when its recipe is no TOML.
    """
    folder = Path(path)
    if folder.suffix == PACKED and folder.is_file():
        folder = unpacked(folder, refuse=False)
    in_pack = is_unpacked(folder)
    if folder.is_file():
        raise ArtefactError(
            f"{folder} is a file; a recipe that you name on the command line is trusted, and a compiled "
            "program is a directory."
        )
    compiled = load(folder)
    root = folder.resolve() if base is None else Path(base).resolve()
    if not root.is_dir():
        raise UsageError(
            f"--base {str(base)!r} is no folder; name where the relative paths of {folder} lead."
        )
    recipe, problems = parse_partly(compiled.recipe, where=str(folder / "recipe.toml"), base=root)
    acts: dict[str, list[str]] = {kind: [] for kind in _HEADS}
    for want in list_accesses(recipe):
        acts[want.kind].append(_line(want, root))
    for name, sha256 in compiled.modules.items():
        acts["runs"].append(f"{_one_line(name)}, sha256 {sha256}: a file of the modules that it holds")
    return TrustListing(
        folder,
        compiled.digest,
        compiled.state.method,
        bool(entries(compiled.digest, folder)) and not (in_pack and models_to_trust(folder)),
        {kind: tuple(lines) for kind, lines in acts.items()},
        "" if base is None else str(root),
        problems,
    )


def _line(want: RequestedAccess, root: Path) -> str:
    location = ""
    if want.path and not want.own_weights:
        location = ", inside" if is_inside(root, want) else f", OUTSIDE of {_one_line(str(root))}"
    # In full: nothing may hide behind a cut, nor a letter of an address look like another.
    shown = repr(want.value) if want.kind == "reads" else ascii(want.value)
    return f"{want.name} = {shown}: {want.about}{location}"


def _one_line(text: str) -> str:
    """Returns `text` with unprintable characters and line breaks escaped, so that it cannot fake lines."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
