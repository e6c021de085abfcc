"""The outcome of a gate as Markdown for a pull request, and as JUnit XML.

Questions and names are data: markup of Markdown, HTML or XML in them is escaped.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from xml.etree import ElementTree as ET

from ragc.compiled.gate import DROPPED, PASSED, UNCLEAR, Gate
from ragc.core.files import check_writable, resolve_out
from ragc.errors import UsageError

HEADING = "<!-- ragc gate -->"
"""The first line of the Markdown."""

XML_HEAD = '<?xml version="1.0" encoding="utf-8"?>\n<testsuites name="ragc gate"'
"""How the JUnit XML begins."""

MARKS = {PASSED: "✅", DROPPED: "❌", UNCLEAR: "⚠️"}

MAX_SHOWN_CHANGES = 10
"""Changed questions that are listed, at most."""

LONGEST = 200
"""Characters of a question that are shown."""

_MARKUP = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>])")
_UNSAFE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def markdown(gate: Gate) -> str:
    """Returns a comment for a pull request."""
    lines = [HEADING, f"### {MARKS[gate.exit_code]} ragc gate: {escape(gate.headline)}", ""]
    lines += [f"- {escape(line)}" for line in gate.lines()[1:]]
    if changed := gate.comparison.changed[:MAX_SHOWN_CHANGES]:
        lines += ["", f"| question | {escape(gate.against)} | {escape(gate.name)} |", "| --- | --- | --- |"]
        lines += [
            f"| {escape(one.a.question or one.a.id)} | {one.before:.3f} | {one.after:.3f} |"
            for one in changed
        ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Returns `text` on one line, with Markdown escaped: no link, mention, tag or table."""
    line = " ".join(_UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text).split())
    line = line if len(line) <= LONGEST * 2 else f"{line[: LONGEST * 2]}…"
    marked = _MARKUP.sub(r"\\\1", html.escape(line, quote=False).replace("&gt;", ">"))
    return (
        marked.replace("@", "&#64;")
        .replace("://", "&#58;//")
        .replace("\\>", "&gt;")
        .replace("www", "&#119;ww")
    )


def junit(gate: Gate) -> str:
    """Returns a test suite with a case for the allowed loss, and one for each least mean."""
    cases: list[tuple[str, str, str]] = []
    small, drop = gate.margin.small_loss(), gate.margin.drop(gate.alpha)
    state = "reached" if small else "missed" if drop else "cannot tell"
    cases.append((f"{gate.metric} loses less than {gate.allow:g}", state, "\n".join(gate.lines())))
    cases += [
        (f"{one.metric} is at least {one.least:g}", one.state, f"{one.metric} {one.mean:.3f}: {one.state}.")
        for one in gate.minimums
    ]
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(state == "missed" for _, state, _ in cases)),
        "skipped": str(sum(state == "cannot tell" for _, state, _ in cases)),
    }
    suites = ET.Element("testsuites", {"name": "ragc gate", **counts})
    suite = ET.SubElement(suites, "testsuite", {"name": _clean(gate.name), "errors": "0", **counts})
    for name, state, text in cases:
        case = ET.SubElement(suite, "testcase", {"classname": "ragc.gate", "name": _clean(name)})
        if state == "reached":
            ET.SubElement(case, "system-out").text = _clean(text)
        else:
            kind = "failure" if state == "missed" else "skipped"
            ET.SubElement(case, kind, {"message": _clean(text.partition("\n")[0])}).text = _clean(text)
    body = ET.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _clean(text: str) -> str:
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def check_file(path: str, head: str) -> Path:
    """Returns the absolute path of a file to write; one that exists must begin with `head`. Raises
    UsageError.
    """
    out = resolve_out(path)
    if out.exists() or out.is_symlink():
        try:
            own = out.is_file() and out.read_text("utf-8").startswith(head)
        except (OSError, UnicodeDecodeError):
            own = False
        if not own and not (out.is_file() and out.stat().st_size == 0):
            raise UsageError(
                f"{path} exists and was not written by ragc gate, so it is not replaced; move it away."
            )
    check_writable(out)
    return out
