"""Questions of another domain, whose demonstrations a study may show in the place of its own.

RAG-X shows examples of other domains beside those of the question's own ("cross-domain", Table 5). There
the domain is told of each question; here the other domain is a question file that the recipe names.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ragc.corpora.splits import check_disjoint
from ragc.errors import DataError
from ragc.optimizers.data import Known, RecipeData
from ragc.optimizers.sources import SEARCHES_PASSAGES
from ragc.optimizers.sources import build as build_source
from ragc.programs.runtime import Runtime
from ragc.progress import Progress
from ragc.recipe import Data, Recipe
from ragc.records import Question
from ragc.store import CallStore

MOST = 60
"""Questions drawn from the file where the recipe draws no train questions."""


@dataclass(frozen=True, slots=True)
class OtherDomain:
    """The questions, and the runtime whose sources hold their passages."""

    questions: tuple[Question, ...]
    runtime: Runtime


def other_domain(
    recipe: Recipe,
    runtime: Runtime,
    splits: dict[str, tuple[Question, ...]],
    *,
    store: CallStore,
    progress: Progress | None = None,
) -> OtherDomain | None:
    """What `data.cross_domain` of `recipe` names, as many questions as there are for training.

    None where it names nothing. Its sources are those of `runtime`, or of the same kinds over
    `data.cross_domain_corpus`. Raises DataError for a file that holds no question or shares one with
    `splits`.
    """
    path, corpus = recipe.data.cross_domain, recipe.data.cross_domain_corpus
    if not path:
        return None
    own = replace(recipe, data=Data(questions=path, corpus=corpus))
    data = RecipeData(own, progress)
    specs = {name: spec for name, spec in recipe.sources.items() if spec.kind in SEARCHES_PASSAGES and corpus}
    bare = {name: replace(spec, corpus="", fields={}) for name, spec in specs.items()}
    corpora = {name: data.corpus(spec) for name, spec in bare.items()}
    questions = list(data.pool(Known(corpora.values())))
    if not questions:
        raise DataError(path, ["it holds no question of another domain"])
    random.Random(f"cross-domain {recipe.seed}").shuffle(questions)
    kept = tuple(questions[: len(splits.get("train", ())) or MOST])
    check_disjoint({**splits, "cross_domain": kept})
    sources = {name: build_source(own, spec, corpora[name], store) for name, spec in bare.items()}
    return OtherDomain(kept, runtime.searching(sources))
