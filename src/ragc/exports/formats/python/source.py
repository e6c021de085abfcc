"""Source text for the `python` export: Python literals, and code extracted from ragc's modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

WIDTH = 110
"""Maximum line length, where a line can be broken."""


def string_literal(text: str) -> str:
    """Returns a string literal of `text` on one line, with invisible characters escaped."""
    quote = "'" if text.count("'") < text.count('"') else '"'
    for char, short in (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t"), (quote, f"\\{quote}")):
        text = text.replace(char, short)
    return quote + _printable(text) + quote


def _printable(text: str) -> str:
    """Returns `text` with its invisible characters escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def literal(value: Any, indent: int = 0, reserved: int = 1) -> str:
    """Returns the JSON value `value` as Python source, for a line indented by `indent` blanks.

    `reserved` is the number of other characters on its first line. A long value is split over several lines;
    a text is split after its line breaks.
    """
    if isinstance(value, str):
        return _text(value, indent, reserved)
    if not isinstance(value, (Mapping, list, tuple)):
        return repr(value)
    if not isinstance(value, Mapping):
        return bracket("[", [literal(one, indent + 4) for one in value], "]", indent, reserved)
    keys = [f"{string_literal(name)}: " for name in value]
    items = [
        key + literal(one, indent + 4, len(key) + 1) for key, one in zip(keys, value.values(), strict=True)
    ]
    return bracket("{", items, "}", indent, reserved)


def bracket(opening: str, items: Sequence[str], closing: str, indent: int, reserved: int = 1) -> str:
    """Returns `items` between brackets: on one line if they fit, else one per line."""
    line = f"{opening}{', '.join(items)}{closing}"
    if not items or ("\n" not in line and indent + reserved + len(line) <= WIDTH):
        return line
    inner = " " * (indent + 4)
    return f"{opening}\n{''.join(f'{inner}{item},{chr(10)}' for item in items)}{' ' * indent}{closing}"


def _text(text: str, indent: int, reserved: int) -> str:
    line, pieces = string_literal(text), text.split("\n")
    if indent + reserved + len(line) <= WIDTH or len(pieces) < 2:
        return line
    lines = [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])
    if len(lines) < 2:
        return line
    inner = " " * (indent + 4)
    return f"(\n{''.join(f'{inner}{string_literal(piece)}{chr(10)}' for piece in lines)}{' ' * indent})"


def docstring(text: str, indent: int = 0) -> str:
    """Returns a docstring with `text`, indented like the code. A multi-line one ends on its own line."""
    escaped = "\n".join(map(_printable, text.replace("\\", "\\\\").split("\n")))
    end = f"\n{' ' * indent}" if "\n" in escaped else ""
    return (
        '"""' + escaped.replace('"', '\\"' if '"""' in escaped or escaped[-1:] == '"' else '"') + end + '"""'
    )


class Pieces:
    """Code extracted from ragc's modules, and its imports from the standard library."""

    def __init__(self) -> None:
        self._imports: dict[str, set[str]] = {}

    def need(self, module: str, *names: str) -> None:
        """Imports `names` of a standard `module`; the module itself without names."""
        self._imports.setdefault(module, set()).update(names or {""})

    @property
    def imports(self) -> str:
        """The import statements, in order."""
        plain = [f"import {module}" for module, names in sorted(self._imports.items()) if "" in names]
        some = {module: sorted(names - {""}) for module, names in sorted(self._imports.items())}
        return "\n".join([*plain, *(f"from {m} import {', '.join(n)}" for m, n in some.items() if n)])

    def extract(
        self, package: str, file: str, names: Collection[str] = (), *, but: Collection[str] = ()
    ) -> str:
        """Returns the code of a ragc module without its header.

        All of it, or the functions, classes and constants called `names`, without those called `but`.
        """
        head, body = _statements(package, file)
        chosen = [one for one in body if one.name not in but and (not names or one.name in names)]
        used = {name for one in chosen for name in one.used}
        for node in head:
            self._need_again(node, used)
        code = ""
        for before, one in zip([None, *chosen], chosen, strict=False):
            far = one.block or (before is not None and before.block)
            code += ("\n\n\n" if far else "\n") + one.code
        return code.strip("\n")

    def _need_again(self, node: ast.stmt, used: set[str]) -> None:
        """Repeats the imports of `node` that are `used` and not part of ragc."""
        for alias in getattr(node, "names", []):
            module = getattr(node, "module", None)
            if (alias.asname or alias.name) in used and not (module or alias.name).startswith("ragc"):
                imported = f"{alias.name} as {alias.asname}" if alias.asname else alias.name
                self.need(module or alias.name, *([imported] if module else []))


class _Statement(NamedTuple):
    """A statement of a module: its name and code, whether it is a block, and the names that it uses."""

    name: str
    code: str
    block: bool
    used: frozenset[str]


@cache
def _statements(package: str, file: str) -> tuple[tuple[ast.stmt, ...], tuple[_Statement, ...]]:
    """Returns the header of a ragc module, and the statements after it; cached for all exports."""
    source = files(package).joinpath(file).read_text("utf-8")
    body = ast.parse(source).body
    first = next(i for i, node in enumerate(body) if not isinstance(node, _HEAD))
    lines = re.sub(r"  # noqa: .*", "", source).splitlines()  # a directive for ragc's linter
    statements = (
        _Statement(
            name=_name(node),
            code="\n".join(lines[_begin(node) - 1 : node.end_lineno]),
            block=isinstance(node, _BLOCK),
            used=frozenset(one.id for one in ast.walk(node) if isinstance(one, ast.Name)),
        )
        for node in body[first:]
    )
    return tuple(body[:first]), tuple(statements)


_HEAD = (ast.Import, ast.ImportFrom, ast.Expr)


_BLOCK = (ast.FunctionDef, ast.ClassDef)


def _begin(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _name(node: ast.stmt) -> str:
    if isinstance(node, _BLOCK):
        return str(node.name)
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return target.id if isinstance(target, ast.Name) else ""
