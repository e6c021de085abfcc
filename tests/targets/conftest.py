"""Environments without anybody's keys."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def only_our_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No key and no address of a provider's is set, but one for OpenAI that is nobody's."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_API_BASE", "_BASE_URL")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
