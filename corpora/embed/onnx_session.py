"""An ONNX text model in memory: tokens in, one array out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

INPUTS = ("input_ids", "attention_mask", "token_type_ids")

Encoded = tuple[Sequence[int], Sequence[int]]
"""The token ids of a text or a pair, and the type id of each."""


class OnnxSession:
    """The model in `file` on onnxruntime's CPU; `pad` is the padding token.

    The output named `output` is read, or else the first. With `threads` 0 onnxruntime chooses their number.
    Raises ValueError for a model with other inputs, and the errors of onnxruntime.
    """

    def __init__(self, file: Path, *, pad: int, output: str, threads: int = 0) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self._inputs = [str(entry.name) for entry in self._session.get_inputs()]
        if strange := set(self._inputs) - set(INPUTS):
            raise ValueError(
                f"it asks for {', '.join(sorted(strange))}; a model of texts is given {', '.join(INPUTS)}"
            )
        outputs = [str(entry.name) for entry in self._session.get_outputs()]
        self._output = output if output in outputs else outputs[0]
        self._pad = pad

    def run(self, batch: Sequence[Encoded]) -> tuple[Any, Any]:
        """Returns the output for `batch`, and the attention mask."""
        width = max((len(ids) for ids, _ in batch), default=0) or 1
        tokens = np.full((len(batch), width), self._pad, dtype=np.int64)
        mask, types = np.zeros_like(tokens), np.zeros_like(tokens)
        for at, (ids, type_ids) in enumerate(batch):
            tokens[at, : len(ids)] = ids
            types[at, : len(ids)] = type_ids
            mask[at, : len(ids)] = 1
        arrays: dict[str, Any] = dict(zip(INPUTS, (tokens, mask, types), strict=True))
        (output,) = self._session.run([self._output], {name: arrays[name] for name in self._inputs})
        return output, mask
