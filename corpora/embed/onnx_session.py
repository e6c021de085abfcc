"""An ONNX text model on onnxruntime's CPU: tokens in, one array out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

Encoded = tuple[Sequence[int], Sequence[int]]
"""The token ids of a text or a pair, and the type id of each."""


class OnnxSession:
    """The model in `file`; `pad` is the padding token. The output named `output`, or else the first, is read.

    Raises the errors of onnxruntime.
    """

    def __init__(self, file: Path, *, pad: int, output: str) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        self._inputs = [str(entry.name) for entry in self._session.get_inputs()]
        outputs = [str(entry.name) for entry in self._session.get_outputs()]
        self._pad, self._output = pad, output if output in outputs else outputs[0]

    def run(self, batch: Sequence[Encoded]) -> tuple[Any, Any]:
        """Returns the output for `batch`, and the attention mask."""
        width = max((len(ids) for ids, _ in batch), default=0) or 1
        blank = [width - len(ids) for ids, _ in batch]
        arrays = {
            "input_ids": [[*ids, *[self._pad] * n] for (ids, _), n in zip(batch, blank, strict=True)],
            "attention_mask": [[1] * (width - n) + [0] * n for n in blank],
            "token_type_ids": [[*types, *[0] * n] for (_, types), n in zip(batch, blank, strict=True)],
        }
        fed = {name: np.array(rows, np.int64) for name, rows in arrays.items() if name in self._inputs}
        (output,) = self._session.run([self._output], fed)
        return output, np.array(arrays["attention_mask"])
