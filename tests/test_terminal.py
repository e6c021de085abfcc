"""What commands show on a real terminal of 80 and of 120 columns, and where there is none."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.integration.loopback_server import loopback
from tests.optimizers.colours import RECIPE, written

pytestmark = pytest.mark.timeout(240)
SOURCE = Path(__file__).parents[1] / "src"
TARGET = '[targets.main]\nkind = "vllm"\nmodel = "echo"\nbase_url = "http://127.0.0.1:%d/v1"\n'
REPORT = '[metrics]\nreport = ["em", "f1", "recall@5"]\n'
CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
NUMBER = r"[+-]?\d\.\d{3}"
INTERVAL = re.compile(rf"{NUMBER} \[{NUMBER}, {NUMBER}\]")
WIDTHS = pytest.mark.parametrize("width", [80, 120])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a recipe for a server on this machine, compiled as `out`; the rows of two runs."""
    made = written(tmp_path_factory.mktemp("terminal"))
    with loopback() as server:
        text = RECIPE.partition("[targets.main]")[0] + TARGET % server.port + REPORT
        (made / "recipe.toml").write_text(text, "utf-8")
        for args in (
            ("compile", "recipe.toml", "--out", "out"),
            ("eval", "out", "--split", "dev", "--out", "a.jsonl"),
            (
                "eval",
                "recipe.toml",
                "--set",
                "seed=4",
                "--set",
                "knobs.noise_n=2",
                "--split",
                "dev",
                "--out",
                "b.jsonl",
            ),
        ):
            assert piped(made, *args).returncode == 0
        yield made


def command(*args: str) -> list[str]:
    return [sys.executable, "-m", "ragc", *args]


def environment(folder: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "CI")}
    return {**kept, "PYTHONPATH": str(SOURCE), "RAGC_HOME": str(folder / "home"), "TERM": "xterm", **more}


def piped(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*args), cwd=folder, env=environment(folder), check=False, capture_output=True, text=True
    )


def shown(folder: Path, width: int, *args: str, **more: str) -> str:
    """All that a terminal of `width` columns gets from a command, with its control codes."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    job = subprocess.Popen(
        command(*args),
        cwd=folder,
        env=environment(folder, **more),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    found = b""
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not some:
            break
        found += some
    os.close(ours)
    job.wait(timeout=60)
    return found.decode("utf-8")


def lines_of(text: str) -> list[str]:
    """The lines that were on the screen at any time."""
    return [line for line in re.split(r"[\r\n]+", CODE.sub("", text)) if line.strip()]


def fits(text: str, width: int, *, least: int = 1) -> list[str]:
    """The lines, none of which is wider than the terminal, and no interval is on two of them."""
    found = lines_of(text)
    assert [line for line in found if cell_len(line) > width] == []
    begun = [line for line in found if re.search(rf"{NUMBER} \[", line)]
    assert len(begun) >= least
    for line in begun:
        assert len(INTERVAL.findall(line)) == len(re.findall(rf"{NUMBER} \[", line))
    return found


@WIDTHS
def test_a_compile_says_what_is_going_on(folder: Path, width: int) -> None:
    text = shown(folder, width, "compile", "recipe.toml", "--out", f"out{width}", "--set", f"seed={width}")
    found = fits(text, width, least=6)
    bars = [line for line in found if "━" in line]
    assert any(line.startswith("searching, trials 1 to 2 of 6") for line in bars)
    assert any(line.startswith("baseline on dev") for line in bars)
    after = next(place for place, line in enumerate(bars) if line.startswith("baseline on dev"))
    assert not any("opening the model" in line for line in bars[after:])
    assert not any(int(a) > int(b) for line in bars for a, b in re.findall(r"(\d+)/(\d+) ", line))
    assert any(re.search(r"trial +\d/6 .*2 demonstrations, set 0", line) for line in found)
    assert "demos=" not in text
    (verdict,) = [line for line in found if line.startswith("Verdict on test")]
    assert verdict.endswith(("changed", "up", "of", "further"))


@WIDTHS
def test_words_are_whole_where_a_line_goes_on(folder: Path, width: int) -> None:
    for args in (
        ("eval", "a.jsonl", "b.jsonl"),
        ("list", "knobs", "vanilla"),
        ("list", "datasets"),
        ("list", "exports"),
        ("study", "status", "out"),
        ("compile", "recipe.toml", "--dry-run"),
        (
            "ask",
            "out",
            "What colour is thing number56, and why is it of that colour and of no other?",
            "--trace",
        ),
        ("export", "out", "--to", "openai-batch", "--out", "none.jsonl"),
    ):
        text = shown(folder, width, *args)
        plain = piped(folder, *args)
        words = {word for line in (plain.stdout + plain.stderr).split("\n") for word in line.split()}
        found = [line for line in lines_of(text) if "━" not in line]
        assert [word for line in found for word in line.split() if word not in words] == [], args
        assert [line for line in found if cell_len(line) > width] == [], args


@WIDTHS
def test_two_runs_are_compared_in_tables_that_fit(folder: Path, width: int) -> None:
    fits(shown(folder, width, "eval", "a.jsonl", "b.jsonl"), width, least=6)
    fits(shown(folder, width, "eval", "out"), width, least=3)


@WIDTHS
def test_an_error_breaks_between_words(folder: Path, width: int) -> None:
    text = shown(folder, width, "compile", "recipe.toml", "--set", "search.nothing=1")
    words = piped(folder, "compile", "recipe.toml", "--set", "search.nothing=1").stderr.split()
    assert [word for line in lines_of(text) for word in line.split()] == words
    assert words.count("programs,") == 1
    fits(text, width, least=0)


def test_without_a_terminal_there_are_plain_lines(folder: Path) -> None:
    done = piped(folder, "compile", "recipe.toml", "--out", "piped", "--set", "seed=9")
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stdout + done.stderr
    assert "━" not in done.stdout + done.stderr
    (verdict,) = [line for line in done.stdout.splitlines() if line.startswith("Verdict on test")]
    assert verdict.endswith(".")
    assert any(
        re.search(r"\] searching, trials 1 to 2 of 6: 40 questions$", s) for s in done.stderr.splitlines()
    )


def test_no_color_is_heeded(folder: Path) -> None:
    args = ("eval", "out", "--split", "train")
    assert re.search(r"\x1b\[[0-9;]*3\d", shown(folder, 80, *args))
    assert not re.search(r"\x1b\[[0-9;]*3\d", shown(folder, 80, *args, NO_COLOR="1"))


def test_study_status_is_a_table(folder: Path) -> None:
    found = piped(folder, "study", "status", "out").stdout.splitlines()
    names = [line.split("  ")[0] for line in found[: found.index("")]]
    assert names[:6] == ["study", "state", "program", "objectives", "seed", "trials"]
    assert {"best so far", "its program", "LM calls", "tokens", "US dollars", "minutes"} <= set(names)
    assert not any("{" in line for line in found)
    assert len({re.match(r".{13}", line)[0].rstrip() for line in found[:6]} & set(names)) == 6  # type: ignore[index]
