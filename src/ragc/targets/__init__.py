"""Language-model endpoints of three kinds behind one interface, and the gateway in front of them.

`TARGETS` is cheap to read; a target's libraries are imported only when one is built or opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ragc.errors import UnknownName, UsageError
from ragc.targets.base import Target, TargetSpec

__all__ = ["TARGETS", "Target", "TargetSpec", "build"]

TARGETS: Mapping[str, str] = {
    "embedded": "a GGUF model inside the process (llama.cpp); SmolLM2-135M-Instruct unless a path is given",
    "vllm": "a server that speaks OpenAI's chat API, running (vLLM, llama.cpp's) or started by ragc (vLLM)",
    "hosted": "any LiteLLM model id, such as openai/gpt-4o-mini; keys come from the environment",
}


def build(spec: TargetSpec) -> Target:
    """The target that `spec` describes, not opened yet: nothing is loaded or sent.

    Raises UnknownName for an unknown kind or option, and UsageError for invalid values.
    """
    build_kind = _BUILDERS.get(spec.kind)
    if build_kind is None:
        raise UnknownName("target kind", spec.kind, TARGETS)
    return build_kind(spec)


def _build_embedded(spec: TargetSpec) -> Target:
    from ragc.targets.embedded.target import EmbeddedTarget
    from ragc.targets.options import EmbeddedOptions

    if spec.base_url:
        raise UsageError('An embedded target has no base_url; use kind = "vllm" for a server.')
    options = EmbeddedOptions.of(spec.options)
    target: Target = EmbeddedTarget(spec.model or None, **dict(options))
    return target


def _build_vllm(spec: TargetSpec) -> Target:
    from ragc.targets.options import VllmOptions
    from ragc.targets.vllm.managed import ManagedTarget
    from ragc.targets.vllm.offline import OfflineTarget
    from ragc.targets.vllm.target import VllmTarget

    options = VllmOptions.of(spec.options)
    own = "serve" if options.serve else "offline" if options.offline else ""
    if own and spec.base_url:
        raise UsageError(f"A vllm target has a base_url or {own} = true, not both.")
    if options.serve:
        return ManagedTarget(spec.model, options)
    if options.offline:
        return OfflineTarget(spec.model, options)
    return VllmTarget(spec.base_url, spec.model, options)


def _build_hosted(spec: TargetSpec) -> Target:
    from ragc.targets.hosted.target import HostedTarget
    from ragc.targets.options import HostedOptions

    return HostedTarget(spec.model, spec.base_url, HostedOptions.of(spec.options))


_BUILDERS: Mapping[str, Callable[[TargetSpec], Target]] = {
    "embedded": _build_embedded,
    "vllm": _build_vllm,
    "hosted": _build_hosted,
}
