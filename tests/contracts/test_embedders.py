"""What every kind of embedder promises. A new kind gets the suite by a row in ROWS.

The default one, `minilm`, is a model in ONNX form whose weights are fetched: integration holds it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.embedders import HashedWords, install_transformers
from tests.support.kinds import EMBEDDERS, Embedder, make_embedder

TEXTS = [
    "cat",
    "",
    "dog ape cat",
    "unheard",
    "\ud800 bee",
    "bee " * 2000,
    *("elk " * n for n in range(1, 70)),
]


def words_in_onnx(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Embedder:
    """A model in ONNX form that gives each word of a small vocabulary a vector."""
    from tests.support.word_models import VOCABULARY, save_model

    rows = np.random.default_rng(0).standard_normal(len(VOCABULARY) * 8)
    vectors = f"float[{len(VOCABULARY)}, 8] vectors = {{{', '.join(map('{:.6f}'.format, rows))}}}"
    save_model(
        folder / "model.onnx",
        ["input_ids", "attention_mask"],
        output="float[batch, length, 8] last_hidden_state",
        constants=vectors,
        nodes="last_hidden_state = Gather(vectors, input_ids)",
    )
    return make_embedder(str(folder))


class Model(HashedWords):
    """A model as sentence-transformers has them."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__()

    def encode(self, texts: Sequence[str], **options: Any) -> Any:
        return self.embed(texts)


def transformers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Embedder:
    install_transformers(monkeypatch, SentenceTransformer=Model)
    return make_embedder("somebody/model")


Build = Callable[[Path, pytest.MonkeyPatch], Embedder]
ROWS: dict[str, Build] = {"onnx": words_in_onnx, "sentence-transformers": transformers}


@pytest.fixture(params=ROWS.values(), ids=list(ROWS))
def embedder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return request.param(tmp_path, monkeypatch)


def test_every_kind_that_is_listed_has_a_row() -> None:
    assert set(EMBEDDERS) == {*ROWS, "minilm"}


def test_vectors_are_of_length_one_and_do_not_depend_on_what_stands_beside_them(embedder: Embedder) -> None:
    together = embedder.embed(TEXTS)
    assert together.shape == (len(TEXTS), embedder.dimensions)
    assert together.dtype == np.float32
    assert np.linalg.norm(together, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
    alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
    assert np.abs(together - alone).max() < 1e-5
    assert embedder.embed([]).shape == (0, embedder.dimensions)


def test_equal_texts_have_equal_vectors_and_likeness_shows(embedder: Embedder) -> None:
    first, second, other, near = embedder.embed(["cat dog", "cat dog", "elk", "cat dog dog"])
    assert np.array_equal(first, second)
    assert first @ near > first @ other


def test_an_embedder_is_shared_and_has_a_name_and_a_fingerprint(embedder: Embedder) -> None:
    assert copy.deepcopy([embedder])[0] is embedder
    assert embedder.model
    assert len(embedder.fingerprint) >= 32
