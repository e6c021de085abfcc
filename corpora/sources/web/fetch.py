"""Fetches a web page from an untrusted URL: only public internet addresses are contacted.

A URL, and every URL that it redirects to, must be http or https and without a password. Its host is resolved
once and all its addresses are checked (`resolve_public`). The connection goes to a checked address, so that a
second resolution cannot lead elsewhere. Only globally reachable addresses are allowed. Certificates are
checked against the host's name. Proxies and other environment settings are ignored.
"""

from __future__ import annotations

import asyncio
import codecs
import ipaddress
import re
import socket
from dataclasses import dataclass

import httpx

from ragc.core.extras import __version__
from ragc.errors import SourceError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_COMPATIBLE = ipaddress.IPv6Network("::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)
"""The bits before the IPv4 address in an interface identifier of ISATAP (RFC 5214)."""

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
    "2001::/23": "of IETF protocols",
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

_REFUSED = tuple((ipaddress.ip_network(block), why) for block, why in _NOT_GLOBAL.items())


async def resolve_public(host: str, port: int, *, allow_loopback: bool = False) -> tuple[str, ...]:
    """Returns the addresses of `host`, in the resolver's order, each checked to be public.

    One private, loopback, link-local, shared, reserved, multicast or unspecified address refuses the host, as
    does an IPv6 address that embeds such an IPv4 address. `allow_loopback` permits addresses of this machine.
    Raises SourceError if the host has no address or one that is not public.
    """
    loop = asyncio.get_running_loop()
    try:
        address_infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise SourceError(
            f"The host {host!r} has no address ({error}); check its name and the network."
        ) from error
    names = tuple(dict.fromkeys(str(info[4][0]) for info in address_infos))
    if not names:
        raise SourceError(f"The host {host!r} has no address; check its name and the network.")
    for name in names:
        if why := why_unreachable(name, allow_loopback=allow_loopback):
            raise SourceError(
                f"The host {host!r} has the address {name}, which is {why}; only addresses that are open to "
                "the whole internet are reached."
            )
    return names


def why_unreachable(name: str, *, allow_loopback: bool = False) -> str:
    """Returns the reason why the address `name` is not allowed, in a few words; "" if it is."""
    try:
        addresses = reachable_addresses(ipaddress.ip_address(name))
    except ValueError:
        return "no address that can be checked"
    return next((why for address in addresses if (why := _unfit(address, allow_loopback))), "")


def _unfit(address: Address, allow_loopback: bool) -> str:
    if address.is_loopback and allow_loopback:
        return ""
    for block, why in _REFUSED:
        if address.version == block.version and address in block:
            return why
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_UNICAST:
        return "not given out"
    return "" if address.is_global else "private or not global"


def reachable_addresses(address: Address) -> tuple[Address, ...]:
    """Returns the addresses that a packet to `address` may reach: itself, or the IPv4 address embedded in it.

    Mapped, compatible, NAT64, 6to4 and Teredo addresses stand for the embedded ones. An ISATAP address is
    checked itself, with the IPv4 address in it.
    """
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    plain = ipaddress.IPv6Address(int(address))  # without its zone
    number = int(plain)
    last = ipaddress.IPv4Address(number & 0xFFFFFFFF)
    if plain.ipv4_mapped is not None:
        return (plain.ipv4_mapped,)
    if plain.sixtofour is not None:
        return (plain.sixtofour,)
    if plain.teredo is not None:
        return plain.teredo
    if plain in _NAT64 or (plain in _COMPATIBLE and number > 1):
        return (last,)
    return (plain, last) if (number >> 32) & 0xFFFFFFFF in _ISATAP else (plain,)


MAX_BYTES = 5_000_000
"""The most bytes of an unpacked page."""

SECONDS = 15.0
"""The most wall-clock seconds for a page, redirects included."""

REDIRECTS = 5
"""The most redirects that are followed."""

HTML_TYPES = ("text/html", "application/xhtml+xml")
CONTENT_TYPES = (*HTML_TYPES, "text/plain", "text/markdown")
"""Media types of pages that can be read."""

MAX_URL_CHARS = 4096

# Python codecs that are no page encodings; some are slow on crafted input.
_NO_CHARSETS = frozenset({"idna", "punycode", "raw_unicode_escape", "unicode_escape", "undefined", "utf_7"})
_PACKED = ("", "identity", "gzip", "deflate")
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?([\w-]{1,40})""", re.IGNORECASE)
_HEADERS = {
    "User-Agent": f"ragc/{__version__}",
    "Accept": ", ".join(CONTENT_TYPES),
    "Accept-Encoding": "gzip, deflate",
}


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A fetched page: its URL after redirects, its media type, and its decoded text."""

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
) -> FetchedPage:
    """Fetches the page at `url` with a GET request and at most `REDIRECTS` redirects.

    `seconds` of wall clock and `max_bytes` of unpacked content bound it; `content_types` are the accepted
    media types. `allow_loopback` permits servers on this machine, for tests, but no other private address.
    Raises SourceError with what was refused or failed.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _follow_redirects(url, max_bytes, content_types, allow_loopback)
    except TimeoutError as error:
        raise SourceError(f"{_redact_url(url)} did not answer in full within {seconds:g} s.") from error
    except (ValueError, OSError) as error:  # errors of httpx's own libraries for odd URLs or replies
        raise _fetch_error(url, error) from error


def check_url(url: str) -> httpx.URL:
    """Returns the parsed `url`. Raises SourceError unless it is http or https with a host and no password."""
    if len(url) > MAX_URL_CHARS:
        raise SourceError(f"{_redact_url(url)} has {len(url)} characters; {MAX_URL_CHARS} at most are taken.")
    try:
        parsed = httpx.URL(url)
        host, port = parsed.host, parsed.port  # a host in Punycode is only read here
    except (httpx.InvalidURL, ValueError) as error:  # of ValueError: UnicodeError, and idna's own
        raise SourceError(f"{_redact_url(url)} is no URL ({error}).") from error
    if port is not None and not 0 < port < 65_536:
        raise SourceError(f"{_redact_url(url)} names port {port}; ports go from 1 to 65535.")
    if parsed.scheme not in ("http", "https"):
        raise SourceError(f"{_redact_url(url)} is neither http nor https, and nothing else is fetched.")
    if not host:
        raise SourceError(f"{_redact_url(url)} names no host.")
    if parsed.userinfo:
        raise SourceError(f"A URL of the host {host!r} holds a user name or password; leave it out.")
    return parsed.copy_with(fragment=None)


async def _follow_redirects(
    url: str, max_bytes: int, types: tuple[str, ...], allow_loopback: bool
) -> FetchedPage:
    at = check_url(url)
    for _ in range(REDIRECTS + 1):
        outcome = await _fetch_once(at, max_bytes, types, allow_loopback)
        if isinstance(outcome, FetchedPage):
            return outcome
        at = check_url(outcome)
    raise SourceError(f"{_redact_url(url)} redirects more than {REDIRECTS} times.")


async def _fetch_once(
    at: httpx.URL, max_bytes: int, types: tuple[str, ...], allow_loopback: bool
) -> FetchedPage | str:
    """Returns the page at `at`, or the URL that it redirects to."""
    port = at.port or (443 if at.scheme == "https" else 80)
    addresses = await resolve_public(at.raw_host.decode("ascii"), port, allow_loopback=allow_loopback)
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
                raise _fetch_error(at, error) from error
            try:
                return await _read(at, reply, max_bytes, types)
            except httpx.HTTPError as error:
                raise _fetch_error(at, error) from error
            finally:
                await reply.aclose()
    raise SourceError(f"{_redact_url(at)} cannot be reached ({failure}).") from failure


async def _read(
    at: httpx.URL, reply: httpx.Response, max_bytes: int, types: tuple[str, ...]
) -> FetchedPage | str:
    if reply.has_redirect_location:
        try:
            return str(at.join(reply.headers["location"]))
        except (httpx.InvalidURL, ValueError) as error:
            raise SourceError(f"{_redact_url(at)} redirects to what is no URL ({error}).") from error
    if reply.status_code != 200:
        raise SourceError(f"{_redact_url(at)} answered with status {reply.status_code}.")
    kind, _, _ = reply.headers.get("content-type", "").partition(";")
    kind = kind.strip().lower()
    if kind not in types:
        description = f"of the type {kind[:80]!r}" if kind else "of no stated type"
        raise SourceError(f"{_redact_url(at)} is {description}; taken are {', '.join(types)}.")
    packed = reply.headers.get("content-encoding", "").strip().lower()
    if packed not in _PACKED:
        raise SourceError(
            f"{_redact_url(at)} is packed as {packed[:80]!r}; gzip and deflate are unpacked, once."
        )
    body = bytearray()
    async for part in reply.aiter_bytes(65_536):
        body += part
        if len(body) > max_bytes:
            raise SourceError(f"{_redact_url(at)} is larger than {max_bytes} bytes.")
    return FetchedPage(str(at), kind, _decode(bytes(body), reply.charset_encoding))


def _decode(body: bytes, named: str | None) -> str:
    """Returns the text of `body`, by the byte-order mark, else the header, the page's charset, UTF-8, or
    Latin-1.
    """
    declared = _CHARSET.search(body, 0, 4096)
    marked = "utf-16" if body[:2] in (b"\xff\xfe", b"\xfe\xff") else None
    encodings = (marked, named, declared[1].decode("ascii", "replace") if declared else None, "utf-8-sig")
    for encoding in filter(None, encodings):
        try:
            if codecs.lookup(encoding).name.replace("-", "_") in _NO_CHARSETS:
                continue
            return body.decode(encoding).removeprefix("\ufeff")
        except (LookupError, ValueError):
            continue
    return body.decode("cp1252", "replace")


def _fetch_error(at: httpx.URL | str, error: Exception) -> SourceError:
    return SourceError(f"{_redact_url(at)} could not be fetched ({type(error).__name__}: {error}).")


def _redact_url(url: httpx.URL | str) -> str:
    """Returns a URL for a message: without password and query, at most 200 characters."""
    try:
        parsed = httpx.URL(url)
        text = f"{parsed.scheme}://{parsed.host}{parsed.path}" if parsed.host else str(url).partition("?")[0]
    except (httpx.InvalidURL, ValueError):
        text = str(url).partition("?")[0].rpartition("@")[2]
    return repr(text if len(text) <= 200 else text[:200] + "...")
