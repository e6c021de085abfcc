"""`embedded`: a model inside this process, by llama.cpp."""

from __future__ import annotations

from ragc.core.extras import EXTRAS
from ragc.errors import UsageError
from ragc.targets.base import Target, TargetKind
from ragc.targets.embedded.options import EmbeddedOptions
from ragc.targets.options import TargetSpec


def _build(spec: TargetSpec) -> Target:
    from ragc.targets.embedded.target import EmbeddedTarget

    if spec.base_url:
        raise UsageError('An embedded target has no base_url; use kind = "vllm" for a server.')
    target: Target = EmbeddedTarget(spec.model, **spec.options)
    return target


KIND = TargetKind(
    "embedded",
    EmbeddedOptions,
    _build,
    modules=EXTRAS["embedded"],
    model_file=True,
    default_weights="SmolLM2-135M-Instruct",
)
