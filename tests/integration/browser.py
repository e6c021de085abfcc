"""A headless Chromium for tests of pages, driven over WebDriver by chromedriver; both are Debian's.

WebDriver is HTTP with JSON, which httpx speaks, so nothing is installed for it but the browser.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

MISSING = "Chromium and chromedriver are not there (apt-get install chromium chromium-driver)"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key under which WebDriver names an element."""

_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip

KEYS = {
    "Tab": "\ue004", "Enter": "\ue007", "Escape": "\ue00c", "End": "\ue010", "Home": "\ue011",
    "Up": "\ue013", "Down": "\ue015", "Left": "\ue012", "Right": "\ue014",
    "PageUp": "\ue00e", "PageDown": "\ue00f", "Space": " ",
}  # fmt: skip


def is_there() -> bool:
    """Whether this machine has the browser and its driver."""
    return bool(binary() and shutil.which("chromedriver"))


def binary() -> str:
    """The path of the browser; "" where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or ""


class Browser:
    """One tab. `logs` collects the messages of its console, `requests` the addresses that it asked for."""

    def __init__(self, client: httpx.Client, session: str) -> None:
        self._client, self._session = client, session

    def send(self, method: str, path: str, **body: Any) -> Any:
        """The value of a WebDriver command; raises AssertionError with what the driver says."""
        content = json.dumps(body) if method == "POST" else None
        reply = self._client.request(method, f"/session/{self._session}{path}", content=content)
        value = reply.json()["value"]
        assert reply.is_success, f"{path}: {value.get('message', value)}"
        return value

    def open(self, page: Path, link: str = "") -> None:
        """Open a file, with what `link` names in it, and wait until it is loaded."""
        address = page.absolute().as_uri()
        self.send("POST", "/url", url=address + link)
        # The driver may answer while a large page is still read.
        opened = f"location.href.split('#')[0] === {json.dumps(address)}"
        self.wait(f"{opened} && document.readyState === 'complete'")

    def run(self, script: str, *arguments: Any) -> Any:
        """What `script`, a function body, returns."""
        return self.send("POST", "/execute/sync", script=script, args=list(arguments))

    def run_async(self, script: str, *arguments: Any) -> Any:
        """What `script` gives to its last argument, a function."""
        return self.send("POST", "/execute/async", script=script, args=list(arguments))

    def devtools(self, command: str, **params: Any) -> Any:
        """The result of a command of the DevTools protocol."""
        return self.send("POST", "/goog/cdp/execute", cmd=command, params=params)

    def see(self, *, theme: str = "light", width: int = 1280, height: int = 900) -> None:
        """Show the page in a `theme` and a window of that size."""
        self.devtools(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}]
        )
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def click(self, selector: str) -> None:
        """Click the first element that `selector` names, scrolled into view, and wait for what follows."""
        element = self.send("POST", "/element", using="css selector", value=selector)[ELEMENT]
        self.send("POST", f"/element/{element}/click")
        self.settle()

    def press(self, *keys: str) -> None:
        """Press keys one after another, each a name of `KEYS` or a character; wait for what follows."""
        actions = [
            {"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")
        ]
        self.send("POST", "/actions", actions=[{"type": "key", "id": "keyboard", "actions": actions}])
        self.settle()

    def settle(self) -> None:
        """Wait until the page has run what it queued: events as a dialog's close are tasks of their own."""
        self.run_async(
            "const end = arguments[0];"
            "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => setTimeout(end))))"
        )

    def wait(self, condition: str, seconds: float = 10.0) -> Any:
        """Wait until the expression `condition` is true, and give its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(f"return {condition}")):
            assert time.monotonic() < end, f"never true: {condition}"
            time.sleep(0.02)
        return value

    def console(self) -> list[str]:
        """The messages of the console since the last look."""
        return [entry["message"] for entry in self.send("POST", "/se/log", type="browser")]

    def requests(self) -> list[str]:
        """The addresses asked for since the last look; data: addresses, which are no requests, left out."""
        entries = (json.loads(entry["message"]) for entry in self.send("POST", "/se/log", type="performance"))
        sent = (entry["message"] for entry in entries)
        urls = [
            one["params"]["request"]["url"] for one in sent if one["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in urls if not url.startswith("data:")]


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with an empty profile. It is ended at exit, also when it does not answer any more."""
    command = [str(shutil.which("chromedriver")), "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as driver:
        process = 0
        try:
            assert driver.stdout is not None
            port = next(match for line in driver.stdout if (match := re.search(r"on port (\d+)\.", line)))[1]
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
                reply = client.post(
                    "/session", json={"capabilities": {"alwaysMatch": _capabilities()}}
                ).json()
                assert "sessionId" in reply["value"], reply["value"]
                process = reply["value"]["capabilities"]["goog:processID"]
                opened = Browser(client, reply["value"]["sessionId"])
                yield opened
                opened.send("DELETE", "")
        finally:
            if process:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            driver.kill()


def _capabilities() -> Mapping[str, Any]:
    return {
        "browserName": "chrome",
        "goog:chromeOptions": {"binary": binary(), "args": list(_FLAGS)},
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }
