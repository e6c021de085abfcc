"""The judge of metrics: typed calls of the target with the role `judge`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.targets.base import Sampling

VERDICT = Sampling(max_tokens=64)
"""The sampling of a verdict: short and deterministic."""
WRITTEN = Sampling(max_tokens=768)
"""The sampling of what is more than a verdict, such as the facts of an answer."""


class Judge:
    """Calls the judge of `runtime`, through the same store and budget as a program."""

    def __init__(self, runtime: Runtime) -> None:
        self.name = runtime.target("judge").name
        self._runtime = runtime
        self._calls: dict[Any, RagPredict] = {}

    async def __call__(self, signature: Any, /, **inputs: Any) -> Mapping[str, Any]:
        """Returns the outputs of `signature` for `inputs`. Raises ParseFailure, TargetError and its
        subclasses.
        """
        if signature not in self._calls:
            short = all(field.annotation is bool for field in signature.output_fields.values())
            sampling = VERDICT if short else WRITTEN
            self._calls[signature] = RagPredict(signature, self._runtime, role="judge", sampling=sampling)
        return dict((await self._calls[signature].acall(**inputs)).items())
