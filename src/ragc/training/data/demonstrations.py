"""The demonstrations of a compiled program as conversations: each call's prompt with the wanted reply.

Its own demonstrations come first, then those of its study's pools, if the study is on this machine. The pools
hold demonstrations from train questions that were answered well, or filled in with their gold answers. A
prompt is the program's, with its instructions and layout and without demonstrations. No model is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ragc.compiled import base as compiled
from ragc.compiled.resolve import Opening, import_program
from ragc.core.extras import __version__
from ragc.errors import NothingAnswered, RagcError, UnknownName
from ragc.exports.derive import runtime, tables
from ragc.optimizers.candidates.demos.pool import Demo, DemoPool
from ragc.optimizers.grids.provenance import origin_of
from ragc.optimizers.search.storage import read_study, study_directory
from ragc.programs import method
from ragc.recipe.values import CROSS
from ragc.training import FORMATS
from ragc.training.data import card
from ragc.training.data.base import Item, conversation, drop_repeated, reply
from ragc.training.data.build import TrainingData
from ragc.training.data.files import DataFiles

KIND = "demonstrations"
INCOMPLETE = "a demonstration without all fields of its call"


def build(
    path: str | Path, out: str | Path, *, format: str = "trl", how: Opening | None = None
) -> TrainingData:
    """Writes the demonstrations of the compiled program at `path`, and of its study, to `out`.

    Raises ArtefactError, Untrusted for the author's own program if that is not allowed, UsageError for an
    `out` with something else, and NothingAnswered without a demonstration.
    """
    if format not in FORMATS:
        raise UnknownName("format of training data", format, FORMATS)
    files = DataFiles(out)
    loaded = compiled.load(path)
    import_program(loaded, how or Opening())
    recipe = tables(loaded.recipe)
    program = loaded.build(runtime(method(loaded.state.method), recipe))
    items, drops = list[Item](), Counter[str]()
    for name, call in program.named_calls():
        call.demos, call.nearest = [], 0
        fields = {*call.signature.input_fields, *call.signature.output_fields}
        for demo in (*loaded.state.predictors[name].demos, *_of_study(Path(path), name)):
            if not fields <= demo.keys():
                drops[INCOMPLETE] += 1
                continue
            shown = {field: demo[field] for field in call.signature.input_fields}
            items.append(Item({"messages": [*conversation(call, shown), reply(call, demo)]}, name))
    selection = drop_repeated(items)
    drops.update(selection.drops)
    if not selection.items:
        raise NothingAnswered(
            f"The compiled program at {path} shows no demonstrations, and its study on this machine has "
            "none; compile it with search.demos above 0."
        )
    classes = dict(sorted(Counter(item.label for item in selection.items).items()))
    rows = [item.row for item in selection.items]
    data = recipe.get("data") or {}
    origin = origin_of(str(data.get("dataset", "jsonl")))
    facts = {
        "compiled program": loaded.fingerprint,
        "program": loaded.state.method,
        "data set": data.get("dataset", "jsonl"),
        "split": "train",
        "licence of the source": card.licence_of(origin),
        **{
            f"model of the role {role}": target.get("name", "")
            for role, target in sorted((loaded.provenance.get("targets") or {}).items())
        },
        "seed": recipe.get("seed", 0),
        "ragc": __version__,
    }
    text = card.text_of(files.rows.name, KIND, facts, classes, dict(sorted(drops.items())), (), format)
    files.write(rows, text)
    return TrainingData(KIND, files.rows, rows, classes, dict(drops), {})


def _of_study(path: Path, predictor: str) -> Iterator[Demo]:
    """Returns a predictor's demonstrations in the pools of the study that compiled `path`, if it is here.

    Those of another domain are left out. An unreadable study has none.
    """
    try:
        study = read_study(study_directory(path))
    except RagcError:
        return
    attributes: Mapping[str, Any] = study.user_attrs if study is not None else {}
    for name in sorted(attributes):
        if name.startswith("pool:") and not name.startswith(f"pool:{CROSS}:"):
            pool = DemoPool.of(attributes[name])
            for part in (pool.filled, pool.labelled_demos, pool.by_label):
                yield from (one.values for one in part.get(predictor, ()))
