"""dotprompt as its Python package and its npm package render it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ragc.targets.base import Message

Render = Callable[[bytes, Mapping[str, Any]], list[tuple[str, str]]]

DOTPROMPTZ = "the consumer of the format: pip install dotpromptz==0.2.0"
NODE = r"""
const { Dotprompt } = require('dotprompt');
const lines = require('readline').createInterface({ input: process.stdin });
(async () => {
  for await (const line of lines) {
    const { source, input } = JSON.parse(line);
    const done = await new Dotprompt().render(source, { input });
    console.log(JSON.stringify(done.messages));
  }
})();
"""


def in_python() -> Render:
    """How `dotpromptz` renders a file."""
    pytest.importorskip("dotpromptz", reason=DOTPROMPTZ)
    from dotpromptz.dotprompt import Dotprompt
    from dotpromptz.typing import DataArgument

    def rendered(file: bytes, inputs: Mapping[str, Any]) -> list[tuple[str, str]]:
        data = DataArgument(input=dict(inputs))
        rendering: Any = asyncio.run(Dotprompt().render(file.decode(), data))
        return [(m.role.value, "".join(part.text for part in m.content)) for m in rendering.messages]

    return rendered


def in_node() -> subprocess.Popen[str]:
    """A process that renders with the npm package: a JSON line in, a JSON line out."""
    node, modules = shutil.which("node"), os.environ.get("RAGC_NODE_MODULES")
    if node is None or modules is None:
        pytest.skip(
            "needs node, and RAGC_NODE_MODULES: the node_modules where `npm install dotprompt@1.1.2` was run"
        )
    if not (Path(modules) / "dotprompt").is_dir():
        pytest.skip(f"RAGC_NODE_MODULES is {modules}, where dotprompt is not installed")
    return subprocess.Popen(
        [node, "-e", NODE],
        env={**os.environ, "NODE_PATH": modules},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def render_by_process(
    process: subprocess.Popen[str], file: bytes, inputs: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """The messages that the process of `in_node` makes of a file."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(json.dumps({"source": file.decode(), "input": inputs}), file=process.stdin, flush=True)
    messages = json.loads(process.stdout.readline())
    return [(m["role"], "".join(part["text"] for part in m["content"])) for m in messages]


def spoken(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """`messages` with the roles of dotprompt."""
    return [("model" if m.role == "assistant" else m.role, m.content) for m in messages]
