"""What commands show on a real terminal of 80 and of 120 columns, and where there is none."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import termios
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from rich.cells import cell_len

from ragc.cli.main import main
from tests import processes
from tests.optimizers.colours import RECIPE, written
from tests.paths import SRC
from tests.support.server import MODEL, serving, word_of_prompt

pytestmark = pytest.mark.timeout(240)
TARGET = f'[targets.main]\nkind = "vllm"\nmodel = "{MODEL}"\nbase_url = "%s"\n'
REPORT = '[metrics]\nreport = ["em", "f1", "recall@5"]\n'
CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
NUMBER = r"[+-]?\d\.\d{3}"
INTERVAL = re.compile(rf"{NUMBER} \[{NUMBER}, {NUMBER}\]")
WIDTHS = pytest.mark.parametrize("width", [80, 120])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a recipe for a server on this machine, compiled as `out`; the rows of two runs."""
    path = written(tmp_path_factory.mktemp("terminal"))
    with serving(word_of_prompt) as server, pytest.MonkeyPatch.context() as patch:
        text = RECIPE.partition("[targets.main]")[0] + TARGET % server.url + REPORT
        (path / "recipe.toml").write_text(text, "utf-8")
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
            patch.chdir(path)
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as error:
                assert main(args) == 0, error.getvalue()
        yield path


class Terminal(io.StringIO):
    """A terminal that remembers."""

    def isatty(self) -> bool:
        return True


def run_command(*args: str) -> str:
    """What a command says where there is no terminal."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(out):
        main(args)
    return out.getvalue()


def seen(width: int, *args: str) -> str:
    """What a terminal of `width` columns gets from a command of this process."""
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(Terminal()) as out, redirect_stderr(out):
        patch.setenv("COLUMNS", str(width))
        patch.setenv("TERM", "xterm")
        main(args)
    return out.getvalue()


def shown(folder: Path, width: int, *args: str) -> str:
    """All that a real terminal of `width` columns gets from a process, with its control codes."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    variables = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "CI")
    }
    job = processes.start(
        ["-m", "ragc", *args],
        cwd=folder,
        environment={**variables, "PYTHONPATH": str(SRC), "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    output = b""
    while True:
        try:
            some = os.read(ours, 65536)
        except OSError:  # how Linux says that the other side is closed
            break
        if not some:
            break
        output += some
    os.close(ours)
    job.wait(timeout=60)
    return output.decode("utf-8")


def lines_of(text: str) -> list[str]:
    """The lines that were on the screen at any time."""
    return [line for line in re.split(r"[\r\n]+", CODE.sub("", text)) if line.strip()]


def fits(text: str, width: int, *, intervals: int) -> list[str]:
    """The lines, none of which is wider than the terminal (but for a path), with so many whole intervals."""
    lines = lines_of(text)
    assert [line for line in lines if cell_len(line) > width and len(line.split()) > 1] == []
    assert sum(len(INTERVAL.findall(line)) for line in lines) == intervals
    assert sum(len(re.findall(rf"{NUMBER} \[", line)) for line in lines) == intervals
    return lines


@WIDTHS
def test_a_compile_says_what_is_going_on(folder: Path, width: int) -> None:
    text = shown(folder, width, "compile", "recipe.toml", "--out", f"out{width}", "--set", f"seed={width}")
    lines = lines_of(text)
    bars = [line for line in lines if "|" in line]
    assert all(cell_len(line) <= width for line in bars)
    assert any(line.startswith("searching, trials 1 to 2 of 6") for line in bars)
    assert any(line.startswith("baseline on dev") for line in bars)
    after = next(index for index, line in enumerate(bars) if line.startswith("baseline on dev"))
    assert not any("opening the model" in line for line in bars[after:])
    assert not any(int(a) > int(b) for line in bars for a, b in re.findall(r"(\d+)/(\d+) \[", line))
    assert any(re.search(r"trial +\d/6 .*2 demonstrations, set 0", line) for line in lines)
    assert "demos=" not in text
    assert re.search(r"Verdict on test \(25 questions\): .* promised to be better", " ".join(text.split()))


@WIDTHS
@pytest.mark.parametrize(
    "args",
    [
        ("eval", "a.jsonl", "b.jsonl"),
        ("list", "knobs", "vanilla"),
        ("list", "datasets"),
        ("list", "exports"),
        ("doctor",),
        ("study", "status", "out"),
        ("compile", "recipe.toml", "--dry-run"),
        ("compile", "recipe.toml", "--set", "search.nothing=1"),
        ("ask", "out", "What colour is thing number56, and why of that colour and of no other?", "--trace"),
        ("export", "out", "--to", "openai-batch", "--out", "none.jsonl"),
    ],
    ids=lambda args: " ".join(args[:3]),
)
@pytest.mark.usefixtures("folder")
def test_lines_fit_and_words_stay_whole(args: tuple[str, ...], width: int) -> None:
    digits = re.compile(r"\d[\d.]*")  # sizes and times change
    words = set(digits.sub("0", run_command(*args)).split())
    lines = [line for line in lines_of(digits.sub("0", seen(width, *args))) if "|" not in line]
    dashes = re.compile("-+")
    assert [w for line in lines for w in line.split() if w not in words and not dashes.fullmatch(w)] == []
    assert [line for line in lines if cell_len(line) > width and len(line.split()) > 1] == []


@WIDTHS
@pytest.mark.usefixtures("folder")
def test_intervals_stay_whole(width: int) -> None:
    fits(seen(width, "eval", "a.jsonl", "b.jsonl"), width, intervals=9)
    fits(seen(width, "eval", "out"), width, intervals=3)


@pytest.mark.usefixtures("folder")
def test_without_a_terminal_there_are_plain_lines() -> None:
    text = run_command("compile", "recipe.toml", "--out", "piped", "--set", "seed=9")
    assert not re.search("[\x1b\r█]", text)
    (verdict,) = [line for line in text.splitlines() if line.startswith("Verdict on test")]
    assert verdict.endswith(".")
    assert any(re.search(r"\] searching, trials 1 to 2 of 6: 12 questions$", s) for s in text.splitlines())
