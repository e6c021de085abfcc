"""The list of all tables: what each needs, and whether it is there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragc.core.display import quantity
from ragc.optimizers.grids.tables.data_files import entries
from ragc.optimizers.grids.tables.table import Table, tables


def listing(data: str | Path = "data") -> dict[str, Any]:
    """All tables as a JSON object, with the state of their data in the folder `data`.

    A table is available when one of its data sets is there, and complete when all are.
    """
    folder = Path(data)
    states = {id: entry.to_json(folder) for id, entry in entries().items()}
    return {"tables": [_entry(entry, states) for entry in tables()]}


def _entry(table: Table, states: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    data = [states[use.id] for use in table.data]
    there = [dataset["available"] for dataset in data]
    return {**table.to_json(), "data": data, "available": any(there), "complete": all(there)}


def lines(listed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The list for people: the id of a table, and in words what it shows, its rows and its data."""
    return [{"id": entry["id"], "about": _about(entry)} for entry in listed["tables"]]


def _about(entry: Mapping[str, Any]) -> str:
    there = [dataset["id"] for dataset in entry["data"] if dataset["available"]]
    absent = [dataset["id"] for dataset in entry["data"] if not dataset["available"]]
    rows = ", ".join(row["id"] for row in entry["rows"])
    data = ", ".join(there) or "none"
    lacks = f"; absent: {', '.join(absent)}" if absent else ""
    return f"{entry['about']} ({entry['paper']}). Rows: {rows}. Data: {data}{lacks}."


def needs(listed: Mapping[str, Any]) -> list[str]:
    """A sentence for each data set that some table needs and that is absent: files, origin, licence."""
    absent = {
        dataset["id"]: dataset
        for entry in listed["tables"]
        for dataset in entry["data"]
        if not dataset["available"]
    }
    return [
        f"{id}: {', or '.join(dataset['needs'])}, in {dataset['folder']}; from {dataset['origin']}; "
        f"licence: {dataset['licence']}"
        for id, dataset in sorted(absent.items())
    ]


def summary(listed: Mapping[str, Any]) -> str:
    """One line on the whole list."""
    there = sum(entry["available"] for entry in listed["tables"])
    size = quantity(len(listed["tables"]), "table")
    return f"{size}, {there:,} with data. Run one: ragc reproduce TABLE --limit 3"
