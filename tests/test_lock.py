"""constraints.txt holds what `make env` needs: one version each, with hashes, and nothing of one machine."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ragc.downloads.package_index import Link
from tests.lock import (
    CONSUMERS,
    CONSUMERS_HEAD,
    DOCS,
    DOCS_HEAD,
    HEAD,
    MARKS,
    entry,
    pins_of,
    usable,
)
from tests.paths import ROOT

LOCK = (ROOT / "constraints.txt").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_every_version_but_torchs_has_hashes_and_stands_once() -> None:
    entries = re.split(r"\n(?=[a-z])", re.sub(r"^#.*\n", "", LOCK, flags=re.MULTILINE))
    names = [re.split("==", text)[0] for text in entries]
    assert len(names) == len(set(names)) == len(pins_of(LOCK)) > 200
    bare = [name for name, text in zip(names, entries, strict=True) if "--hash=sha256:" not in text]
    assert bare == ["torch"]
    assert LOCK.startswith(HEAD)
    assert all(LOCK.count(mark) == 1 for mark in MARKS)


def test_it_names_no_host_and_no_other_option() -> None:
    assert "://" not in LOCK
    assert set(re.findall(r"--[a-z-]+", LOCK)) == {"--hash"}


def test_its_versions_are_those_that_the_package_allows() -> None:
    versions = pins_of(LOCK)
    extras = PROJECT["optional-dependencies"]
    needs = [
        *PROJECT["dependencies"],
        *(text for name, texts in extras.items() if name != "vllm" for text in texts),
    ]
    for need in map(Requirement, needs):
        if need.name != "ragc":
            name = str(canonicalize_name(need.name))
            assert need.specifier.contains(versions[name]), need


@pytest.mark.parametrize(
    ("name", "path", "head"), [("docs", DOCS, DOCS_HEAD), ("consumers", CONSUMERS, CONSUMERS_HEAD)]
)
def test_what_other_environments_hold_is_locked_too(name: str, path: Path, head: str) -> None:
    text = path.read_text("utf-8")
    group = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"][name]
    versions = pins_of(text)
    for need in map(Requirement, group):
        assert need.specifier.contains(versions[str(canonicalize_name(need.name))]), need
    assert text.startswith(head)
    assert all(part.count("--hash=sha256:") for part in re.split(r"\n(?=[a-z])", text)[1:])


def test_the_parts_that_make_installs_are_cut_where_they_end() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for start, mark in zip(("Added by", "In no environment"), MARKS, strict=True):
        assert mark.startswith(f"# {start}")
        assert f"$(call install,{start}," in makefile
    before, _, rest = LOCK.partition(MARKS[0])
    assert "pytest==" in before
    assert "setuptools==" in before
    assert "mlflow==" in rest.partition(MARKS[1])[0]
    assert "torch==" in rest.partition(MARKS[1])[2]


@pytest.mark.parametrize(
    ("filename", "fits"),
    [
        ("a-1.0-py3-none-any.whl", True),
        ("a-1.0.tar.gz", True),
        ("a-1.0-cp311-cp311-manylinux_2_28_x86_64.whl", True),
        ("a-1.0-cp39-abi3-macosx_11_0_arm64.whl", True),
        ("a-1.0-cp313-cp313-musllinux_1_2_aarch64.whl", True),
        ("a-1.0-cp313-cp313t-manylinux_2_28_x86_64.whl", False),
        ("a-1.0-cp314-cp314-manylinux_2_28_x86_64.whl", False),
        ("a-1.0-cp311-cp311-win_amd64.whl", False),
        ("a-1.1-py3-none-any.whl", False),
        ("a-1.0.exe", False),
        ("nonsense.whl", False),
    ],
)
def test_the_files_of_supported_machines_count(filename: str, fits: bool) -> None:
    assert usable([(filename, Link("x", "0" * 64))], "1.0") == (["0" * 64] if fits else [])


def test_an_entry_is_what_pip_reads() -> None:
    assert entry("a", "1", 'sys_platform == "linux"', ["x", "y"]) == (
        'a==1 ; sys_platform == "linux" \\\n    --hash=sha256:x \\\n    --hash=sha256:y\n'
    )
    assert entry("torch", "2", "", []) == "torch==2\n"
