"""The card of training data: its content, its origin, and how much was left out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ragc.core.text import escape_surrogates, visible
from ragc.training import KINDS

UNKNOWN_LICENCE = "not known to ragc; look where the questions and passages come from"

PAIRS = ("prefrag-dpo",)
"""Kinds whose rows are pairs."""

NOT_FOR_TRAINERS = ("slimplm-labels",)
"""Kinds whose rows are no conversations."""


def licence_of(origin: Mapping[str, Any]) -> str:
    """Returns the licences of a data set of that `origin` in words."""
    return "; ".join(dict.fromkeys(origin.get("licence", {}).values())) or UNKNOWN_LICENCE


def text_of(
    name: str,
    kind: str,
    facts: Mapping[str, Any],
    classes: Mapping[str, int],
    drops: Mapping[str, int],
    remarks: Sequence[str] = (),
    format: str = "trl",
) -> str:
    """Returns the card in Markdown; `facts` are values by name, `name` is the file of the rows."""
    lines = [f"# {_plain(name)}", "", f"Written by `ragc data {kind}`: {KINDS[kind]}.", ""]
    lines += [f"- {_plain(remark)}" for remark in remarks] + ([""] if remarks else [])
    lines += _table(("", ""), {"rows": sum(classes.values()), **facts})
    lines += ["", "## Classes", "", *_table(("class", "rows"), classes)]
    lines += ["", "## Left out", ""]
    lines += _table(("reason", "number"), drops) if drops else ["Nothing was left out."]
    lines += ["", "## Loading", "", *_loading(name, kind, format)]
    return "\n".join(lines) + "\n"


def _table(head: tuple[str, str], rows: Mapping[str, Any]) -> list[str]:
    return [
        f"| {head[0]} | {head[1]} |",
        "| --- | --- |",
        *(f"| {_plain(str(key))} | {_plain(_shown(value))} |" for key, value in rows.items()),
    ]


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _plain(text: str) -> str:
    """Returns `text` on one line that ends no cell and holds no HTML."""
    line = " ".join(visible(text).split())
    return escape_surrogates(line).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")


def _loading(name: str, kind: str, format: str) -> list[str]:
    """Returns how trainers read the rows: a line for TRL, an entry for LLaMA-Factory's dataset_info.json."""
    load = f'datasets.load_dataset("json", data_files={json.dumps(name)}, split="train")'
    if kind in NOT_FOR_TRAINERS:
        return ["```python", load, "```", "", "Conversations of the same labels: `ragc data slimplm-judge`."]
    lines = [] if format == "llamafactory" and kind in PAIRS else ["TRL takes the rows as they are:", ""]
    if lines:
        trainer = "DPOTrainer" if kind in PAIRS else "SFTTrainer"
        lines += ["```python", f"trl.{trainer}(..., train_dataset={load})", "```", ""]
    if format == "trl" and kind in PAIRS:
        return [
            *lines,
            "For LLaMA-Factory: `ragc data ... --format llamafactory`, which sends nothing again.",
        ]
    entry = json.dumps({name.removesuffix(".jsonl"): llamafactory_entry(name, kind)}, indent=2)
    return [*lines, "LLaMA-Factory, in `dataset_info.json`:", "", "```json", entry, "```"]


def llamafactory_entry(name: str, kind: str) -> dict[str, Any]:
    """Returns the entry of `dataset_info.json` for the file `name`."""
    tags = {
        "role_tag": "role",
        "content_tag": "content",
        "user_tag": "user",
        "assistant_tag": "assistant",
        "system_tag": "system",
    }
    columns = {"messages": "messages"}
    if kind in PAIRS:
        columns = {"messages": "prompt", "chosen": "chosen", "rejected": "rejected"}
    ranking = {"ranking": True} if kind in PAIRS else {}
    return {"file_name": name, "formatting": "sharegpt", **ranking, "columns": columns, "tags": tags}
