"""Output for people: terminal control characters are escaped, whatever text they came from.

Replies, passages, questions, file names and recipes are untrusted text. While a command runs, the standard
streams are `EscapedStream`, so that no caller has to escape. Output drawn by rich bypasses them and is
escaped by the console of `rich_console`.
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

# C0 except tab and line feed, DEL, C1, line and paragraph separators, bidirectional embeddings, overrides and
# isolates, lone surrogates.
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""`text` with every terminal control character escaped, such as `\u001b`.

    The escapes are those of JSON, so JSON text remains valid and has the same value.
    """
    return _ACTING.sub(_escape, text)


def json_text(value: Any) -> str:
    """`value` as one line of JSON that UTF-8 can encode: lone surrogates are escaped."""
    return escape_surrogates(json.dumps(value, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


class EscapedStream:
    """Wraps the text stream `stream`: escapes control characters, and what the encoding cannot represent."""

    def __init__(self, stream: Any) -> None:
        self.rich_proxied_file = stream  # rich looks for this attribute and writes its own output there

    def write(self, text: str) -> int:
        """Write `text`; characters that the stream's encoding lacks are escaped too."""
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
    """Run `command` with standard output and standard error wrapped in `EscapedStream`."""

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
    """A rich console that escapes control characters and does not interpret markup."""
    from rich.console import Console
    from rich.text import Text

    stream = sys.stderr if options.pop("stderr", False) else sys.stdout
    # a live display unwraps only one level
    options.setdefault("file", getattr(stream, "rich_proxied_file", stream))

    class Plain(Console):
        """A console that prints texts literally."""

        def render_str(self, text: str, **more: Any) -> Text:
            """`text` as rich's Text, with control characters escaped."""
            return super().render_str(visible(text), **more)

    return Plain(markup=False, emoji=False, **options)
