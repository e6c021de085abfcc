"""Reading the fields of one row after another by a map, and remembering which paths led somewhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ragc.corpora.field_path import NOWHERE, at, lost, without
from ragc.corpora.field_text import as_json, as_list, as_text, is_nothing
from ragc.corpora.row import Row, kind
from ragc.errors import UnknownName, UsageError

ROW_NUMBER = "#"
"""The path of an id that is made of the row's number, from 1: "row-17"."""


class FieldReader:
    """Reads rows by the map `fields`, whose keys are `known` fields and `options`.

    A known field that the map does not name is read from the key of its own name. `numbered` is put before
    the number of a row whose id is "#". `cells`: texts that spell a list are that list. What is wrong with
    a row goes to its `problems`. Raises UsageError for another key, or a value that is no text or blank.
    """

    def __init__(
        self,
        fields: Mapping[str, object],
        known: Collection[str],
        options: Collection[str],
        *,
        numbered: str,
        cells: bool = False,
    ) -> None:
        for key, value in fields.items():
            if key not in known and key not in options:
                raise UnknownName("field", key, [*known, *options])
            if not isinstance(value, str) or not value.strip():
                raise UsageError(
                    f"The field {key!r} needs a path or text that is not empty, found {value!r}."
                )
            if value == ROW_NUMBER and key != "id":
                raise UsageError(f'Only an id can be the number of its row; {key!r} cannot be "#".')
        given = {key: str(value) for key, value in fields.items()}
        self._paths = {name: given.get(name, name) for name in known}
        self._named = {name: given[name] for name in known if given.get(name, ROW_NUMBER) != ROW_NUMBER}
        self._options = {name: given.get(name, "") for name in options}
        self._never = dict(self._named)
        self._last: Row | None = None
        self._numbered, self._cells = numbered, cells

    def id(self, row: Row, number: int) -> str:
        """The id, or the row's number where the map says so."""
        return f"{self._numbered}-{number}" if self._paths["id"] == ROW_NUMBER else self.text(row, "id")

    def text(self, row: Row, name: str, *, needed: bool = True, blank: bool = False) -> str:
        """A single value as text; blank or null ones are refused where `needed`, unless `blank`."""
        value = self._value(row, name, needed)
        if value is NOWHERE or (is_nothing(value) and (blank or not needed)):
            return ""
        text = as_text(value)
        if is_nothing(value) or text is None:
            row.problems.append(f"{self._place(name)} is {kind(value)}, a text is needed")
        elif needed and not blank and not text.strip():
            row.problems.append(f"{self._place(name)} is empty")
        return text or ""

    def texts(self, row: Row, name: str, *, option: str, needed: bool = False) -> tuple[str, ...]:
        """A list of texts, or a single value as a list of one; nulls, NaN and blanks are passed over."""
        value = self._value(row, name, needed)
        if value is NOWHERE:
            return ()
        texts = []
        for item in as_list(value, cells=self._cells, separator=self._options[option]):
            text = "" if is_nothing(item) else as_text(item)
            if text is None:
                row.problems.append(f"{self._place(name)} holds {kind(item)}, texts are needed")
            elif text.strip():
                texts.append(text)
        return tuple(texts)

    def rest(self, row: Row) -> dict[str, object]:
        """What no field is read from, as JSON values."""
        values: Any = row.values
        for path in self._paths.values():
            values = without(values, path)
        return {str(name): as_json(value) for name, value in values.items()}

    def never(self) -> list[str]:
        """A problem for every path that the map names and no row has."""
        if self._last is None:
            return []
        end = self._last.values
        return [
            f"`{name}` is read from `{path}`, which no row has: {lost(end, path)}"
            for name, path in self._never.items()
        ]

    def _value(self, row: Row, name: str, needed: bool) -> object:
        self._last = row
        path = self._paths[name]
        value = at(row.values, path)
        if value is not NOWHERE:
            self._never.pop(name, None)
        elif needed and row.columns and path.partition(".")[0] not in row.columns:
            row.absent.append(path)
        elif needed:
            how = (
                "is not there" if name in self._named else "is missing, and the map does not say where it is"
            )
            row.problems.append(f"{self._place(name)} {how}: {lost(row.values, path)}")
        return value

    def _place(self, name: str) -> str:
        path = self._paths[name]
        return f"`{name}`" if path == name else f"`{name}`, read from `{path}`,"
