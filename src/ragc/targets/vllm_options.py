"""The options of a target of kind `vllm`."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from ragc.core.marks import HARMLESS, Does
from ragc.core.tables import Flag, Json
from ragc.targets.options import Duration, ServerOptions

_SERVED = frozenset(
    {"host", "port", "uds", "model", "dtype", "max-model-len", "served-model-name", "api-key"}
)


def _check_flags(flags: dict[str, Any]) -> dict[str, Any]:
    if served := {name.replace("_", "-").lstrip("-") for name in flags} & _SERVED:
        raise ValueError(
            f"flags cannot set {', '.join(sorted(served))}: ragc does, from model, dtype and context_tokens"
        )
    return flags


class VllmOptions(ServerOptions):
    """Options of a target of kind `vllm`: a running server, or one that ragc starts."""

    kind = "vllm"

    serve: Annotated[Flag, Does("runs", "starts a server")] = Field(
        default=False, description="Whether to start a vLLM server, or use the one that ragc started before."
    )
    python: Annotated[str, Does("runs", "names the program that serves")] = Field(
        default="", description="Interpreter that runs vLLM with serve = true. Empty is the current one."
    )
    dtype: Annotated[str, HARMLESS] = Field(
        default="", description="Number format of the weights, as vLLM names it. Empty lets vLLM choose."
    )
    flags: Annotated[Json, AfterValidator(_check_flags), Does("runs", "sets flags of that program")] = Field(
        default_factory=dict, description="Further flags of vLLM by name, without dashes in front."
    )
    start_s: Duration = Field(
        default=1200.0, description="Seconds until a server that is started must be ready. Above 0."
    )

    @model_validator(mode="after")
    def _check_loading(self) -> Self:
        loading = [name for name in ("python", "dtype", "flags") if getattr(self, name)]
        if loading and not self.serve:
            raise ValueError(f"{loading[0]} loads a model and needs serve = true")
        return self
