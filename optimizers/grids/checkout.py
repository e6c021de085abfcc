"""The commit of the checkout that ragc runs from, read from the files of git without running it."""

from __future__ import annotations

import re
from pathlib import Path

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


_ROOT = Path(__file__).resolve().parents[2]


def commit(root: Path = _ROOT) -> str:
    """Returns the commit of the checkout in `root`, where ragc's own sources are.

    "" for an installed ragc, and for files that cannot be read. Changes that are not committed are not seen.
    """
    if not (root / "src/ragc/core").is_dir():
        return ""
    try:
        return _head(root / ".git")
    except (OSError, ValueError):
        return ""


def _head(git: Path) -> str:
    """Returns the commit of `git`, a folder, or the file that names the folder of a git worktree."""
    if git.is_file():
        git = git.parent / git.read_text("utf-8").removeprefix("gitdir:").strip()
    head = (git / "HEAD").read_text("utf-8").strip()
    if not head.startswith("ref:"):
        return head if _COMMIT.fullmatch(head) else ""
    branch = head.removeprefix("ref:").strip()
    shared = git / "commondir"
    common = git / shared.read_text("utf-8").strip() if shared.is_file() else git
    if (common / branch).is_file():
        known = (common / branch).read_text("utf-8").strip()
    else:
        packed = (common / "packed-refs").read_text("utf-8").splitlines()
        known = next((line.split()[0] for line in packed if line.endswith(f" {branch}")), "")
    return known if _COMMIT.fullmatch(known) else ""
