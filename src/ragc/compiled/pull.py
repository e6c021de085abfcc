"""Fetches the models of a recipe or compiled program ahead, so that it runs without a network afterwards.

recipe ──► targets, options of sources, metrics ──► models by name ──► weights in the user's caches

Only models that ragc or their library would fetch by themselves later: ragc's own weights, embedders, and
models of the Hugging Face Hub by their id. Models in folders, and those of servers, stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragc import recipe as recipes
from ragc.compiled.access import Access
from ragc.compiled.base import load
from ragc.compiled.opened import program_or_recipe
from ragc.compiled.resolve import Opening, resolve
from ragc.core.marks import marked
from ragc.core.progress import Progress, listening
from ragc.corpora import SOURCES, embed
from ragc.corpora.embed import ALIASES, DEFAULT
from ragc.corpora.rerank import RERANKER, split
from ragc.downloads import default_weights, fetch_hub_file, is_hub_file
from ragc.errors import UsageError
from ragc.metrics.without_gold import EMBEDDED
from ragc.recipe import Recipe
from ragc.targets import TARGETS

Fetch = Callable[[Progress], None]
"""Makes a model present, loading nothing that is not needed for it."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """A model that is present now; `use` says what of the recipe needs it."""

    model: str
    use: str

    def to_json(self) -> dict[str, str]:
        """Returns JSON values only."""
        return {"model": self.model, "use": self.use}


def pull(
    path: str | Path | None, progress: Progress, *, sets: Sequence[str] = (), access: Access = Access()
) -> tuple[Pulled, ...]:
    """Fetches every model of the recipe or compiled program at `path`; without one the default weights.

    Raises Untrusted for a program from elsewhere that names models which `access` does not allow,
    TargetUnavailable and SourceError where one cannot be fetched, and UsageError where a library lacks.
    """
    recipe = None if path is None else _recipe_at(program_or_recipe(path), tuple(sets), access)
    pulled = []
    for (model, use), fetch in _models(recipe).items():
        progress.note(f"{model} ({use})")
        fetch(progress)
        pulled.append(Pulled(model, use))
    return tuple(pulled)


def _recipe_at(where: Path, sets: tuple[str, ...], access: Access) -> Recipe:
    """Returns the recipe, or that of a compiled directory as far as it needs it, checked for trust."""
    if where.is_dir():
        return resolve(load(where), Opening(sets, access), questions=False)
    base = None if access.base is None else Path(access.base)
    return recipes.load(where, sets, base=base, files=False)


def _models(recipe: Recipe | None) -> dict[tuple[str, str], Fetch]:
    """Returns the models to fetch by name and use, each once."""
    if recipe is None:
        weights = TARGETS.get("embedded").default_weights
        return {(weights, "the default of embedded targets"): _default_weights}
    models: dict[str, tuple[str, Fetch]] = {}
    for name, model, fetch in (*_of_targets(recipe), *_of_sources(recipe), *_of_metrics(recipe)):
        models.setdefault(model, (name, fetch))
    return {(model, use): fetch for model, (use, fetch) in models.items()}


def _of_targets(recipe: Recipe) -> Iterator[tuple[str, str, Fetch]]:
    for name, spec in sorted(recipe.targets.items()):
        record = TARGETS.loaded(spec.kind)
        if record is not None and (weights := record.weights_of(spec)):
            yield f"targets.{name}", weights, _default_weights
        elif record is not None and record.model_file and is_hub_file(spec.model):
            yield f"targets.{name}", spec.model, _hub_file(spec.model)


def _of_sources(recipe: Recipe) -> Iterator[tuple[str, str, Fetch]]:
    for name, spec in sorted(recipe.sources.items()):
        record = SOURCES.get(spec.kind)
        values = record.options.of(spec.options).model_dump()  # with the defaults, those of inner tables too
        for keys, value, mark in marked(record.options, values, ("sources", name, "options")):
            use = ".".join(map(str, keys))
            if mark is embed.EMBEDDER and value:
                yield from _embedder(use, str(value), recipe)
            elif mark is RERANKER and value:
                kind, model = split(str(value))
                if kind == "embed":
                    yield from _embedder(use, model or DEFAULT, recipe)
                elif kind == "cross" and not recipe.path(model).exists():
                    yield use, model, _from_hub(model)


def _of_metrics(recipe: Recipe) -> Iterator[tuple[str, str, Fetch]]:
    backend, colon, model = recipe.metrics.entailment.partition(":")
    if colon and not recipe.path(model).exists():
        yield f"metrics.entailment ({backend})", model.strip(), _from_hub(model.strip())
    named = {*recipe.metrics.report, *(name.removeprefix("-") for name in recipe.search.objectives)}
    for metric in sorted(named & EMBEDDED):
        yield from _embedder(f"the metric {metric}", DEFAULT, recipe)


def _embedder(use: str, name: str, recipe: Recipe) -> Iterator[tuple[str, str, Fetch]]:
    full = ALIASES.get(name, name)
    if not recipe.path(full).exists():

        def fetch(progress: Progress) -> None:
            embed.make(full, progress=progress).embed(["warm"])

        yield use, full, fetch


def _default_weights(progress: Progress) -> None:
    default_weights(progress.download)


def _hub_file(model: str) -> Fetch:
    def fetch(progress: Progress) -> None:
        with listening(progress.note):
            fetch_hub_file(model)

    return fetch


def _from_hub(model: str) -> Fetch:
    def fetch(progress: Progress) -> None:
        try:
            from huggingface_hub import snapshot_download
        except ModuleNotFoundError:
            raise UsageError(
                f"The model {model!r} is on the Hugging Face Hub, and huggingface_hub is not installed; run: "
                "pip install huggingface_hub"
            ) from None
        try:
            snapshot_download(model)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"The model {model!r} could not be fetched from the Hugging Face Hub "
                f"({type(error).__name__}); check the name and the network, or name a folder."
            ) from error

    return fetch
