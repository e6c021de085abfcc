"""`vllm`: a server that speaks OpenAI's chat API, running or started by ragc."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragc.core import extras
from ragc.core.marks import Keys, RequestedAccess
from ragc.errors import UsageError
from ragc.targets.base import Target, TargetKind
from ragc.targets.options import TargetSpec
from ragc.targets.vllm_options import VllmOptions


def _build(spec: TargetSpec) -> Target:
    options = VllmOptions.of(spec.options)
    if options.serve and spec.base_url:
        raise UsageError("A vllm target has a base_url or serve = true, not both.")
    if options.serve:
        from ragc.targets.vllm_server import ServedTarget

        return ServedTarget(spec.model, options)
    from ragc.targets.chat import ChatTarget

    return ChatTarget(spec.base_url, spec.model, options)


def _accesses(keys: Keys, spec: TargetSpec) -> Iterator[RequestedAccess]:
    if _loads(spec.options):
        yield RequestedAccess("runs", (*keys, "model"), spec.model, "loads this model")


def _loads(options: Mapping[str, Any]) -> bool:
    """Whether vLLM loads the model here, which may then be a folder."""
    return bool(options.get("serve"))


def _lacking(who: str, spec: TargetSpec) -> list[str]:
    if not spec.options.get("serve") or spec.options.get("python"):
        return []
    return extras.lacking(f"{who}, which runs vLLM here,", extras.EXTRAS["vllm"])


KIND = TargetKind("vllm", VllmOptions, _build, _accesses, _lacking, model_folder=_loads)
