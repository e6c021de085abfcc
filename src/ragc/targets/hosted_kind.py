"""`hosted`: a model that LiteLLM reaches."""

from __future__ import annotations

from collections.abc import Iterator

from ragc.core.marks import Does
from ragc.targets.base import Target, TargetKind
from ragc.targets.options import HostedOptions, TargetSpec

_IN_PROCESS = frozenset({"vllm", "petals"})
"""LiteLLM's names of libraries that it loads into this process, with the model."""


def _build(spec: TargetSpec) -> Target:
    from ragc.targets.hosted import HostedTarget

    return HostedTarget(spec.model, spec.base_url, HostedOptions.of(spec.options))


def _model_does(spec: TargetSpec) -> Does:
    # Whatever the base_url: LiteLLM has providers whose address is a part of the id.
    if spec.model.partition("/")[0] in _IN_PROCESS:
        return Does("runs", "loads this model into this process")
    return Does("speaks", "asks this model by LiteLLM, with the key of its provider")


def _lacking(who: str, spec: TargetSpec) -> Iterator[str]:
    from ragc.targets.hosted import missing_key

    if not (spec.options.get("api_key_env") or spec.base_url) and (names := missing_key(spec.model)):
        yield f"{who}, {spec.model}, needs the environment variable {names}, which is not set"


KIND = TargetKind("hosted", HostedOptions, _build, _model_does, _lacking)
