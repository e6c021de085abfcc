"""Where pip would find a wheel: the index, certificates and proxy of pip's own configuration.

Nothing here names a host but PyPI's public default, so whoever has set up pip for a mirror has set
this up too. Credentials in an index address are sent and never shown.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import ssl
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

import httpx

PUBLIC_INDEX = "https://pypi.org/simple"
_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_SECTIONS = (":env:", "download", "install", "global")
_UV = {"index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"), "find-links": ("UV_FIND_LINKS",)}


class Link(NamedTuple):
    """A file on an index; `sha256` is empty when the index does not say."""

    url: str
    sha256: str


@dataclass(frozen=True, slots=True)
class PipSettings:
    """What of pip's configuration decides where a wheel comes from.

    `indexes` are tried in order and empty under `no-index`; `folders` are the local ones of
    `find-links`.
    """

    indexes: tuple[str, ...] = (PUBLIC_INDEX,)
    folders: tuple[Path, ...] = ()
    cert: str = ""
    proxy: str = ""
    timeout_s: float = field(default=30.0)

    def client(self) -> httpx.Client:
        """A client with pip's certificates and proxy; the environment's where pip says nothing."""
        verify = ssl.create_default_context(cafile=self.cert) if Path(self.cert).is_file() else True
        return httpx.Client(
            verify=verify, proxy=self.proxy or None, timeout=self.timeout_s, follow_redirects=True
        )


def pip_settings(environ: Mapping[str, str] = os.environ) -> PipSettings:
    """Pip's settings: its configuration files where pip is installed, and `environ` over them."""
    said = {} if environ is not os.environ else _pip_config()
    for name, given in environ.items():
        if name.startswith("PIP_") and given:
            said[f":env:.{name[4:].lower().replace('_', '-')}"] = given

    def setting(name: str) -> str:
        for section in _SECTIONS:
            if value := said.get(f"{section}.{name}", ""):
                return value
        return next((environ[uv] for uv in _UV.get(name, ()) if environ.get(uv)), "")

    indexes = [setting("index-url") or PUBLIC_INDEX, *setting("extra-index-url").split()]
    if setting("no-index").lower() in ("1", "true", "yes", "on"):
        indexes = []
    timeout = setting("timeout") or setting("default-timeout")
    return PipSettings(
        indexes=tuple(i.rstrip("/") for i in indexes if urlsplit(i).scheme in ("http", "https")),
        folders=tuple(_folder(place) for place in setting("find-links").split() if "http" not in place[:5]),
        cert=setting("cert"),
        proxy=setting("proxy"),
        timeout_s=float(timeout) if timeout.replace(".", "", 1).isdigit() else 30.0,
    )


def has_pip() -> bool:
    """Whether this Python can run pip; the Pythons that uv makes cannot."""
    return importlib.util.find_spec("pip") is not None


def find_wheel(client: httpx.Client, index: str, project: str, filename: str) -> Link:
    """Where `index` (PEP 691, else PEP 503) keeps `filename` of `project`.

    Raises httpx.HTTPError, LookupError when the index does not list the file, and ValueError when its
    page cannot be read.
    """
    page = client.get(f"{index}/{project}/", headers={"Accept": _ACCEPT})
    page.raise_for_status()
    if "json" in page.headers.get("content-type", ""):
        files = page.json().get("files", [])
        links = {f["filename"]: Link(f["url"], (f.get("hashes") or {}).get("sha256", "")) for f in files}
    else:
        parser = _Anchors()
        parser.feed(page.text)
        links = dict(_named(href) for href in parser.hrefs)
    if filename not in links:
        raise LookupError(f"the index lists {len(links)} files of {project} and not {filename}")
    link = links[filename]
    return Link(urljoin(str(page.url), link.url), link.sha256)


def _named(href: str) -> tuple[str, Link]:
    bare, _, fragment = href.partition("#")
    name = unquote(urlsplit(bare).path.rsplit("/", 1)[-1])
    return name, Link(bare, fragment.removeprefix("sha256=") if fragment.startswith("sha256=") else "")


def _folder(place: str) -> Path:
    return Path(unquote(urlsplit(place).path) if place.startswith("file:") else place).expanduser()


def _pip_config() -> dict[str, str]:
    if not has_pip():
        return {}
    command = [sys.executable, "-m", "pip", "config", "list"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found: dict[str, str] = {}
    for line in listed.splitlines():
        name, equals, value = line.partition("=")
        try:
            found[name] = str(ast.literal_eval(value)) if equals else ""
        except (SyntaxError, ValueError):
            continue
    return found


class _Anchors(HTMLParser):
    """Collects the targets of a page's links."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what an anchor leads to."""
        if tag == "a":
            self.hrefs.extend(value for name, value in attrs if name == "href" and value)
