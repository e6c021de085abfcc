"""Embedders: texts to unit vectors, chosen by the name in a recipe.

text ──► prefix of the model ──► tokens ──► model ──► pooling ──► length 1

The default is all-MiniLM-L6-v2 on onnxruntime, without torch. Any folder with `model.onnx` and
`tokenizer.json` works the same way. Other names are ids of sentence-transformers models, where that
library is installed. An embedder of another package is written KIND or KIND:MODEL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

from ragc.core.marks import Keys, Mark, RequestedAccess, Resolve
from ragc.core.plugins import Registry
from ragc.core.progress import Progress
from ragc.errors import UsageError
from ragc.records import Passage

if TYPE_CHECKING:
    import numpy as np

Vectors: TypeAlias = "np.ndarray[Any, np.dtype[np.float32]]"
DEFAULT = "all-MiniLM-L6-v2"


class Embedder(Protocol):
    """Texts to vectors whose inner product is their similarity, -1 to 1.

    `fingerprint` identifies weights and settings: equal fingerprints give equal vectors, up to the last
    bits of a float between machines. Making an embedder loads no model; its first use does.
    """

    model: str
    fingerprint: str
    query_prefix: str
    passage_prefix: str

    @property
    def dimensions(self) -> int:
        """The length of a vector. Raises SourceError when the model cannot be loaded."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Returns `texts` as they are, without a prefix: float32 of shape (len(texts), dimensions), rows of
        length 1.

        Safe to call from several threads. Raises SourceError when the model cannot be loaded or run.
        """
        ...


@dataclass(frozen=True, slots=True)
class EmbedderKind:
    """The record of a kind of embedder.

    `build` makes the embedder of a model, loading nothing, and raises UsageError where it cannot; `takes`
    says whether a name without a kind is one of its models.
    """

    id: str
    build: Callable[[str, Progress | None], Embedder]
    takes: Callable[[str], bool] = lambda model: False


class Traits(NamedTuple):
    """What a family of models was trained with: prefixes and pooling."""

    query_prefix: str = ""
    passage_prefix: str = ""
    pooling: Literal["mean_tokens", "cls_token"] = "mean_tokens"


_SEARCHING = "Represent this sentence for searching relevant passages: "

# The first pattern found in the model's id, in lower case and without its owner, decides.
_FAMILIES = {
    r"^bge-.*-zh": Traits("为这个句子生成表示以用于检索相关文章：", "", "cls_token"),
    r"^bge-.*-en|^bge-(small|base|large|micro)": Traits(_SEARCHING, "", "cls_token"),
    r"^bge-m3": Traits("", "", "cls_token"),
    r"arctic-embed|^mxbai-embed": Traits(_SEARCHING, "", "cls_token"),
    r"^(multilingual-)?e5-.*instruct": Traits(),  # the user writes their instruction
    r"^(multilingual-)?e5-": Traits("query: ", "passage: "),
    r"^nomic-embed": Traits("search_query: ", "search_document: "),
}

ALIASES = {
    "minilm": DEFAULT,
    "bge-small": "BAAI/bge-small-en-v1.5",
    "bge-base": "BAAI/bge-base-en-v1.5",
    "bge-large": "BAAI/bge-large-en-v1.5",
    "bge-m3": "BAAI/bge-m3",
    "e5-small": "intfloat/e5-small-v2",
    "e5-base": "intfloat/e5-base-v2",
    "e5-large": "intfloat/e5-large-v2",
}
"""Short names of models."""


def traits(model: str) -> Traits:
    """Returns the prefixes and pooling of `model`; no prefix and mean pooling for an unknown family."""
    name = model.rstrip("/").rsplit("/", 1)[-1].lower()
    return next((family for pattern, family in _FAMILIES.items() if re.search(pattern, name)), Traits())


def passage_text(passage: Passage) -> str:
    """Returns the embedded text of a passage: its title, if any, on a line before its text."""
    return f"{passage.title}\n{passage.text}" if passage.title.strip() else passage.text


_IN = "ragc.corpora.models"

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
    added, model = split(name)
    kind = added or next(kind for kind in EMBEDDERS if EMBEDDERS.get(kind).takes(model))
    return EMBEDDERS.get(kind).build(model, progress)


def split(name: str) -> tuple[str, str]:
    """Returns the kind and the model of the embedder called `name`; "" for the kinds of ragc.

    No file is looked at, and no package that adds an embedder is imported.
    """
    kind, _, model = name.partition(":")
    if kind not in EMBEDDERS and kind not in ALIASES and EMBEDDERS.is_known(kind):
        return kind, model.strip()
    return "", ALIASES.get(name, name)


class _EmbedderMark(Mark):
    """For the option of a dense source that names an embedder; "" is the default."""

    def accesses(self, keys: Keys, value: Any) -> Iterator[RequestedAccess]:
        """Yields the model that is read, and another package's code that is run."""
        kind, model = split(str(value))
        if kind:
            yield RequestedAccess("runs", keys, value, "imports the package that adds this embedder")
            if model:
                yield RequestedAccess("reads", keys, value, "a model", path=model, model="any")
        else:
            is_named_by_ragc = value in (DEFAULT, *ALIASES, *ALIASES.values())
            yield RequestedAccess(
                "reads", keys, value, "a model", is_named_by_ragc, path=str(value), model="onnx"
            )

    def lacking(self, who: str, value: Any, resolve: Resolve) -> Iterator[str]:
        """Yields why the embedder cannot be made: a missing library, or a file that its folder lacks."""
        name = str(value) or DEFAULT
        try:
            make(str(resolve(name)) if resolve(name).is_dir() else name)
        except UsageError as error:
            yield str(error)


EMBEDDER = _EmbedderMark()
