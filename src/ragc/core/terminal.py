"""What is printed for people: characters that act on a terminal are shown, wherever a text came from.

Replies, passages, questions, file names and recipes are texts of others. While a command runs, the standard
streams are `EscapedStream`, so that no line has to be cleaned where it is written; what rich draws goes past
them, and is cleaned by the console that `rich_console` makes.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ragc.core.text import escape_surrogates

P = ParamSpec("P")
T = TypeVar("T")

# C0 but tab and line feed, DEL, C1, line and paragraph separators, bidirectional embeddings, overrides and
# isolates, halves of surrogate pairs.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""`text` with every character that acts on a terminal written as an escape such as `\u001b`.

    The escapes are those of JSON: a JSON text stays one, of the same value.
    """
    return _ACTING.sub(_escape, text)


def json_text(value: Any) -> str:
    """`value` as JSON on one line that UTF-8 can hold: halves of surrogate pairs are escaped."""
    return escape_surrogates(json.dumps(value, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


class EscapedStream:
    """The text stream `stream`, on which everything written is `visible`, and of a spelling that it takes."""

    def __init__(self, stream: Any) -> None:
        self.rich_proxied_file = stream  # where rich, which looks for this name, writes what it drew

    def write(self, text: str) -> int:
        """Write `text`; what the stream's encoding lacks is escaped too."""
        stream = self.rich_proxied_file
        shown = visible(text)
        try:
            shown.encode(stream.encoding or "utf-8")
        except UnicodeEncodeError:
            shown = "".join(char if char.isascii() else json.dumps(char)[1:-1] for char in shown)
        stream.write(shown)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write each of `lines`."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def escape_output(command: Callable[P, T]) -> Callable[P, T]:
    """`command` with standard output and standard error `EscapedStream` while it runs."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = (stream and EscapedStream(stream) for stream in streams)
        try:
            return command(*args, **kwargs)
        finally:
            sys.stdout, sys.stderr = streams

    return run


def rich_console(**options: Any) -> Any:
    """A console of rich's on which texts are `visible`, and no markup in them is followed."""
    from rich.console import Console
    from rich.text import Text

    stream = sys.stderr if options.pop("stderr", False) else sys.stdout
    options.setdefault("file", getattr(stream, "rich_proxied_file", stream))  # a live display looks one deep

    class Plain(Console):
        """Takes texts as they are."""

        def render_str(self, text: str, **more: Any) -> Text:
            """`text` as rich's own, made visible."""
            return super().render_str(visible(text), **more)

    return Plain(markup=False, emoji=False, **options)
