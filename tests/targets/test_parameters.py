"""How large a model is: by its name, else by the tensors in its file."""

from __future__ import annotations

import struct
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.targets.embedded.target import EmbeddedTarget
from ragc.targets.embedded.weights import SMOLLM2
from ragc.targets.parameters import parameters, parameters_in, parameters_named


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
    assert parameters(SimpleNamespace(model=name)) == size


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(tensors: list[tuple[int, ...]]) -> bytes:
    """A GGUF file with entries of several types, and the beginning of tensors of these shapes."""
    entries = [
        text("a") + struct.pack("<II", 4, 7),
        text("b") + struct.pack("<I", 8) + text("words"),
        text("c") + struct.pack("<IIQ", 9, 8, 2) + text("x") + text("yy"),
        text("d") + struct.pack("<IIQ", 9, 5, 3) + bytes(12),
    ]
    infos = [
        text(f"t{n}") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, 0)
        for n, shape in enumerate(tensors)
    ]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    return head + b"".join(entries) + b"".join(infos)


def test_a_file_says_it_where_its_name_does_not(tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(gguf([(3, 4), (5,), (2, 2, 2)]) + bytes(5000))
    assert parameters_in(path) == 25
    assert parameters(EmbeddedTarget(path)) == 25
    assert parameters(EmbeddedTarget()) == 135e6


def test_the_default_weights_hold_what_their_name_says() -> None:
    path = Path.home() / ".cache/ragc/weights" / SMOLLM2.name
    if not path.is_file():
        pytest.skip("the default weights are not on this machine")
    assert parameters_in(path) == pytest.approx(135e6, rel=0.01)


@given(cut=st.integers(0, 300), noise=st.binary(max_size=40))
def test_a_damaged_file_says_nothing_and_raises_nothing(
    cut: int, noise: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("weights") / "mine.gguf"
    path.write_bytes(gguf([(3, 4), (5,)])[:cut] + noise)
    size = parameters_in(path)
    assert size is None or size >= 0
    assert parameters_in(path.parent / "absent.gguf") is None
