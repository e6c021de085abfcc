"""The target of a vLLM server that ragc starts, or that ragc started before and still runs.

`identity` identifies the model in store keys: its id, or the content of its folder, and how it is run.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sys
from pathlib import Path

from ragc.core.digest import digest
from ragc.errors import TargetUnavailable, UsageError
from ragc.targets.base import Capability, ChatRequest, Reply, Watch
from ragc.targets.prices import FREE, Price
from ragc.targets.thinking import ThinkingRoom, room_left
from ragc.targets.vllm import launcher
from ragc.targets.vllm.options import VllmOptions
from ragc.targets.vllm.target import CAPABILITIES, UNKNOWN_CONTEXT, VllmTarget

_WHOLE = 2**22
_ENDS = 2**20


def identity(model: str, options: VllmOptions) -> str:
    """Returns the store-key identity of `model`, an id or a folder; `options.identity` overrides it.

    Raises TargetUnavailable when the folder cannot be read.
    """
    folder, shaping = Path(model), [options.dtype, dict(options.flags), dict(options.sent)]
    named = f"{folder.name}@{_content(folder)}" if folder.is_dir() else model
    return options.identity or f"{named}#{digest(shaping)[:12]}"


def _content(folder: Path) -> str:
    """Returns a digest of the files in `folder`: small ones whole, large ones by size and both ends."""
    try:
        contents = {file.name: _ends(file) for file in sorted(folder.iterdir()) if file.is_file()}
    except OSError as error:
        raise TargetUnavailable(
            f"The model in {folder} cannot be read ({error.strerror or error})."
        ) from error
    return digest(contents)[:16]


def _ends(file: Path) -> list[str | int]:
    size = file.stat().st_size
    with file.open("rb") as data:
        read = data.read(_WHOLE if size <= _WHOLE else _ENDS)
        if size > _WHOLE:
            data.seek(size - _ENDS)
            read += data.read()
    return [size, hashlib.sha256(read).hexdigest()]


class ManagedTarget(ThinkingRoom):
    """Sends requests for `model`, an id or a folder, to a server that `open` starts or finds.

    Targets with the same settings share one server, within this process and across processes. Capabilities
    and context are the server's once it is open. The identity covers what affects replies, not the address.
    """

    def __init__(self, model: str, options: VllmOptions) -> None:
        if not model:
            raise UsageError("A vllm target with serve = true needs a model: an id or the path of a folder.")
        python = options.python or sys.executable
        if shutil.which(python) is None:
            raise UsageError(f"No Python is at {python!r}, named by the option python of a vllm target.")
        self.model = str(Path(model)) if Path(model).is_dir() else model
        self.options = options
        self.name = f"vllm {Path(self.model).name}"
        self.serving = launcher.Serving(
            python, self.model, options.dtype, options.context_tokens, dict(options.flags)
        )
        self.capabilities: frozenset[Capability] = options.correct(CAPABILITIES)
        self.whole_context = options.context_tokens
        self.concurrency = options.concurrency
        self._inner: VllmTarget | None = None
        self._opening: asyncio.Task[VllmTarget] | None = None
        self._plain_identity = ""

    def __deepcopy__(self, memo: object) -> ManagedTarget:
        return self

    def __repr__(self) -> str:
        return f"ServedTarget({self.model!r})"

    @property
    def plain_identity(self) -> str:
        """The identity without the tokens for thoughts."""
        if not self._plain_identity:
            self._plain_identity = identity(self.model, self.options)
        return self._plain_identity

    @property
    def context_tokens(self) -> int:
        """The context size in tokens, without those for thoughts; a guess until the server is open."""
        return room_left(self, UNKNOWN_CONTEXT)

    async def open(self, progress: Watch | None = None) -> None:
        """Starts or finds the server, waits until it is healthy, and checks that it has the model.

        Raises TargetError with vLLM's own last error when it exits, TargetUnavailable when it takes longer
        than the option `start_s`.
        """
        if self._inner is not None:
            return
        if self._opening is None or self._opening.done():
            self._opening = asyncio.ensure_future(self._open_inner())
        await self._opening

    async def _open_inner(self) -> VllmTarget:
        address = await launcher.acquire(self.serving, self.options.start_s)
        # The room is in the identity and in each request already.
        own = {"identity": self.identity, "thinking_tokens": 0}
        options = self.options.model_copy(update=own)
        inner = VllmTarget(address, self.model, options)
        try:
            await inner.open()
        except BaseException:
            await inner.aclose()
            launcher.release(self.serving)
            raise
        self.capabilities, self.whole_context = inner.capabilities, inner.whole_context
        self._inner = inner
        return inner

    async def complete(self, request: ChatRequest) -> Reply:
        """Returns the reply to `request`; opens the target first if needed.

        If the server belonged to another process that has ended, the request is sent once more, to a server
        found or started again. Raises TargetError with vLLM's last error when a server of this process
        exited.
        """
        inner = await self._ready()
        try:
            return await inner.complete(request)
        except TargetUnavailable:
            if await launcher.is_alive(self.serving):
                raise
        await self._release(inner)
        return await (await self._ready()).complete(request)

    async def _ready(self) -> VllmTarget:
        await self.open()
        if self._inner is None:
            raise TargetUnavailable(f"{self.name} was closed while a request was on its way; try again.")
        return self._inner

    def table_price(self) -> Price:
        """Returns a price of 0: a server of the user's own is free unless it is priced."""
        return FREE

    def count_tokens(self, text: str) -> int:
        """Returns a quarter of the characters, rounded up; the tokenizer is on the server."""
        return (len(text) + 3) // 4

    async def aclose(self) -> None:
        """Closes the connections; the last user in this process stops a server that this process started."""
        if self._inner is not None:
            await self._release(self._inner)

    async def _release(self, inner: VllmTarget) -> None:
        """Releases `inner` and its server, once."""
        if self._inner is inner:
            self._inner = None
            await inner.aclose()
            await asyncio.to_thread(launcher.release, self.serving)
