"""What differs between a run and the paper, in sentences: model, corpus, sample, metric, setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ragc.core.display import quantity
from ragc.core.redact import redact
from ragc.optimizers.grids.tables import recipes
from ragc.optimizers.grids.tables.result import Cell
from ragc.optimizers.grids.tables.table import Table
from ragc.recipe.load import set_keys

_SETTINGS = ("knobs", "sources", "search", "seed")
"""First keys of overrides that change what a row measures."""

FEW_QUESTIONS = 100
"""Questions below which a sentence warns that a difference of a few points cannot be seen."""


def sentences(
    table: Table,
    beside: str,
    cells: Iterable[Cell],
    targets: Mapping[str, str],
    backends: Mapping[str, str],
    unmeasured: Mapping[str, str],
    sets: Sequence[str] = (),
) -> tuple[str, ...]:
    """Returns the sentences on a run of `table`; `targets` names the models by role, `backends` the judges by
    family.

    `unmeasured` says why metrics were not computed. `sets` are the user's overrides.
    """
    done = list(cells)
    return (
        *_models(table, beside, done, targets),
        *_own_settings(sets),
        *_samples(table, done),
        *_unanswered(done),
        *_sources(table, done),
        *_stand_ins(table, done, sets),
        *_learned(done),
        *_metrics(table, backends, unmeasured),
        "Prompts are worded by us, and replies are held to a schema where the model's server can.",
        *table.notes,
        *(f"{row.id}: {row.note}" for row in table.rows if row.note and _has_run(row.id, done)),
    )


def _has_run(row: str, cells: list[Cell]) -> bool:
    return any(cell.row == row for cell in cells)


def _models(table: Table, beside: str, cells: list[Cell], targets: Mapping[str, str]) -> Iterator[str]:
    yield f"Model: {targets.get('main', 'none')} here, {beside} in the paper's figures."
    others: dict[str, list[str]] = {}
    for row in table.rows:
        if _has_run(row.id, cells) and row.figures and (model := row.model_beside(beside)) != beside:
            others.setdefault(model, []).append(row.id)
    for model, rows in others.items():
        yield f"The figures of {', '.join(rows)} are of {model}; the paper has none of {beside} there."
    for role in ("proxy", "judge"):
        if role in targets and (paper := table.setting.get(role)):
            yield f"{role.capitalize()}: {targets[role]} here, {paper} in the paper."


def _own_settings(sets: Sequence[str]) -> Iterator[str]:
    """Yields the settings that the user changed, except models, which have sentences of their own."""
    own = [redact(text) for text in sets if any(keys[0] in _SETTINGS for keys in set_keys([text]))]
    if own:
        yield f"Set here: {', '.join(own)}; all else is as in the table."


def _unanswered(cells: list[Cell]) -> Iterator[str]:
    for cell in cells:
        if cell.failed:
            where = f"{cell.row} on {cell.data}"
            yield f"No answer: {cell.failed:,} of {cell.n:,} questions of {where}, which count as wrong."


def _samples(table: Table, cells: list[Cell]) -> Iterator[str]:
    for data in dict.fromkeys(cell.data for cell in cells):
        sizes = {cell.n for cell in cells if cell.data == data}
        cell = max((cell for cell in cells if cell.data == data), key=lambda cell: cell.passages)
        use = table.use(data)
        sample = f"; {use.sample:,} in the paper" if use.sample else ""
        answered = "/".join(f"{size:,}" for size in sorted(sizes))
        there = f"{quantity(cell.there, 'question')} in {cell.questions}"
        yield f"Sample of {data}: {answered} of {there}{sample}."
        if cell.passages and use.corpus:
            yield f"Corpus of {data}: {quantity(cell.passages, 'passage')} here; {use.corpus} in the paper."
    if cells and min(cell.n for cell in cells) < FEW_QUESTIONS:
        yield "So few questions bear no claim on a difference of a few points: read the intervals."


def _sources(table: Table, cells: list[Cell]) -> Iterator[str]:
    kinds: dict[str, dict[str, None]] = {}
    for cell in cells:
        for name, kind in cell.sources.items():
            kinds.setdefault(name, {})[kind] = None
    for name, listed in kinds.items():
        if paper := table.setting.get(name):
            yield f"Source {name}: {', '.join(listed)} here; {paper} in the paper."


def _stand_ins(table: Table, cells: list[Cell], sets: Sequence[str]) -> Iterator[str]:
    """Yields a sentence for each source that is replaced by one half of another source's passages."""
    for name, other in recipes.stand_ins(table, sets).items():
        if any(name in cell.sources for cell in cells):
            yield (
                f"Nobody configured the source {name}: it searches one half of the passages and {other} "
                f"the other half, told apart by passage id, so {other} finds less than in the paper. The "
                f"real one is --set sources.{name}.kind={name}; {other} then searches all."
            )


def _learned(cells: list[Cell]) -> Iterator[str]:
    """Yields on what data rows learned, and how many demonstrations they showed."""
    for data in dict.fromkeys(cell.data for cell in cells):
        there = [cell for cell in cells if cell.data == data]
        if learners := [cell for cell in there if cell.train]:
            held_out = f"questions of {learners[0].questions}, which are not answered"
            of = held_out if learners[0].held_out else "train questions"
            sizes = "/".join(f"{size:,}" for size in sorted({cell.train for cell in learners}))
            yield f"Learned on {data}: {', '.join(cell.row for cell in learners)} from {sizes} {of}."
        if showing := ", ".join(f"{cell.row} {cell.demos}" for cell in there if cell.demos):
            yield f"Demonstrations on {data}, worded by us: {showing}."


def _metrics(table: Table, backends: Mapping[str, str], unmeasured: Mapping[str, str]) -> Iterator[str]:
    for family, backend in backends.items():
        paper = table.setting.get("judge" if family == "crag" else "entailment")
        yield f"Metric family {family}: {backend} here" + (f"; {paper} in the paper." if paper else ".")
    for metric, why in unmeasured.items():
        yield f"Not measured: {metric}, because {why}."
