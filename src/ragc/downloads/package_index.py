"""Finds wheels as pip would: with the index, certificates and proxy of pip's configuration.

The only host named here is PyPI's public default, so pip's settings for a mirror apply too. Credentials in an
index address are sent and never shown. Index pages are untrusted: an invalid or oversized one ends in a
one-sentence error.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import os
import ssl
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

import httpx

PUBLIC_INDEX = "https://pypi.org/simple"

MAX_PAGE_BYTES = 32 * 2**20
"""Maximum bytes of an index page; the largest of PyPI have a tenth."""

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_SECTIONS = (":env:", "download", "install", "global")
_UV = {"index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"), "find-links": ("UV_FIND_LINKS",)}


class Link(NamedTuple):
    """A file on an index; `sha256` is empty when the index does not state it."""

    url: str
    sha256: str


@dataclass(frozen=True, slots=True)
class PipSettings:
    """The part of pip's configuration that decides where a wheel comes from.

    `indexes` are addresses, `http:`, `https:` or `file:`, tried in order, and empty under `no-index`;
    `folders` are the local ones of `find-links`. `timeout_s` applies to each read from a server.
    """

    indexes: tuple[str, ...] = (PUBLIC_INDEX,)
    folders: tuple[Path, ...] = ()
    cert: str = ""
    proxy: str = ""
    timeout_s: float = field(default=30.0)

    def client(self) -> httpx.Client:
        """Returns a client with pip's certificates and proxy, or those of the environment if pip sets none.

        It follows no redirect from https to anything else. Raises ValueError for an unusable proxy or
        certificates.
        """
        try:
            verify = ssl.create_default_context(cafile=self.cert) if Path(self.cert).is_file() else True
        except OSError as error:
            raise ValueError(f"pip's certificates, {self.cert}, cannot be read: {error}") from error
        return httpx.Client(
            verify=verify,
            proxy=self.proxy or None,
            timeout=self.timeout_s,
            follow_redirects=True,
            event_hooks={"response": [_refuse_downgrade]},
        )


def pip_settings(environ: Mapping[str, str] = os.environ) -> PipSettings:
    """Returns Pip's settings: its configuration files if pip is installed, overridden by `environ`."""
    settings = {} if environ is not os.environ else _pip_config()
    for name, text in environ.items():
        if name.startswith("PIP_") and text:
            settings[f":env:.{name[4:].lower().replace('_', '-')}"] = text

    def setting(name: str) -> str:
        for section in _SECTIONS:
            if value := settings.get(f"{section}.{name}", ""):
                return value
        return next((environ[uv] for uv in _UV.get(name, ()) if environ.get(uv)), "")

    indexes = [setting("index-url") or PUBLIC_INDEX, *setting("extra-index-url").split()]
    if setting("no-index").lower() in ("1", "true", "yes", "on"):
        indexes = []
    proxy = setting("proxy")
    return PipSettings(
        indexes=tuple(i.rstrip("/") for i in indexes if _scheme(i) in ("http", "https", "file")),
        folders=tuple(
            _folder(address)
            for address in setting("find-links").split()
            if _scheme(address) not in ("http", "https")
        ),
        cert=setting("cert"),
        proxy=f"http://{proxy}" if proxy and "://" not in proxy else proxy,
        timeout_s=_seconds(setting("timeout") or setting("default-timeout")),
    )


def has_pip() -> bool:
    """Returns whether this Python can run pip; Pythons created by uv cannot."""
    return importlib.util.find_spec("pip") is not None


def find_wheel(
    client: httpx.Client,
    index: str,
    project: str,
    filename: str,
    extensions: Mapping[str, Any] | None = None,
) -> Link:
    """Returns the link to `filename` of `project` on `index`.

    Raises what `list_files` raises; LookupError without the file.
    """
    links = list_files(client, index, project, extensions)
    if filename not in links:
        raise LookupError(f"the index lists {len(links)} files of {project} and not {filename}")
    return links[filename]


def list_files(
    client: httpx.Client, index: str, project: str, extensions: Mapping[str, Any] | None = None
) -> dict[str, Link]:
    """Returns the files of `project` by name on `index` (PEP 691, else PEP 503, or a folder of such pages).

    `extensions` are those of the request. Raises httpx.HTTPError, LookupError when the index does not know
    the project, and ValueError when its page is too large or unreadable.
    """
    if _scheme(index) == "file":
        page = _folder(index) / project / "index.html"
        if not page.is_file():
            raise LookupError(f"there is no {page}")
        if page.stat().st_size > MAX_PAGE_BYTES:
            raise ValueError(_too_large(project))
        return _links(_html_links(page.read_bytes()), page.as_uri())
    headers, more = {"Accept": _ACCEPT}, dict(extensions or {})
    with client.stream("GET", f"{index}/{project}/", headers=headers, extensions=more) as answer:
        answer.raise_for_status()
        body = bytearray()
        for block in answer.iter_bytes():
            body += block
            if len(body) > MAX_PAGE_BYTES:
                raise ValueError(_too_large(project))
        as_json = "json" in answer.headers.get("content-type", "")
        return _links(_json_links(bytes(body)) if as_json else _html_links(bytes(body)), str(answer.url))


def _links(listed: Mapping[str, Link], base: str) -> dict[str, Link]:
    """Returns `listed` with absolute addresses; only those with the scheme of `base` or https."""
    links: dict[str, Link] = {}
    for name, link in listed.items():
        try:
            url = urljoin(base, link.url)
        except ValueError:
            continue
        if _scheme(url) == _scheme(base) or (_scheme(base), _scheme(url)) == ("http", "https"):
            links[name] = Link(url, link.sha256)
    return links


def _json_links(body: bytes) -> dict[str, Link]:
    """Returns the files of a JSON page; invalid items are skipped."""
    try:
        page: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        why = (
            "it is nested too deep"
            if isinstance(error, RecursionError)
            else " ".join(str(error).split())[:100]
        )
        raise ValueError(f"the index's answer is no JSON: {why}") from error
    files = page.get("files") if isinstance(page, dict) else None
    if not isinstance(files, list):
        raise ValueError("the index's answer is JSON without a list of `files`")
    links: dict[str, Link] = {}
    for item in files:
        name, url = (item.get("filename"), item.get("url")) if isinstance(item, dict) else (None, None)
        if isinstance(name, str) and isinstance(url, str):
            hashes = item.get("hashes")
            sha256 = hashes.get("sha256") if isinstance(hashes, dict) else ""
            links[name] = Link(url, sha256.lower() if isinstance(sha256, str) else "")
    return links


def _html_links(body: bytes) -> dict[str, Link]:
    parser = _Anchors()
    try:
        parser.feed(body.decode("utf-8", "replace"))
    except (AssertionError, RecursionError) as error:
        raise ValueError("the index's page cannot be read as HTML") from error
    links: dict[str, Link] = {}
    for href in parser.hrefs:
        try:
            name, link = _parse_href(href)
        except ValueError:
            continue
        links[name] = link
    return links


def _parse_href(href: str) -> tuple[str, Link]:
    bare, _, fragment = href.partition("#")
    name = unquote(urlsplit(bare).path.rsplit("/", 1)[-1])
    return name, Link(bare, fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else "")


def _refuse_downgrade(answer: httpx.Response) -> None:
    """Raises ValueError for a redirect to another scheme, except from http to https."""
    if not answer.has_redirect_location:
        return
    before, after = answer.url.scheme, _scheme(urljoin(str(answer.url), answer.headers["location"]))
    if after != before and (before, after) != ("http", "https"):
        raise ValueError(
            f"the server redirects from {before} to {after or 'no address'}, which is not followed"
        )


def _too_large(project: str) -> str:
    return f"the index's page of {project} has more than {MAX_PAGE_BYTES >> 20} MiB"


def _scheme(address: str) -> str:
    """Returns the scheme of `address`; "" without one, or for an unreadable address."""
    try:
        return urlsplit(address).scheme
    except ValueError:
        return ""


def _seconds(text: str) -> float:
    """Returns Pip's timeout in seconds; 30 where the setting is absent or invalid."""
    try:
        value = float(text)
    except ValueError:
        return 30.0
    return value if 0 < value < math.inf else 30.0


def _folder(address: str) -> Path:
    path = unquote(urlsplit(address).path) if _scheme(address) == "file" else address
    return Path(path).expanduser()


def _pip_config() -> dict[str, str]:
    if not has_pip():
        return {}
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    settings: dict[str, str] = {}
    for line in listed.splitlines():
        name, equals, value = line.partition("=")
        try:
            settings[name] = str(ast.literal_eval(value)) if equals else ""
        except (SyntaxError, ValueError):
            continue
    return settings


class _Anchors(HTMLParser):
    """Collects the link targets of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects the target of an anchor."""
        if tag == "a":
            self.hrefs.extend(value for name, value in attrs if name == "href" and value)
