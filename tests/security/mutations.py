"""Damage at three levels: bytes, tokens and values. Everything is drawn from one `random.Random`."""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

Mutator = Callable[[bytes, random.Random], bytes]

NASTY_TEXTS = (
    *("", " ", "\x00", "\ud800", "\r\n", "\ufeff", "\u202eabc", "\U0001f99c", "\u00e9", "a" * 5000),
    *(
        "\x1b[31mred\x1b[0m\x1b]0;title\x07",
        "[bold]x[/bold]",
        "%s%n",
        "{}",
        "{{ 7*7 }}",
        "$(id)",
        "-",
        "--out",
    ),
    *("../../../etc/passwd", "/", ".", "..", "~", "/dev/null", "/dev/zero", "hf:./x", "main", "vanilla"),
    *("postgresql://", "http://127.0.0.1:99999/v1", "http://[::1", "1e999", "0x10", "null", "NaN"),
)
"""Texts that programs have stumbled over."""

_TOKEN = re.compile(rb"\s+|\w+|[^\w\s]")


def deep(levels: int) -> Any:
    """A list in a list in a list."""
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


def nasty_value(draw: random.Random) -> Any:
    """A value of some type, seldom the one that is due."""
    makers: tuple[Callable[[], Any], ...] = (
        lambda: draw.choice(NASTY_TEXTS),
        lambda: draw.choice((True, False)),
        lambda: draw.choice((0, -1, 1, 2**31, 2**63, -(2**70), 10**30)),
        lambda: draw.choice((0.0, -0.5, 1.5, 1e308, float("inf"), float("nan"))),
        list,
        dict,
        lambda: [draw.choice(NASTY_TEXTS) for _ in range(3)],
        lambda: {draw.choice(NASTY_TEXTS): draw.choice(NASTY_TEXTS)},
        lambda: deep(draw.choice((3, 40, 300))),
        lambda: None,
    )
    return draw.choice(makers)()


def near_value(value: Any, draw: random.Random) -> Any:
    """Another value of the same type, so that it comes through the checks of types."""
    match value:
        case bool():
            return not value
        case int():
            return draw.choice((0, 1, -value, value + 1, value * 10, value - 1))
        case float():
            return draw.choice((0.0, value * 2, value / 10, -value, 1.0))
        case str():
            return draw.choice(
                (
                    value[: len(value) // 2],
                    value + value,
                    value.upper(),
                    f"{value}\x00",
                    draw.choice(NASTY_TEXTS),
                )
            )
        case list() if value:
            return draw.choice((value[:-1], value * 3, value[::-1]))
        case _:
            return nasty_value(draw)


def bytes_changed(data: bytes, draw: random.Random) -> bytes:
    """One to four bytes flipped, dropped, put in, or a run of them cut out or doubled."""
    changed = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(changed) + 1)
        match draw.randrange(5):
            case 0 if at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
            case 1 if at < len(changed):
                del changed[at]
            case 2:
                changed.insert(at, draw.randrange(256))
            case 3:
                del changed[at : at + draw.randint(1, 40)]
            case _:
                changed[at:at] = changed[at : at + draw.randint(1, 40)]
    return bytes(changed)


def tokens_changed(data: bytes, draw: random.Random) -> bytes:
    """One to three words or signs dropped, doubled, swapped, or replaced by another of the same text."""
    tokens = _TOKEN.findall(data)
    if not tokens:
        return data
    for _ in range(draw.randint(1, 3)):
        one, other = draw.randrange(len(tokens)), draw.randrange(len(tokens))
        match draw.randrange(4):
            case 0:
                tokens[one] = b""
            case 1:
                tokens[one] = tokens[one] * 2
            case 2:
                tokens[one], tokens[other] = tokens[other], tokens[one]
            case _:
                tokens[one] = tokens[other]
    return b"".join(tokens)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside `value`, its own left out."""
    items: Any = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def value_changed(value: Any, draw: random.Random) -> Any:
    """`value`, changed in place: one to three of the values inside it replaced, dropped or put elsewhere."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        paths = list(places(value))
        if not paths:
            return nasty_value(draw)
        path = draw.choice(paths)
        holder = value
        for key in path[:-1]:
            holder = holder[key]
        match draw.randrange(8):
            case 0:
                del holder[path[-1]]
            case 1 if isinstance(holder, dict):
                holder[draw.choice(NASTY_TEXTS)] = holder.pop(path[-1])
            case 2 if isinstance(holder, dict):
                holder[draw.choice(NASTY_TEXTS)] = nasty_value(draw)
            case 3 | 4:
                holder[path[-1]] = nasty_value(draw)
            case _:
                holder[path[-1]] = near_value(holder[path[-1]], draw)
    return value


def json_changed(data: bytes, draw: random.Random) -> bytes:
    """JSON, or JSON lines, with other values; what is neither is changed in its tokens."""
    try:
        return json.dumps(value_changed(json.loads(data), draw)).encode("utf-8", "surrogatepass")
    except ValueError:
        lines = data.splitlines()
        readable = [at for at, line in enumerate(lines) if line.strip().startswith(b"{")]
        if not readable:
            return tokens_changed(data, draw)
        at = draw.choice(readable)
        try:
            value = value_changed(json.loads(lines[at]), draw)
        except ValueError:
            return tokens_changed(data, draw)
        lines[at] = json.dumps(value).encode("utf-8", "surrogatepass")
        return b"\n".join(lines) + b"\n"


def toml_text(value: Any) -> str:
    """`value` as inline TOML; None, which TOML has not, is an empty text."""
    match value:
        case bool():
            return str(value).lower()
        case float() | int():
            return str(value)
        case dict():
            pairs = (f"{json.dumps(name)} = {toml_text(inner)}" for name, inner in value.items())
            return f"{{{', '.join(pairs)}}}"
        case list():
            return f"[{', '.join(map(toml_text, value))}]"
        case _:
            return json.dumps(str(value or ""))


def toml_changed(data: bytes, draw: random.Random) -> bytes:
    """TOML with other values."""
    try:
        value = value_changed(tomllib.loads(data.decode("utf-8")), draw)
    except ValueError:
        return tokens_changed(data, draw)
    pairs = value.items() if isinstance(value, dict) else [("", value)]
    return "".join(f"{json.dumps(name)} = {toml_text(inner)}\n" for name, inner in pairs).encode()


def levels_of(name: str) -> tuple[Mutator, ...]:
    """The mutators of a file called `name`, those that leave it readable more often."""
    values = toml_changed if name.endswith(".toml") else json_changed
    return (bytes_changed, tokens_changed, values, values, values)


def parses(name: str, data: bytes) -> bool:
    """Whether `data` is still what the ending of `name` says; other files always are."""
    try:
        if name.endswith(".toml"):
            tomllib.loads(data.decode("utf-8"))
        elif name.endswith((".json", ".jsonl")):
            lines = data.splitlines() if name.endswith(".jsonl") else [data]
            for line in lines:
                json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True
