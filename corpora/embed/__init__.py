"""Embedders: texts to vectors, chosen by the name in a recipe.

The default is all-MiniLM-L6-v2 on onnxruntime, without torch. Any folder with `model.onnx` and
`tokenizer.json` works the same way. Other names are ids of sentence-transformers models, where that
library is installed. An embedder of another package is written KIND or KIND:MODEL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ragc.core.marks import Keys, Mark, RequestedAccess, Resolve
from ragc.core.plugins import Registry
from ragc.core.progress import Progress
from ragc.corpora.embed.base import ALIASES, DEFAULT, Embedder, EmbedderKind

_IN = "ragc.corpora.embed"

EMBEDDERS = Registry(
    "ragc.embedders",
    "embedder",
    EmbedderKind,
    {
        "minilm": (f"{_IN}.minilm", "all-MiniLM-L6-v2 on onnxruntime, the default (extra `dense`)"),
        "onnx": (f"{_IN}.onnx", "a folder with model.onnx and tokenizer.json (extra `dense`)"),
        "sentence-transformers": (
            f"{_IN}.sentence_transformers",
            "a model of sentence-transformers, by folder or id",
        ),
    },
)
"""The kinds of embedders; the first that takes a name is used."""


def make(name: str = DEFAULT, *, progress: Progress | None = None) -> Embedder:
    """Returns the embedder called `name`: an alias, the default, an ONNX folder, or a sentence-transformers
    model.

    `progress` is notified of the bytes of a download. Raises UsageError when the library that the model needs
    is not installed, or when `name` is a folder without what an embedder needs.
    """
    kind, _, model = name.partition(":")
    if _is_added(kind):
        return EMBEDDERS.get(kind).build(model.strip(), progress)
    full = ALIASES.get(name, name)
    record = next(record for record in map(EMBEDDERS.get, EMBEDDERS) if record.takes(full))
    return record.build(full, progress)


def lacking(name: str, resolve: Resolve) -> Iterator[str]:
    """Yields what this machine lacks for the embedder `name`, beyond the extra `dense`."""
    full = ALIASES.get(name, name)
    if name and not _is_added(name.partition(":")[0]) and not resolve(full).is_dir():
        for record in map(EMBEDDERS.get, EMBEDDERS):
            if record.takes(full):
                yield from record.lacking(full)
                return


def _is_added(kind: str) -> bool:
    """Returns whether another package adds the embedder `kind`; nothing is imported."""
    return kind not in EMBEDDERS and kind not in ALIASES and EMBEDDERS.is_known(kind)


class _EmbedderMark(Mark):
    """For an option that names an embedder."""

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields the model that is read, and another package's code that is run."""
        kind, _, model = str(value).partition(":")
        if _is_added(kind):
            yield RequestedAccess("runs", keys, value, "imports the package that adds this embedder")
            if model:
                yield RequestedAccess("reads", keys, value, "a model", path=model.strip(), model="any")
        else:
            known = value in (DEFAULT, *ALIASES, *ALIASES.values())
            yield RequestedAccess(
                "reads", keys, value, "a model", path=str(value), model="onnx", own_weights=known
            )

    def lacking(self, who: str, value: Any, resolve: Resolve) -> Iterator[str]:
        """Yields the library that the model needs and that is not installed."""
        return lacking(str(value), resolve)


EMBEDDER = _EmbedderMark()
