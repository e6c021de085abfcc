"""The commit of a checkout, in every form in which git keeps it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ragc.optimizers.grids.checkout import commit
from tests.paths import ROOT

FIRST, SECOND = "1" * 40, "2" * 40


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src/ragc/core").mkdir(parents=True)
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    (tmp_path / ".git/HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path


def test_the_commit_is_that_of_git_itself() -> None:
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    try:
        head = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no checkout, or git is not installed")
    assert commit() == head


def test_a_branch_is_in_a_file_or_packed(root: Path) -> None:
    (root / ".git/packed-refs").write_text(f"# pack-refs\n{SECOND} refs/heads/main\n{FIRST} refs/tags/v1\n")
    assert commit(root) == SECOND
    (root / ".git/refs/heads/main").write_text(f"{FIRST}\n")
    assert commit(root) == FIRST
    (root / ".git/HEAD").write_text(f"{SECOND}\n")
    assert commit(root) == SECOND


def test_a_further_worktree_has_the_branches_of_the_first(root: Path, tmp_path: Path) -> None:
    (root / ".git/refs/heads/part").write_text(FIRST)
    own = root / ".git/worktrees/part"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/part\n")
    (own / "commondir").write_text("../..\n")
    further = tmp_path / "further"
    (further / "src/ragc/core").mkdir(parents=True)
    (further / ".git").write_text(f"gitdir: {own}\n")
    assert commit(further) == FIRST


def test_what_is_installed_or_damaged_has_none(root: Path, tmp_path: Path) -> None:
    assert commit(root) == ""  # a branch without a commit
    (root / ".git/HEAD").write_bytes(b"\xff\xfe")
    assert commit(root) == ""
    (root / ".git/HEAD").write_text("<script>")
    assert commit(root) == ""
    assert commit(tmp_path / "site-packages") == ""
