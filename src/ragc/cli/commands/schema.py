"""`ragc schema`: print the JSON Schema of recipes."""

from __future__ import annotations

import argparse

from ragc.api import recipes
from ragc.cli import console


def register(command: argparse.ArgumentParser) -> None:
    """Adds the text at the end of the help."""
    command.epilog = (
        "Write it to a file and name that in the first line of a recipe: #:schema ragc.schema.json. Taplo "
        "and its editor extensions (Even Better TOML) then complete keys and mark what is wrong."
    )
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the schema, with and without `--json`; returns the exit code."""
    console.print_json(recipes.recipe_schema())
    return 0
