"""What the docstrings of a program say of its paper: the parts that begin with Paper, Calls or Differs.

Docstrings are read from the files, because `python -OO` drops them and importing a program imports DSPy.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from ragc.programs.method import Method

PAPER, CALLS, DIFFERS = HEADINGS = ("Paper", "Calls", "Differs")


def origin_of(method: Method) -> dict[str, list[str]]:
    """Returns the texts under each heading, each one line: of the program's file, then "Differs" of those
    beside it.

    A file that several programs share has a paragraph for each. Empty for a program without such a file.
    """
    module, _, cls = method.program.partition(":")
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return {}
    program = Path(spec.origin)
    own = _own_sections(_docstring(program), cls)
    texts = {heading: [own[heading]] for heading in own}
    shared = program.parent.name == "baselines"
    for path in () if shared else sorted(program.parent.glob("*.py")):
        if path != program and (more := _sections(_docstring(path)).get(DIFFERS)):
            texts.setdefault(DIFFERS, []).append(more)
    return texts


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""


def _own_sections(text: str, cls: str) -> dict[str, str]:
    """Returns the sections of a docstring's part on the class `cls`, else of all of it."""
    paragraphs = text.split("\n\n")
    for index, paragraph in enumerate(paragraphs):
        head = re.match(r"([\w-]+)[.:]", paragraph)
        if index and head and head[1].replace("-", "").lower() == cls.lower():
            return _sections(paragraph)
    return _sections(text)


def _sections(text: str) -> dict[str, str]:
    line = " ".join(text.split())
    parts = re.split(rf"(?:(?<=^)|(?<=[.:] ))({'|'.join(HEADINGS)})(?: \([^)]*\))?: ", line)
    return {
        heading: text.strip()[:1].upper() + text.strip()[1:]
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def clauses(text: str, *, semicolons: bool = True) -> Iterator[str]:
    """Splits `text` at each full stop, and at each of the `semicolons`, outside of brackets and code."""
    depth, start, code = 0, 0, False
    for index, character in enumerate(text):
        if character == "`":
            code = not code
        depth += (character in "([") - (character in ")]")
        ends = (semicolons and character == ";") or text[index : index + 2] == ". "
        if ends and depth == 0 and not code:
            yield text[start:index].strip()
            start = index + 1
    yield text[start:].strip()
