"""Build the sdist and from it the wheel, and import every package from the wheel and the editable install.

Run by `make check`; prints one line for each step and exits 1 when something is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]

IMPORT_ALL = """\
import importlib, sys
from pathlib import Path
place = Path(sys.argv[1]).resolve()
for name in sys.argv[2:]:
    module = importlib.import_module(name)
    assert module.__file__, f"{name} is not a package with an __init__"
    assert place in Path(module.__file__).resolve().parents, f"{name} came from {module.__file__}"
"""


def main() -> int:
    """Run all steps; the exit status."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    with tempfile.TemporaryDirectory() as folder:
        out, installed = Path(folder, "dist"), Path(folder, "installed")
        python("-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT))
        (wheel,) = out.glob("*.whl")
        names = set(zipfile.ZipFile(wheel).namelist())
        missing = sorted(expected(settings) - names)
        if missing:
            sys.stderr.write(f"{wheel.name} lacks {', '.join(missing)}\n")
            return 1
        unwanted = sorted(name for name in names if name.startswith("ragc/experiments/benchmarks/"))
        if unwanted:  # they need the repository around them and libraries that no extra brings
            sys.stderr.write(f"{wheel.name} holds {', '.join(unwanted)}\n")
            return 1
        python("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(installed), str(wheel))
        python("-c", IMPORT_ALL, str(installed), *settings["packages"], path=str(installed), cwd=folder)
        sys.stdout.write(f"{wheel.name}: every package imports\n")
        python("-c", IMPORT_ALL, str(ROOT), *settings["packages"], cwd=folder)
        sys.stdout.write("editable install: every package imports\n")
    return 0


def expected(settings: dict[str, dict[str, str | list[str]]]) -> set[str]:
    """The names in the wheel of every module and data file of the working tree."""
    names: set[str] = set()
    for package, source in settings["package-dir"].items():
        names |= files(package, ROOT / str(source), settings)
    for package in settings["packages"]:
        if package not in settings["package-dir"]:
            names |= files(package, ROOT / "src" / package.replace(".", "/"), settings)
    return names


def files(package: str, source: Path, settings: dict[str, dict[str, str | list[str]]]) -> set[str]:
    """The names in the wheel of one package's files."""
    patterns = ["*.py", *settings["package-data"].get(package, [])]
    paths = (path for pattern in patterns for path in source.glob(pattern) if path.is_file())
    return {f"{package.replace('.', '/')}/{path.relative_to(source).as_posix()}" for path in paths}


def python(*arguments: str, path: str = "", cwd: str | None = None) -> None:
    """Run this interpreter; on failure the end of its output is shown and the check ends."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment | ({"PYTHONPATH": path} if path else {}),
        cwd=cwd,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        tail = f"{done.stdout}{done.stderr}".splitlines()[-20:]
        sys.exit("\n".join([*tail, f"{' '.join(arguments[:2])} failed"]))


if __name__ == "__main__":
    sys.exit(main())
