"""Compiling the recipe of `colours`, as in the tests of `optimizers/`."""

from tests.optimizers.conftest import folder, run, unbroken

__all__ = ["folder", "run", "unbroken"]
