"""`embedded`: a model inside this process, by llama.cpp."""

from __future__ import annotations

from ragc.core.extras import EXTRAS
from ragc.downloads import is_hub_file
from ragc.errors import UsageError
from ragc.targets.base import Target, TargetKind
from ragc.targets.options import EmbeddedOptions, TargetSpec


def _build(spec: TargetSpec) -> Target:
    from ragc.targets.embedded.target import EmbeddedTarget

    if spec.base_url:
        raise UsageError('An embedded target has no base_url; use kind = "vllm" for a server.')
    is_path = spec.model and not is_hub_file(spec.model)
    return EmbeddedTarget(spec.base / spec.model if is_path else spec.model, **spec.options)


KIND = TargetKind(
    "embedded",
    EmbeddedOptions,
    _build,
    modules=EXTRAS["embedded"],
    model_file=True,
    default_weights="SmolLM2-135M-Instruct",
)
