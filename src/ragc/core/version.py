"""The version of this package, which pyproject.toml says too; a test compares them."""

__version__ = "0.2.0"
