"""Explains errors of a command line: argparse's messages with the nearest names."""

from __future__ import annotations

import argparse
import re
import sys
from typing import NoReturn

from ragc.cli import console
from ragc.errors import UnknownName, nearest

_CHOICE = re.compile(r"argument ([^:]+): invalid choice: (['\"])(.*)\2 \(choose from (.*)\)", re.DOTALL)
_NUMBER = re.compile(r"argument ([^:]+): invalid (int|float) value: (.*)", re.DOTALL)
_MISSING = re.compile(r"the following arguments are required: (.*)")
_NO_VALUE = re.compile(r"argument ([^:]+): expected one argument")
_ONE_OF = re.compile(r"one of the arguments (.*) is required")
_NOT_BOTH = re.compile(r"argument ([^:]+): not allowed with argument (.*)")
_UNKNOWN = re.compile(r"unrecognized arguments: (.*)", re.DOTALL)
_OPTION = re.compile(r"--[a-z][\w-]*")
_KINDS = {"int": "a whole number", "float": "a number"}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, with the usage if that helps."""

    def error(self, message: str) -> NoReturn:
        """Prints what is wrong and exits with status 2."""
        text, with_usage = self._explain(message)
        if with_usage:
            self.print_usage(sys.stderr)
        console.error(text)
        raise SystemExit(2)

    def _explain(self, message: str) -> tuple[str, bool]:
        """Returns the sentence for argparse's `message`, and whether the usage belongs before it."""
        if match := _CHOICE.fullmatch(message):
            what, known = match[1].lstrip("-").lower(), re.findall(r"[\w-]+", match[4])
            return str(UnknownName(what, match[3], known)), False
        if match := _NUMBER.fullmatch(message):
            return f"{match[1]} must be {_KINDS[match[2]]}, found {match[3]}.", False
        if match := _NO_VALUE.fullmatch(message):
            return f"{match[1]} needs a value, and none follows it.", True
        if match := _MISSING.fullmatch(message):
            return f"{self.prog} needs {match[1].replace(', ', ' and ')}; see {self.prog} --help.", True
        if match := _ONE_OF.fullmatch(message):
            return f"{self.prog} needs {match[1].replace(' ', ' or ')}; see {self.prog} --help.", True
        if match := _NOT_BOTH.fullmatch(message):
            return f"{self.prog} takes {match[2]} or {match[1]}, not both.", True
        if match := _UNKNOWN.fullmatch(message):
            return f"{self.prog} does not take {match[1]!r}{self._advice(match[1])}", True
        return f"{self.prog}: {message}.", True

    def _advice(self, rest: str) -> str:
        """Returns the end of the sentence on the arguments `rest`, which the command does not take."""
        if not rest.startswith("-"):
            return "; put an argument with blanks in quotes."
        name = re.split("[= ]", rest)[0]
        return f".{nearest(name, _OPTION.findall(self.format_usage()))}"
