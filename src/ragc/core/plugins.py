"""Kinds that a user names: a record each, in a module that is imported when the kind is named first.

    name ──► the module of ragc that `Registry` lists, or an entry point of an installed package ──► record

An entry point runs code of another package. It is loaded for a recipe or a call of the user's own, and for a
compiled program from elsewhere only where its code is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar, cast

from ragc.core.user_code import is_reference
from ragc.errors import UnknownName, UsageError

R = TypeVar("R")

REPAIR = "repair or uninstall the package"
"""How errors in what another package adds end."""


class Registry(Generic[R]):
    """The kinds of one family: what each of ragc's own is, by name, and the record of each.

    `group` is the group of entry points by which other packages add kinds, `noun` how errors call a kind,
    `record` the class of its record. `listed` gives, by name, the module whose `KIND` is the record, or
    `module:NAME`, and one
    line about the kind. `advice` says, by a name that people expect and that is no kind, what to write
    instead. `guard` checks the record of an installed package and returns it, with errors of its code blamed
    on the package; its second argument is the subject of such errors. `own` makes the record of a class of
    the user's own from its name `module:name`, where a family takes them. Iterating gives the names of ragc's
    kinds; neither that nor `about` imports anything.
    """

    def __init__(
        self,
        group: str,
        noun: str,
        record: type[R],
        listed: Mapping[str, tuple[str, str]],
        advice: Mapping[str, str] | None = None,
        guard: Callable[[R, str], R] = lambda record, subject: record,
        own: Callable[[str], R] | None = None,
    ) -> None:
        self.group, self.noun, self.record, self.listed = group, noun, record, listed
        self._advice, self._guard, self._own = advice or {}, guard, own
        self._installed: dict[str, R] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self.listed)

    def about(self) -> dict[str, str]:
        """Returns one line about each kind, by name: those of ragc, then those of installed packages."""
        return {name: about for name, (_, about) in self.listed.items()} | {
            name: _package(point) for name, point in self._points().items()
        }

    def is_known(self, name: str) -> bool:
        """Returns whether ragc or an installed package has the kind; nothing is imported."""
        return name in self.listed or self.is_own(name) or name in self._points()

    def is_own(self, name: str) -> bool:
        """Returns whether `name` is that of a class of the user's own, `module:name`."""
        return self._own is not None and is_reference(name)

    def unknown(self, name: str) -> UnknownName:
        """Returns the error for a `name` that is no kind, with what to write instead."""
        return UnknownName(self.noun, name, self.about(), self._advice.get(name.casefold(), ""))

    def loaded(self, name: str) -> R | None:
        """Returns the record of a kind of ragc's, or of one that `get` has loaded; None for any other."""
        if name not in self.listed:
            return self._installed.get(name)
        place = self.listed[name][0]
        return cast(R, resolve_name(place if ":" in place else f"{place}:KIND"))

    def get(self, name: str) -> R:
        """Returns the record of a kind, with that of an installed package loaded.

        Raises UnknownName, with the nearest name, and UsageError where the package cannot be loaded or has
        no record of this family.
        """
        if (record := self.loaded(name)) is not None:
            return record
        if self._own is not None and is_reference(name):
            return self._own(name)
        if (point := self._points().get(name)) is None:
            raise self.unknown(name)
        self._installed[name] = record = self._load(point)
        return record

    def _points(self) -> dict[str, EntryPoint]:
        """Returns what installed packages add, by name; a name of ragc's stays ragc's."""
        points = sorted(entry_points(group=self.group), key=lambda point: (point.name, point.value))
        return {point.name: point for point in points if point.name not in self.listed}

    def _load(self, point: EntryPoint) -> R:
        subject = f"The {self.noun} {point.name!r} of the package {_package(point)}"
        try:
            record: Any = point.load()
        except Exception as error:  # whatever the code of another package raises
            raise UsageError(
                f"{subject} cannot be loaded: {type(error).__name__}: {error}; {REPAIR}."
            ) from error
        if not isinstance(record, self.record):
            raise UsageError(
                f"{subject} is a {type(record).__name__}, and a {self.record.__name__} is needed; {REPAIR}."
            )
        return self._guard(record, subject)


def _package(point: EntryPoint) -> str:
    """Returns the name and version of the package that has the entry point."""
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value
