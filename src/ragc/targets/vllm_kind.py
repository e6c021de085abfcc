"""`vllm`: a server that speaks OpenAI's chat API, running or started by ragc."""

from __future__ import annotations

from ragc.core import extras
from ragc.core.marks import HARMLESS, Does, Mark
from ragc.errors import UsageError
from ragc.targets.base import Target, TargetKind
from ragc.targets.options import TargetSpec, VllmOptions


def _build(spec: TargetSpec) -> Target:
    options = VllmOptions.of(spec.options)
    if not options.serve:
        from ragc.targets.chat import ChatTarget

        return ChatTarget(spec.base_url, spec.model, options)
    from ragc.targets.vllm_server import ServedTarget

    if spec.base_url:
        raise UsageError("A vllm target has a base_url or serve = true, not both.")
    folder = spec.base / spec.model
    return ServedTarget(str(folder) if spec.model and folder.is_dir() else spec.model, options)


def _model_does(spec: TargetSpec) -> Mark:
    return Does("runs", "loads this model") if spec.options.get("serve") else HARMLESS


def _lacking(who: str, spec: TargetSpec) -> list[str]:
    if not spec.options.get("serve") or spec.options.get("python"):
        return []
    return extras.lacking(f"{who}, which runs vLLM here,", extras.EXTRAS["vllm"])


KIND = TargetKind("vllm", VllmOptions, _build, _model_does, _lacking)
