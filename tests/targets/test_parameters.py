"""How large a model is, by its name."""

from __future__ import annotations

import pytest

from ragc.task.prompts import parameters_named


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("SmolLM2-135M-Instruct", 135e6), ("Qwen2.5-Coder-1.5B-Instruct", 1.5e9), ("qwen2.5:0.5b", 5e8),
        ("meta-llama/Llama-3.1-8B-Instruct", 8e9), ("Mixtral-8x7B-Instruct-v0.1", 56e9),
        ("Qwen3-30B-A3B", 30e9), ("llama3.2-1b-q4_k_m", 1e9), ("gpt-4o-mini", None), ("bge-m3", None),
        ("Phi-3.5-mini", None), ("", None),
    ],
)  # fmt: skip
def test_a_name_may_say_how_large_the_model_is(name: str, size: float | None) -> None:
    assert parameters_named(name) == size
