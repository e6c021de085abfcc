"""Embedders: texts to vectors, chosen by the name in a recipe.

The default is all-MiniLM-L6-v2 on onnxruntime, without torch. Any folder with `model.onnx` and
`tokenizer.json` works the same way. Other names are ids of sentence-transformers models, where that
library is installed. An embedder of another package is written KIND or KIND:MODEL.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ragc.core import extras
from ragc.core.marks import Keys, Mark, RequestedAccess, Resolve
from ragc.core.plugins import Registry
from ragc.core.progress import Progress
from ragc.corpora.embed.base import ALIASES, DEFAULT, Embedder, EmbedderKind

_IN = "ragc.corpora.embed.local"

EMBEDDERS = Registry(
    "ragc.embedders",
    "embedder",
    EmbedderKind,
    {
        "minilm": (f"{_IN}:MINILM_KIND", "all-MiniLM-L6-v2 on onnxruntime, the default (extra `dense`)"),
        "onnx": (f"{_IN}:ONNX_KIND", "a folder with model.onnx and tokenizer.json (extra `dense`)"),
        "sentence-transformers": (
            f"{_IN}:TRANSFORMERS_KIND",
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
    record, model = _record(name)
    return record.build(model, progress)


def _record(name: str) -> tuple[EmbedderKind, str]:
    """Returns the record of the embedder called `name`, and its model."""
    kind, _, model = name.partition(":")
    if _is_added(kind):
        return EMBEDDERS.get(kind), model.strip()
    full = ALIASES.get(name, name)
    return next(record for record in map(EMBEDDERS.get, EMBEDDERS) if record.takes(full)), full


def _is_added(kind: str) -> bool:
    """Returns whether another package adds the embedder `kind`; nothing is imported."""
    return kind not in EMBEDDERS and kind not in ALIASES and EMBEDDERS.is_known(kind)


class EmbedderMark(Mark):
    """For an option that names an embedder; "" is the default. `checked` modules are checked elsewhere."""

    def __init__(self, checked: tuple[str, ...] = ()) -> None:
        self._checked = checked

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields the model that is read, and another package's code that is run."""
        kind, _, model = str(value).partition(":")
        if _is_added(kind):
            yield RequestedAccess("runs", keys, value, "imports the package that adds this embedder")
            if model:
                yield RequestedAccess("reads", keys, value, "a model", path=model.strip(), model="any")
        else:
            own = value in (DEFAULT, *ALIASES, *ALIASES.values())
            yield RequestedAccess(
                "reads", keys, value, "a model", path=str(value), model="onnx", own_weights=own
            )

    def lacking(self, who: str, value: Any, resolve: Resolve) -> Iterator[str]:
        """Yields the libraries that the model needs and that are not installed."""
        name = str(value) or DEFAULT
        if not _is_added(name.partition(":")[0]) and not resolve(ALIASES.get(name, name)).is_dir():
            modules = [module for module in _record(name)[0].modules if module not in self._checked]
            yield from extras.lacking(f"The embedder {name!r}" if value else who, modules)


EMBEDDER = EmbedderMark(extras.EXTRAS["dense"])
