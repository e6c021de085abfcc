"""How many replies, written as people's models write them, are read, and how many are read wrong.

    PYTHONPATH=src python -m experiments.benchmarks.scoring.replies [work.jsonl | rows.jsonl.xz ...] [--show]

A file beside this one, or any path, has one reply a line: its `signature`, the `layout` that the prompt asked
for, the `reply`, whether a person can tell the outputs from it (`readable`), and the `values` that a person
reads. README.md says how they were written and what counts as the same. A row without labels is `read` or
`refused`. Printed are, by shape and by family,

    right    readable, and read with the values that a person reads
    refused  readable, and not read: the program asks again, which costs a call
    wrong    read with other values, or read though a person could not: nobody notices
    kept off not readable, and not read

`--show` prints each reply that was refused or wrong. `held.jsonl` was read once, after all changes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import lzma
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dspy.adapters.utils import serialize_for_json

from ragc.errors import ParseFailure
from ragc.programs.calls.layouts import JSON_LAYOUTS
from ragc.programs.calls.replies import read_laid_out, read_reply

HERE = Path(__file__).parent
OUTCOMES = ("right", "refused", "wrong", "kept off")


def signature_of(row: Mapping[str, Any]) -> Any:
    """The signature that `row` names, or the variant of it that its expression derives."""
    module, _, name = row["signature"].partition(":")
    names = vars(importlib.import_module(module))
    # The expressions stand in files of this folder, with the names of the module and nothing else.
    return eval(row["variant"], {"__builtins__": {}, **names}) if row.get("variant") else names[name]  # noqa: S307


def read(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """The outputs that are read from the reply of `row`, as JSON values; None where it cannot be read."""
    signature, text, layout = signature_of(row), row["reply"], row["layout"]
    truncated = bool(row.get("truncated"))
    try:
        if layout in JSON_LAYOUTS:
            reading = read_reply(signature, text, truncated=truncated)
        else:
            reading = read_laid_out(signature, text, layout, truncated=truncated)
    except ParseFailure:
        return None
    return {name: serialize_for_json(value) for name, value in reading.outputs.items()}


def outcome(row: Mapping[str, Any], outputs: Mapping[str, Any] | None) -> str:
    """One of `OUTCOMES`; of a row without labels `read` or `refused`."""
    if "readable" not in row:
        return "refused" if outputs is None else "read"
    if outputs is None:
        return "refused" if row["readable"] else "kept off"
    also = row.get("also") or {}
    if not row["readable"]:
        harmless = also and all(any(same(outputs[name], one) for one in also[name]) for name in also)
        return "kept off" if harmless else "wrong"
    value_read = ((name, outputs.get(name), value) for name, value in row["values"].items())
    for name, value, wanted in value_read:
        if not any(same(value, one) for one in (wanted, *also.get(name, ()))):
            return "wrong"
    return "right"


def same(value_read: Any, wanted: Any) -> bool:
    """Whether both say the same; case, blanks, markup, outer quotes and a last full stop do not count."""
    if wanted is None:
        return True
    if isinstance(wanted, str) and isinstance(value_read, str):
        return _plain(value_read) == _plain(wanted)
    if isinstance(wanted, list) and isinstance(value_read, list):
        return len(value_read) == len(wanted) and all(map(same, value_read, wanted))
    if isinstance(wanted, dict) and isinstance(value_read, dict):
        return all(same(value_read.get(name), value) for name, value in wanted.items())
    return type(value_read) is type(wanted) and bool(value_read == wanted)


_OUTER = " .\"'`*_\u201c\u201d\u2018\u2019"


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[*`_]", "", text).split()).strip(_OUTER).casefold()


def rows_of(name: str) -> list[dict[str, Any]]:
    """The replies in the file `name`, here or elsewhere."""
    path = HERE / name if (HERE / name).exists() else Path(name)
    text = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    return [json.loads(line) for line in text.decode("utf-8").splitlines() if line.strip()]


def rates(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """How many of `rows` have which outcome."""
    return Counter(outcome(row, read(row)) for row in rows)


def table(title: str, rows: Sequence[Mapping[str, Any]], key: str) -> None:
    """Prints the outcomes by what `key` says of a row."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        counts[str(row.get(key, ""))][row["outcome"]] += 1
    print(f"\n{title:<44}" + "".join(f"{name:>10}" for name in OUTCOMES))
    for name, count in sorted(counts.items()):
        print(f"{name[:42]:<44}" + "".join(f"{count[one]:>10}" for one in OUTCOMES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("files", nargs="*", default=["work.jsonl"])
    parser.add_argument("--show", action="store_true", help="print each reply that was refused or wrong")
    arguments = parser.parse_args()
    for name in arguments.files:
        rows = rows_of(name)
        for row in rows:
            row["found"] = read(row)
            row["outcome"] = outcome(row, row["found"])
        print(f"{name}: {summary(rows)}")
        for key in ("shape", "family", "layout"):
            table(f"by {key}", rows, key)
        for row in rows if arguments.show else ():
            if row["outcome"] in ("refused", "wrong"):
                show(row)


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many of `rows`, which have their outcomes, were readable, right and wrong."""
    total = Counter(row["outcome"] for row in rows)
    if total["read"]:
        return f"{len(rows)} replies, {total['read']} read, {total['refused']} refused"
    readable = sum(row.get("readable", False) for row in rows)
    share = total["right"] / readable if readable else 0.0
    wrong = f"{total['wrong']} wrong"
    return f"{len(rows)} replies, {readable} readable, {total['right']} right ({share:.1%}), {wrong}"


def show(row: Mapping[str, Any]) -> None:
    """Prints a reply, what was wanted of it and what was found."""
    print(f"\n{row['outcome']} {row['id']} {row['signature']} {row['layout']} {row['shape']}\n{row['reply']}")
    for name, values in (("wanted", row.get("values")), ("found", row["found"])):
        print(f"  {name:<6} {json.dumps(values, ensure_ascii=False)}")


if __name__ == "__main__":
    main()
