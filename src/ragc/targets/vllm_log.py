"""What vLLM's log says last, in words for people."""

from __future__ import annotations

import re
from pathlib import Path

from ragc.targets.redact import shorten

_SHOWN = 300
_TAIL = 2**18
_BEFORE = re.compile(r"^(?:\([^()]* pid=\d+\) )?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)[: ]+)?"
                     r"(?:\d\d-\d\d \d\d:\d\d:\d\d )?(?:\[[^\]]*\] )?")  # fmt: skip
_ERROR = re.compile(r"(?:^|[\s.])(?:[A-Za-z_]*(?:Error|Exception)|error): \S|^Value error, \S")
_ABOUT_OTHERS = "root cause above"


def last_error(log: Path) -> str:
    """The last line of `log` that names an error, but none that points to another; else its last line."""
    lines = _lines(log)
    named = [line for line in lines if _ERROR.search(line) and _ABOUT_OTHERS not in line]
    found = (named or lines or ["it wrote nothing"])[-1]
    return shorten(found, _SHOWN)


def last_line(log: Path) -> str:
    """The last line of `log`; "nothing yet" while there is none."""
    return shorten((_lines(log) or ["nothing yet"])[-1], _SHOWN)


def _lines(log: Path) -> list[str]:
    """The last lines that are not empty, without the process, time and place before them."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [kept for line in text.splitlines() if (kept := _BEFORE.sub("", line.strip()).strip())]
