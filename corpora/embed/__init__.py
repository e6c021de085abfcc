"""Embedders: texts to vectors, chosen by the name in a recipe.

The default is all-MiniLM-L6-v2 on onnxruntime, without torch. Any folder with `model.onnx` and
`tokenizer.json` works the same way. Other names are ids of sentence-transformers models, where that
library is installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ragc.core.progress import Progress
from ragc.corpora.embed.base import ALIASES, DEFAULT

if TYPE_CHECKING:
    from ragc.corpora.embed.base import Embedder


def make(name: str = DEFAULT, *, progress: Progress | None = None) -> Embedder:
    """The embedder called `name`: an alias, the default, an ONNX folder, or a sentence-transformers model.

    `progress` is notified of the bytes of a download. Raises UsageError when the library that the model needs
    is not installed, or when `name` is a folder without what an embedder needs.
    """
    from ragc.corpora.embed.minilm import minilm
    from ragc.corpora.embed.model_files import has_onnx
    from ragc.corpora.embed.onnx import OnnxEmbedder
    from ragc.corpora.embed.sentence_transformers import SentenceTransformersEmbedder

    model = ALIASES.get(name, name)
    if model in (DEFAULT, f"sentence-transformers/{DEFAULT}"):
        return minilm(progress=progress)
    folder = Path(model).expanduser()
    if folder.is_dir() and (has_onnx(folder) or not (folder / "modules.json").is_file()):
        return OnnxEmbedder(folder)
    return SentenceTransformersEmbedder(model)
