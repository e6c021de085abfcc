"""MkDocs hook: removes `no-run` and its reason from code blocks, which MkDocs would not read otherwise."""

from __future__ import annotations

import re
from typing import Any

_FENCE = re.compile(r"^( *```+\w+) no-run\b.*$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The text of a page with code blocks as MkDocs reads them."""
    return _FENCE.sub(r"\1", markdown)
