"""Knobs of SKR-KNN."""

from __future__ import annotations

from dataclasses import dataclass

from ragc.programs.knobs import choice, integer
from ragc.programs.shared_knobs import PassageKnobs


@dataclass(frozen=True)
class SkrKnnKnobs(PassageKnobs):
    """How the train questions that are alike decide."""

    skr_k: int = integer(8, 5, 10, "train questions that are asked about a new one", paper="SKR; SlimPLM 8")
    skr_rule: str = choice(
        "majority", ("majority", "margin"), "majority, or the commoner train label if it leads as clearly",
        paper="SlimPLM, section 4.3, and its code; SKR has margin",
    )  # fmt: skip
