"""Fetching a page from the web, without trusting whoever named its address.

A URL, and every URL that it redirects to, must be http or https and without a password. Its host is
looked up once, all its addresses are checked (`addresses`), and the connection goes to a checked address,
so that a second look-up cannot lead elsewhere. Certificates are checked against the host's name. Proxies
and other settings of the environment are not used.
"""

from __future__ import annotations

import asyncio
import codecs
import re
from dataclasses import dataclass

import httpx

from ragc.corpora.addresses import checked
from ragc.errors import SourceError
from ragc.version import __version__

MAX_BYTES = 5_000_000
"""Bytes of a page after unpacking."""

SECONDS = 15.0
"""Wall-clock seconds for a page, redirects included."""

REDIRECTS = 5
"""Redirects that are followed."""

HTML_TYPES = ("text/html", "application/xhtml+xml")
CONTENT_TYPES = (*HTML_TYPES, "text/plain", "text/markdown")
"""Media types of pages that can be read."""

LONGEST_URL = 4096

# Codecs of Python that are no encodings of pages, some of them slow on purpose-made input.
_NO_CHARSETS = frozenset({"idna", "punycode", "raw_unicode_escape", "unicode_escape", "undefined", "utf_7"})
_PACKED = ("", "identity", "gzip", "deflate")
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w-]{1,40})""", re.IGNORECASE)
_HEADERS = {
    "User-Agent": f"ragc/{__version__}",
    "Accept": ", ".join(CONTENT_TYPES),
    "Accept-Encoding": "gzip, deflate",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A fetched page: the URL it was found at after redirects, its media type, and its decoded text."""

    url: str
    content_type: str
    text: str

    @property
    def is_html(self) -> bool:
        """Whether the text is HTML."""
        return self.content_type in HTML_TYPES


async def fetch(
    url: str,
    *,
    seconds: float = SECONDS,
    max_bytes: int = MAX_BYTES,
    content_types: tuple[str, ...] = CONTENT_TYPES,
    allow_loopback: bool = False,
) -> Page:
    """The page at `url`, by a GET request that follows at most `REDIRECTS` redirects.

    `seconds` of wall clock and `max_bytes` of unpacked content bound it; `content_types` are the media
    types taken. `allow_loopback` permits servers of this machine, for tests; nothing else that is private.
    Raises SourceError, saying what was refused or failed.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _followed(url, max_bytes, content_types, allow_loopback)
    except TimeoutError as error:
        raise SourceError(f"{_shown(url)} did not answer in full within {seconds:g} s.") from error
    except (ValueError, OSError) as error:  # what the library under httpx leaves of an odd URL or reply
        raise _broken(url, error) from error


def check_url(url: str) -> httpx.URL:
    """`url`, taken apart; raises SourceError unless it is http or https, with a host and no password."""
    if len(url) > LONGEST_URL:
        raise SourceError(f"{_shown(url)} has {len(url)} characters; {LONGEST_URL} at most are taken.")
    try:
        parsed = httpx.URL(url)
        host, port = parsed.host, parsed.port  # a host in Punycode is only read here
    except (httpx.InvalidURL, ValueError) as error:  # of ValueError: UnicodeError, and idna's own
        raise SourceError(f"{_shown(url)} is no URL ({error}).") from error
    if port is not None and not 0 < port < 65_536:
        raise SourceError(f"{_shown(url)} names port {port}; ports go from 1 to 65535.")
    if parsed.scheme not in ("http", "https"):
        raise SourceError(f"{_shown(url)} is neither http nor https, and nothing else is fetched.")
    if not host:
        raise SourceError(f"{_shown(url)} names no host.")
    if parsed.userinfo:
        raise SourceError(f"A URL of the host {host!r} holds a user name or password; leave it out.")
    return parsed.copy_with(fragment=None)


async def _followed(url: str, max_bytes: int, types: tuple[str, ...], allow_loopback: bool) -> Page:
    at = check_url(url)
    for _ in range(REDIRECTS + 1):
        found = await _hop(at, max_bytes, types, allow_loopback)
        if isinstance(found, Page):
            return found
        at = check_url(found)
    raise SourceError(f"{_shown(url)} redirects more than {REDIRECTS} times.")


async def _hop(at: httpx.URL, max_bytes: int, types: tuple[str, ...], allow_loopback: bool) -> Page | str:
    """The page at `at`, or the URL that it redirects to."""
    port = at.port or (443 if at.scheme == "https" else 80)
    addresses = await checked(at.raw_host.decode("ascii"), port, allow_loopback=allow_loopback)
    async with httpx.AsyncClient(trust_env=False, timeout=None) as client:  # noqa: S113 - `fetch` bounds it
        failure: httpx.TransportError | None = None
        for address in addresses:
            request = client.build_request(
                "GET",
                at.copy_with(host=address),
                headers={**_HEADERS, "Host": at.netloc.decode("ascii")},
                extensions={"sni_hostname": at.raw_host.decode("ascii")},
            )
            try:
                reply = await client.send(request, stream=True)
            except httpx.ConnectError as error:
                failure = error  # the next address may answer
                continue
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise _broken(at, error) from error
            try:
                return await _read(at, reply, max_bytes, types)
            except httpx.HTTPError as error:
                raise _broken(at, error) from error
            finally:
                await reply.aclose()
    raise SourceError(f"{_shown(at)} cannot be reached ({failure}).") from failure


async def _read(at: httpx.URL, reply: httpx.Response, max_bytes: int, types: tuple[str, ...]) -> Page | str:
    if reply.has_redirect_location:
        try:
            return str(at.join(reply.headers["location"]))
        except (httpx.InvalidURL, ValueError) as error:
            raise SourceError(f"{_shown(at)} redirects to what is no URL ({error}).") from error
    if reply.status_code != 200:
        raise SourceError(f"{_shown(at)} answered with status {reply.status_code}.")
    kind, _, _ = reply.headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if kind not in types:
        found = f"of the type {kind[:80]!r}" if kind else "of no stated type"
        raise SourceError(f"{_shown(at)} is {found}; taken are {', '.join(types)}.")
    packed = reply.headers.get("content-encoding", "").strip().lower()
    if packed not in _PACKED:
        raise SourceError(f"{_shown(at)} is packed as {packed[:80]!r}; gzip and deflate are unpacked, once.")
    body = bytearray()
    async for part in reply.aiter_bytes(65_536):
        body += part
        if len(body) > max_bytes:
            raise SourceError(f"{_shown(at)} is larger than {max_bytes} bytes.")
    return Page(str(at), kind, _decoded(bytes(body), reply.charset_encoding))


def _decoded(body: bytes, named: str | None) -> str:
    """The text of `body`: a byte-order mark decides, then the header, the page itself, UTF-8, Latin-1."""
    declared = _CHARSET.search(body, 0, 4096)
    marked = "utf-16" if body[:2] in (b"\xff\xfe", b"\xfe\xff") else None
    asked = (marked, named, declared[1].decode("ascii", "replace") if declared else None, "utf-8-sig")
    for encoding in filter(None, asked):
        try:
            if codecs.lookup(encoding).name.replace("-", "_") in _NO_CHARSETS:
                continue
            return body.decode(encoding).removeprefix("\ufeff")
        except (LookupError, ValueError):
            continue
    return body.decode("cp1252", "replace")


def _broken(at: httpx.URL | str, error: Exception) -> SourceError:
    return SourceError(f"{_shown(at)} could not be fetched ({type(error).__name__}: {error}).")


def _shown(url: httpx.URL | str) -> str:
    """A URL for a message: no password, no query, never long."""
    try:
        parsed = httpx.URL(url)
        text = f"{parsed.scheme}://{parsed.host}{parsed.path}" if parsed.host else str(url).partition("?")[0]
    except (httpx.InvalidURL, ValueError):
        text = str(url).partition("?")[0].rpartition("@")[2]
    return repr(text if len(text) <= 200 else text[:200] + "...")
