"""Entailment classifiers in ONNX form, run with onnxruntime and tokenizers, without torch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragc.corpora.embed.onnx_session import OnnxSession
from ragc.metrics.entailment.base import Pair, Verdict, batches, longest


class OnnxClassifier:
    """The classifier in the file `model`, with `tokenizer.json` and `config.json` in `folder`.

    A pair is entailed if label `entailment` has the greatest score. Raises ValueError for a model whose
    inputs are not those of a text classifier; errors of onnxruntime and tokenizers propagate.
    """

    def __init__(self, folder: Path, model: Path, entailment: int) -> None:
        from tokenizers import Tokenizer

        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._entailment = entailment
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        padding = self._tokenizer.padding
        pad = int(padding["pad_id"] if padding else config.get("pad_token_id") or 0)
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._longest = longest(folder, config)
        self._session = OnnxSession(model, pad=pad, output="logits")

    def verdicts(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """Returns a verdict for each of `pairs`, in order; None if no premise fits beside the hypothesis."""
        encodings = self._encode_pairs(pairs)
        readable = [at for at, encoding in enumerate(encodings) if encoding is not None]
        verdicts: list[Verdict] = [None] * len(pairs)
        for batch in batches([len(encodings[at].ids) for at in readable]):
            chosen = [readable[at] for at in batch]
            for at, best in zip(chosen, self._best([encodings[at] for at in chosen]), strict=True):
                verdicts[at] = best == self._entailment
        return verdicts

    def _encode_pairs(self, pairs: Sequence[Pair]) -> list[Any]:
        self._tokenizer.no_truncation()
        extra = self._tokenizer.num_special_tokens_to_add(True)
        claims = self._tokenizer.encode_batch([claim for _, claim in pairs], add_special_tokens=False)
        fits = [len(claim.ids) + extra < self._longest for claim in claims]
        self._tokenizer.enable_truncation(self._longest, strategy="only_first")
        encodings = iter(
            self._tokenizer.encode_batch([pair for pair, fit in zip(pairs, fits, strict=True) if fit])
        )
        return [next(encodings) if fit else None for fit in fits]

    def _best(self, batch: Sequence[Any]) -> list[int]:
        """Returns the label with the greatest score for each pair of the batch."""
        scores, _ = self._session.run([(encoding.ids, encoding.type_ids) for encoding in batch])
        return [int(best) for best in scores.argmax(axis=-1)]
