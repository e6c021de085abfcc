"""Language-model endpoints of three kinds behind one interface, and the gateway in front of them.

`TARGETS` is cheap to read; a target's libraries are imported only when one is built or opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ragc.core.plugins import Registry
from ragc.core.user_code import load_object
from ragc.errors import RagcError, UsageError
from ragc.targets.base import Target, TargetKind

if TYPE_CHECKING:
    from ragc.targets.options import TargetSpec

__all__ = ["TARGETS", "Target", "TargetKind", "build"]

_SERVERS = {
    "ollama": ("Ollama's server", 11434),
    "lmstudio": ("LM Studio's server", 1234),
    "llamacpp": ("llama.cpp's server", 8080),
    "llama.cpp": ("llama.cpp's server", 8080),
    "openai-compatible": ("Such a server", 8000),
    "openai_compatible": ("Such a server", 8000),
}
"""Servers with OpenAI's chat API, by the kind that people write for them, and their ports."""

_ADVICE = dict.fromkeys(
    ("openai", "anthropic", "azure", "gemini", "bedrock", "mistral", "litellm"),
    'A hosted model is kind = "hosted" with a model such as "openai/gpt-4o-mini"; a server of yours with '
    'OpenAI\'s chat API is kind = "vllm" with its base_url.',
) | {
    name: f'{server} has OpenAI\'s chat API, for which the kind is "vllm": write kind = "vllm", '
    f'base_url = "http://127.0.0.1:{port}/v1" and the model\'s name there.'
    for name, (server, port) in _SERVERS.items()
}
"""What to write for a name that is no kind of target, by the name."""

_MEMBERS = ("name", "model", "concurrency", "capabilities", "context_tokens", "identity", "open", "complete")


def _own_kind(reference: str) -> TargetKind:
    """Returns the kind of a class of the user's own, `module:name`; it takes the keys of its table, and those
    of `options`, as keywords.
    """
    from ragc.targets.options import TargetOptions

    def build(spec: TargetSpec) -> Target:
        named = {key: value for key, value in spec if key in ("model", "base_url") and value}
        try:
            target: Target = load_object(reference, spec.base)(**named, **spec.options)
        except RagcError:
            raise
        except (Exception, SystemExit) as error:  # whatever the user's code raises
            raise UsageError(
                f"The target {reference!r} cannot be built: {type(error).__name__}: {error}; repair it."
            ) from error
        if missing := [name for name in _MEMBERS if not hasattr(target, name)]:
            raise UsageError(
                f"{reference!r} makes a {type(target).__name__} without {', '.join(missing)}, which every "
                "target has (ragc.targets.base.Target); add them."
            )
        return target

    return TargetKind(reference, TargetOptions, build)


TARGETS = Registry(
    "ragc.targets",
    "target kind",
    TargetKind,
    {
        "embedded": (
            "ragc.targets.embedded.target",
            "a GGUF model inside the process (llama.cpp); SmolLM2-135M-Instruct unless a path is given",
        ),
        "vllm": (
            "ragc.targets.vllm_kind",
            "a server that speaks OpenAI's chat API, running (vLLM, llama.cpp's) or started by ragc (vLLM)",
        ),
        "hosted": (
            "ragc.targets.hosted",
            "any LiteLLM model id, such as openai/gpt-4o-mini; keys come from the environment",
        ),
    },
    _ADVICE,
    own=_own_kind,
)
"""The kinds of targets, by name."""


def build(spec: TargetSpec) -> Target:
    """Returns the target that `spec` describes, not opened yet: nothing is loaded or sent.

    Raises UnknownName for an unknown kind or option, and UsageError for invalid values.
    """
    return TARGETS.get(spec.kind).build(spec)
