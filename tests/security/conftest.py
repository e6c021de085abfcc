"""A loopback server that answers the recipe of `command_line`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.loopback import Loopback


@pytest.fixture(scope="session")
def server() -> Iterator[Loopback]:
    with Loopback(latency_s=0.001) as endpoint:
        yield endpoint
