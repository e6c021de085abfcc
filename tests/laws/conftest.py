"""The provider of the laws, and the worlds that they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.laws.features import Feature
from tests.laws.world import World, make_world
from tests.support.priced_provider import PricedProvider

Make = Callable[..., World]


@pytest.fixture(scope="session")
def provider() -> Iterator[PricedProvider]:
    with PricedProvider() as server:
        yield server


@pytest.fixture
def make(provider: PricedProvider, tmp_path: Path) -> Make:
    """A new world of a feature, with a share of faults."""

    def go(feature: Feature, faults: float = 0.0) -> World:
        return make_world(tmp_path, feature, provider, faults)

    return go


@pytest.fixture(scope="session")
def unbroken(
    provider: PricedProvider, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Feature], World]:
    """The world of a feature in which `out` was compiled once, without a break."""
    worlds: dict[str, World] = {}

    def of(feature: Feature) -> World:
        if feature.name not in worlds:
            world = make_world(tmp_path_factory.mktemp("whole"), feature, provider)
            ended = world.compile()
            assert ended.status == 0, ended.err
            worlds[feature.name] = world
        return worlds[feature.name]

    return of
