"""Fetches a web page from an untrusted URL: only public internet addresses are contacted.

A URL, and every URL that it redirects to, must be http or https and without a password. Its host is resolved
once, all its addresses are checked (`why_unreachable`), and the connection goes to a checked one, so that a
second resolution cannot lead elsewhere. Certificates are checked against the host's name. Proxies and other
environment settings are ignored.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from dataclasses import dataclass

import httpx

from ragc.core.extras import __version__
from ragc.core.redact import shorten
from ragc.corpora.documents.base import UnreadableDocument
from ragc.corpora.documents.text import decoded
from ragc.errors import SourceError

# By the registries of IANA for special purposes, where `Globally Reachable` is not True; also what they
# leave open but leads elsewhere. Python's own tables differ from version to version, and are asked too.
_NOT_GLOBAL = {
    "0.0.0.0/8": "of this network",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "shared by customers of a provider",
    "127.0.0.0/8": "a loopback address",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "of IETF protocols",
    "192.0.2.0/24": "for documentation",
    "192.31.196.0/24": "of AS112",
    "192.52.193.0/24": "of AMT",
    "192.88.99.0/24": "a relay of 6to4, which was given up",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "of AS112",
    "198.18.0.0/15": "for benchmarks",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "a multicast address",
    "240.0.0.0/4": "reserved",
    "::1/128": "a loopback address",
    "::/128": "unspecified",
    "::ffff:0:0:0/96": "a translated address",
    "64:ff9b:1::/48": "translated within a network",
    "100::/64": "for discarding",
    "100:0:0:1::/64": "for discarding",
    "2001::/23": "of IETF protocols, Teredo among them",
    "2001:db8::/32": "for documentation",
    "2002::/16": "of 6to4",
    "2620:4f:8000::/48": "of AS112",
    "3fff::/20": "for documentation",
    "5f00::/16": "of segment routing",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "fec0::/10": "link-local",
    "ff00::/8": "a multicast address",
}
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""The IPv6 block from which IANA allocates globally reachable addresses."""

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)
"""The bits before the IPv4 address in an interface identifier of ISATAP (RFC 5214)."""

MAX_BYTES, SECONDS, REDIRECTS, MAX_URL_CHARS = 5_000_000, 15.0, 5, 4096
"""The most bytes of an unpacked page, wall-clock seconds for it with its redirects, redirects, and characters
of a URL."""

HTML_TYPES = ("text/html", "application/xhtml+xml")
CONTENT_TYPES = (*HTML_TYPES, "text/plain", "text/markdown")
"""Media types of pages that can be read."""

_HEADERS = {
    "User-Agent": f"ragc/{__version__}",
    "Accept": ", ".join(CONTENT_TYPES),
    "Accept-Encoding": "gzip, deflate",
}


def why_unreachable(name: str, *, allow_loopback: bool = False) -> str:
    """Returns the reason why the address `name` is not allowed, in a few words; "" if it is.

    An IPv6 address that stands for an IPv4 address, mapped or of NAT64, is judged as that one. Other forms
    that hold one are refused. `allow_loopback` permits addresses of this machine.
    """
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return "no address that can be checked"
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address in _NAT64):
        address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address.is_loopback and allow_loopback:
        return ""
    is_v6 = isinstance(address, ipaddress.IPv6Address)
    reasons = {
        **{why: True for block, why in _NOT_GLOBAL.items() if address in ipaddress.ip_network(block)},
        "not given out": is_v6 and address not in _GLOBAL_UNICAST,
        "of ISATAP": is_v6 and (int(address) >> 32) & 0xFFFFFFFF in _ISATAP,
        "private or not global": not address.is_global,
    }
    return next((why for why, applies in reasons.items() if applies), "")


def check_url(url: str) -> httpx.URL:
    """Returns the parsed `url`. Raises SourceError unless it is http or https with a host and no password."""
    try:
        parsed = httpx.URL(url)
        host, port = parsed.host, parsed.port  # a host in Punycode is only read here
    except (httpx.InvalidURL, ValueError) as error:  # of ValueError: UnicodeError, and idna's own
        raise SourceError(f"{shorten(str(url), 200)!r} is no URL ({error}).") from error
    for is_wrong, why in (
        (len(url) > MAX_URL_CHARS, f"has {len(url)} characters; {MAX_URL_CHARS} at most are taken."),
        (port is not None and not 0 < port < 65_536, f"names port {port}; ports go from 1 to 65535."),
        (parsed.scheme not in ("http", "https"), "is neither http nor https, and nothing else is fetched."),
        (not host, "names no host."),
        (parsed.userinfo, "holds a user name or password; leave it out."),
    ):
        if is_wrong:
            raise SourceError(f"{shorten(str(parsed), 200)!r} {why}")
    return parsed.copy_with(fragment=None)


class PublicTransport(httpx.AsyncHTTPTransport):
    """Connects to public addresses only: to those that were checked, in the resolver's order.

    One address that is private, loopback, link-local, shared, reserved, multicast or unspecified refuses its
    host. `allow_loopback` permits addresses of this machine. Raises SourceError.
    """

    def __init__(self, *, allow_loopback: bool = False) -> None:
        super().__init__(trust_env=False)
        self._allow_loopback = allow_loopback

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends `request` to the first address of its host that answers."""
        url = check_url(str(request.url))
        host = url.raw_host.decode("ascii")
        try:
            port = url.port or (443 if url.scheme == "https" else 80)
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise SourceError(
                f"The host {host!r} has no address ({error}); check its name and the network."
            ) from error
        addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
        for address in addresses:
            if why := why_unreachable(address, allow_loopback=self._allow_loopback):
                raise SourceError(
                    f"The host {host!r} has the address {address}, which is {why}; only addresses that are "
                    "open to the whole internet are reached."
                )
        extensions, headers = {**request.extensions, "sni_hostname": host}, request.headers
        failure: Exception | None = None
        for address in addresses:
            to = url.copy_with(host=address)
            try:
                return await super().handle_async_request(
                    httpx.Request(request.method, to, headers=headers, extensions=extensions)
                )
            except httpx.ConnectError as error:
                failure = error  # the next address may answer
        raise SourceError(f"{shorten(str(url), 200)!r} cannot be reached ({failure}).")


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A fetched page: its URL after redirects, its media type, and its decoded text."""

    url: str
    content_type: str
    text: str


async def fetch(
    url: str,
    *,
    seconds: float = SECONDS,
    max_bytes: int = MAX_BYTES,
    content_types: tuple[str, ...] = CONTENT_TYPES,
    allow_loopback: bool = False,
) -> FetchedPage:
    """Fetches the page at `url` with a GET request and at most `REDIRECTS` redirects.

    `seconds` of wall clock and `max_bytes` of unpacked content bound it; `content_types` are the accepted
    media types. `allow_loopback` permits servers on this machine, for tests, but no other private address.
    Raises SourceError with what was refused or failed.
    """
    transport = PublicTransport(allow_loopback=allow_loopback)
    client = httpx.AsyncClient(transport=transport, headers=_HEADERS, trust_env=False, timeout=None)  # noqa: S113
    try:
        async with asyncio.timeout(seconds), client:
            request = client.build_request("GET", check_url(url))
            for _ in range(REDIRECTS + 1):
                reply = await client.send(request, stream=True)
                if reply.next_request is None:
                    return await _read(reply, max_bytes, content_types)
                request = reply.next_request  # the body of a redirect is never read
            raise SourceError(f"{shorten(str(url), 200)!r} redirects more than {REDIRECTS} times.")
    except TimeoutError as error:
        raise SourceError(
            f"{shorten(str(url), 200)!r} did not answer in full within {seconds:g} s."
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL, UnreadableDocument, ValueError, OSError) as error:
        raise SourceError(
            f"{shorten(str(url), 200)!r} could not be fetched ({type(error).__name__}: {error})."
        ) from error


async def _read(reply: httpx.Response, max_bytes: int, types: tuple[str, ...]) -> FetchedPage:
    kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
    packed = reply.headers.get("content-encoding", "").strip().lower()
    for is_wrong, why in (
        (reply.status_code != 200, f"answered with status {reply.status_code}."),
        (not kind, f"is of no stated type; taken are {', '.join(types)}."),
        (kind not in types, f"is of the type {kind[:80]!r}; taken are {', '.join(types)}."),
        (
            packed not in ("", "identity", "gzip", "deflate"),
            f"is packed as {packed[:80]!r}; gzip and deflate are unpacked, once.",
        ),
    ):
        if is_wrong:
            raise SourceError(f"{shorten(str(reply.url), 200)!r} {why}")
    body = bytearray()
    async for part in reply.aiter_bytes(65_536):
        body += part
        if len(body) > max_bytes:
            raise SourceError(f"{shorten(str(reply.url), 200)!r} is larger than {max_bytes} bytes.")
    # Guessing an encoding takes up to a second.
    text, _ = await asyncio.to_thread(decoded, bytes(body), reply.charset_encoding or "", is_page=True)
    return FetchedPage(str(reply.url), kind, text)
