"""The page at `/`: ask, watch the steps, open sources and prompts. Plain files, the same for everybody.

The page holds nothing of the server; what it shows it asks for, with the key that its user types. All of it
is written as text, never as markup, and its policy allows no script, style or address but its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

FILES: Mapping[str, tuple[str, str]] = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
"""The name and media type of the file at each address."""

POLICY = "; ".join(
    (
        *("default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"),
        *("img-src data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
        "require-trusted-types-for 'script'",
    )
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-cache",
}


class PageFiles:
    """The files of the page, read once."""

    def __init__(self) -> None:
        self._bodies = {at: (Path(__file__).parent / name).read_bytes() for at, (name, _) in FILES.items()}

    async def file(self, request: Request) -> Response:
        """Returns the file at the address of `request`, which is one of `FILES`."""
        address = request.url.path
        return Response(self._bodies[address], headers=dict(HEADERS), media_type=FILES[address][1])
