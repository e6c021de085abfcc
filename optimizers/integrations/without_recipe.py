"""Programs, targets and sources without a recipe: each is built by a call and passed to the next.

    lm = ragc.target("embedded")
    local = ragc.source("bm25", corpus="handbook.jsonl")
    program = ragc.program("vanilla", main=lm, local=local, top_k=3)
    program(question="Which exception ends an iterator?").answer

The arguments are those of the tables `[targets.ROLE]` and `[sources.NAME]` of recipes. The same functions
build both, so options, defaults and errors are the same. Relative paths start at the working directory.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import dspy

from ragc import corpora, targets
from ragc.core.files import cache_home, missing_file
from ragc.core.redact import holds_key
from ragc.core.user_code import is_reference
from ragc.corpora.files.records import is_address, read_passages
from ragc.corpora.sources.base import Source
from ragc.corpora.sources.function import FunctionSource
from ragc.corpora.sources.options import build as build_source
from ragc.corpora.sources.recorded import Recorder
from ragc.corpora.storage.corpus import Corpus, corpus_of
from ragc.downloads import is_hub_file
from ragc.errors import UnknownName, UsageError, nearest
from ragc.programs import Method, method
from ragc.programs.base import RagProgram
from ragc.programs.runtime import Runtime
from ragc.recipe import Recipe
from ragc.records import Passage
from ragc.store.calls import CallStore, open_store
from ragc.targets.base import ROLES, Target
from ragc.targets.dspy_lm import DspyTarget, target_of
from ragc.targets.options import TargetSpec
from ragc.task.data import RecipeData

ADVICE = "pass {name}=ragc.{kind}(...)"
"""What to do about a target or source that is missing, where there is no recipe to add it to."""

OWN = {"target": "a dspy.LM", "source": "a function"}
"""What else can stand in the place of a target or source."""

Passages = Iterable[Passage | Mapping[str, Any] | str]

_LM_OPTIONS = ("context_tokens", "concurrency", "price")


def build_program(name: Any, parts: Mapping[str, Any], *, store: bool = True) -> RagProgram:
    """Builds the program `name` on the targets and sources in `parts`; the rest are knobs.

    `name` is an id, a reference to a class in a module beside the working directory, or the caller's own
    dspy.Module.

    Raises UnknownName for a program, role, source or knob that does not exist, and UsageError for one that is
    missing or out of range.
    """
    chosen = _method(name)
    roles, sources, knobs = _sorted_parts(chosen, _adapted(chosen, parts))
    runtime = Runtime(roles, sources, store=open_call_store(keep=store), advice=ADVICE)
    return chosen.build(runtime, knobs)


def _method(name: Any) -> Method:
    if isinstance(name, str) and not is_reference(name):
        return method(name)
    from ragc.programs.own import method_of, own_method

    if isinstance(name, str):
        return own_method(name, Path.cwd())
    return method_of(name)


def _adapted(chosen: Method, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `parts` with DSPy's LMs as targets and functions as sources; `lm` becomes the role main.

    Without a target for main, the LM of `dspy.configure` or `dspy.context` is used.
    """
    adapted = dict(parts)
    if "lm" in adapted:
        if "main" in adapted:
            raise UsageError("`lm` and `main` name the same target, and both were passed; leave one out.")
        lm = adapted.pop("lm")
        adapted["main"] = lm if _is_target(lm) else target_of(lm)
    elif "main" in chosen.roles and "main" not in adapted and dspy.settings.lm is not None:
        adapted["main"] = target_of(dspy.settings.lm)
    known = (*chosen.sources, *chosen.optional_sources)
    for name, part in adapted.items():
        if isinstance(part, dspy.BaseLM):
            adapted[name] = target_of(part)
        elif name in known and callable(part) and not _is_source(part) and not _is_target(part):
            adapted[name] = FunctionSource(part)
    return adapted


def _sorted_parts(
    chosen: Method, parts: Mapping[str, Any]
) -> tuple[dict[str, Target], dict[str, Source], dict[str, Any]]:
    """Returns `parts` as targets, sources and knobs, distinguished by their methods."""
    roles = {name: part for name, part in parts.items() if _is_target(part)}
    sources = {name: part for name, part in parts.items() if _is_source(part)}
    knobs = {name: part for name, part in parts.items() if name not in roles and name not in sources}
    fallbacks = {other for target in roles.values() for other in _fallbacks(target)}
    known_sources = (*chosen.sources, *chosen.optional_sources)
    for name in parts:
        category = "target" if name in ROLES else "source" if name in known_sources else ""
        if category and name not in (roles if category == "target" else sources):
            raise UsageError(
                f"Program {chosen.id!r} takes a {category} as {name!r}, found {type(parts[name]).__name__}; "
                f"{ADVICE.format(name=name, kind=category)} or {OWN[category]}."
            )
        if name in roles and name not in ROLES and name not in fallbacks:
            raise UnknownName("target role", name, ROLES)
        if name in sources and not category:
            raise UnknownName(f"source of {chosen.id}", name, known_sources)
        if name in knobs and name not in (declared := [knob.name for knob in chosen.knobs.list_knobs()]):
            raise UnknownName(f"knob of {chosen.id}", name, declared)
    return roles, sources, knobs


def _is_target(part: object) -> bool:
    return callable(getattr(part, "complete", None)) and callable(getattr(part, "count_tokens", None))


def _is_source(part: object) -> bool:
    return callable(getattr(part, "search", None)) and hasattr(part, "fingerprint")


def _fallbacks(target: Target) -> Iterable[str]:
    return getattr(getattr(target, "options", None), "fallbacks", ())


_OWN_ARGUMENTS = ("model", "base_url")


def build_target(kind: Any, model: str, base_url: str, options: Mapping[str, Any]) -> Target:
    """Builds the target of that kind; it is not opened, so nothing is loaded or sent.

    Raises what `ragc.target` raises.
    """
    if not isinstance(kind, str):
        if unknown := [name for name in options if name not in _LM_OPTIONS]:
            raise UnknownName("option of an LM", unknown[0], _LM_OPTIONS)
        if model or base_url:
            raise UsageError("An LM of DSPy has its model and address already; leave model and base_url out.")
        return DspyTarget(kind, **options)
    record = targets.TARGETS.get(kind)
    if holds_key(options.get("api_key_env")):
        raise UsageError(
            "The option api_key_env of a target names an environment variable, such as OPENAI_API_KEY; it "
            "must not hold the key itself."
        )
    for name in options:
        if name not in record.options.model_fields and nearest(name, _OWN_ARGUMENTS):
            raise UnknownName("argument of ragc.target", name, _OWN_ARGUMENTS)
    if model and record.model_file and not is_hub_file(model):
        model = str(_existing("model", model))
    spec = TargetSpec().replace(kind=kind, model=model, base_url=base_url, options=dict(options))
    return targets.build(spec)


def build_one_source(
    kind: Any,
    corpus: str | Path | Passages | None,
    fields: Mapping[str, str],
    options: Mapping[str, Any],
    *,
    store: bool = True,
    record: str | Path | None = None,
) -> Source:
    """Builds the source of that kind over `corpus`; nothing is sent or indexed yet.

    Raises what `ragc.source` raises.
    """
    if callable(kind):
        if corpus is not None or fields or options or record is not None:
            raise UsageError("A function finds by itself; leave corpus, fields, record and options out.")
        return FunctionSource(kind)
    known = corpora.SOURCES.get(kind)
    passages: Corpus | None = None
    recording = ""
    if known.corpus == "passages":
        passages = _read_corpus(kind, corpus, fields)
    elif known.corpus == "file" and isinstance(corpus, str | Path):
        recording = str(_existing("corpus", corpus))
    elif corpus is not None:
        raise UsageError(f"A source of kind {kind!r} searches no corpus of passages; leave corpus out.")
    if record is not None and known.per_question:
        raise UsageError(
            f"What a source of kind {kind!r} finds depends on the question that is answered, so its searches "
            "cannot be recorded; leave record out."
        )
    call_store = open_call_store(keep=store)
    source = build_source(
        known, options, passages, call_store, recording=recording, resolve=Path.cwd().joinpath
    )
    return source if record is None else Recorder(source, record)


def _read_corpus(kind: str, corpus: str | Path | Passages | None, fields: Mapping[str, str]) -> Corpus:
    """Returns the passages of `corpus`, in memory or in a file, for a source of that kind."""
    if corpus is None:
        raise UsageError(
            f"A source of kind {kind!r} searches a corpus; pass corpus= the path of a file or a list of "
            "passages."
        )
    if isinstance(corpus, str | Path):
        named = str(corpus) if is_address(str(corpus)) else str(_existing("corpus", corpus))
        recipe = Recipe(program="no_retrieval").at(Path.cwd())
        return RecipeData(recipe).read_corpus(kind, named, dict(fields))
    if fields:
        raise UsageError("`fields` maps the columns of a file; a list of passages has none, so leave it out.")
    return corpus_of(read_passages(corpus))


def _existing(name: str, path: str | Path) -> Path:
    """Returns `path` from the working directory. Raises UsageError with the nearest name if missing."""
    absolute = Path.cwd() / Path(path).expanduser()
    try:
        there = absolute.exists()
    except (OSError, ValueError):
        there = False
    if not there:
        raise UsageError(missing_file(f"{name} = {str(path)!r}", str(path), Path.cwd()))
    return absolute


def open_call_store(*, keep: bool = True) -> CallStore:
    """Returns the user's call store, one for the whole process; with `keep` False a new one in memory."""
    if not keep:
        return CallStore(None, memory=sys.maxsize)
    return _shared_store(str(cache_home()))


@lru_cache(maxsize=4)
def _shared_store(home: str) -> CallStore:
    """Returns the store for the present value of RAGC_HOME, which `open_store` reads."""
    return open_store()
