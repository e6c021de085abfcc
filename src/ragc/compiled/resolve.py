"""Resolves the recipe of a compiled directory for opening it: overrides, trust, and missing files.

recipe.toml ──► overrides ──► the parts in use ──► trust ──► files that are missing
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ragc.compiled import trust
from ragc.compiled.access import Access
from ragc.compiled.base import PROGRAM_FACTS, CompiledProgram, ProgramState
from ragc.compiled.trust_record import base_of, code_files, is_trusted
from ragc.core.files import missing_file, read_bytes
from ragc.core.marks import RequestedAccess
from ragc.core.user_code import is_reference
from ragc.corpora import SOURCES, datasets
from ragc.corpora.files.records import files_named, is_address
from ragc.errors import RecipeError, Untrusted
from ragc.programs import NAMES, method
from ragc.recipe import Recipe, parse, set_keys
from ragc.recipe.models import CostLimits
from ragc.recipe.rules import lacking_parts
from ragc.recipe.values import CALLERS_METRIC
from ragc.targets.base import ROLES


@dataclass(frozen=True, slots=True)
class Opening:
    """The user's options for opening a directory.

    `sets` override its recipe; `access` is what a directory from elsewhere may do.
    """

    sets: tuple[str, ...] = ()
    access: Access = Access()


def resolve(
    compiled: CompiledProgram, how: Opening, *, questions: bool = True, stand_ins: bool = False
) -> Recipe:
    """Returns the part of `compiled`'s recipe that opening it needs, checked for trust and missing files.

    No model and no data is read. `questions` says whether the splits' questions are needed. `stand_ins` says
    that the caller supplies targets in place of the recipe's. Raises Untrusted, and RecipeError with
    everything that is wrong or missing, such as a target that was an object of the caller's.
    """
    whole, folder, root, outside = _read(compiled, how)
    recipe = _strip_unused(whole, compiled.state, questions=questions)
    used = recipe.replace(targets={}) if stand_ins else recipe
    if outside:
        _refuse(used, folder, root, how)
    problems = [text for want in trust.list_accesses(used) if (text := _missing(want, root))]
    roles = ROLES if stand_ins else recipe.targets
    lacking = lacking_parts(method(recipe.program), roles, recipe.sources)
    problems += [_by_override(part, recipe.program) for part in lacking]
    if problems:
        raise RecipeError(str(folder / "recipe.toml"), problems)
    return recipe


def _by_override(part: str, program: str) -> str:
    """Returns the sentence on a table that `program` needs and that was an object in Python.

    The recipe of a compiled directory is not to be edited, so an override is named.
    """
    kind = f"{part}.kind={'embedded' if part.startswith('targets') else 'bm25'}"
    return (
        f"program {program!r} needs [{part}], which was an object in Python; name it with --set {kind} and "
        f"what else it takes (in Python sets=['{kind}'])"
    )


def check_access(compiled: CompiledProgram, how: Opening) -> None:
    """Raises Untrusted if `compiled` wants access that `how` does not allow; imports nothing of it.

    The questions of its splits are not looked at. Raises RecipeError for its recipe with `how.sets`.
    """
    folder = compiled.path if compiled.path is not None else Path()
    refuse_chosen(how.sets, str(folder / "recipe.toml"))
    if is_trusted(compiled.digest, folder):
        return
    no_code = replace(how, access=replace(how.access, code=False))
    recipe, folder, root, _ = _read(compiled, no_code)
    _refuse(_strip_unused(recipe, compiled.state, questions=False), folder, root, how)


def _refuse(recipe: Recipe, folder: Path, root: Path, how: Opening) -> None:
    trust.refuse(
        recipe,
        root,
        where=folder,
        typed=set_keys(how.sets),
        own_root=how.access.base is not None,
        access=how.access,
    )


_CHOSEN = ("knobs", "prompts")
"""The tables of a recipe whose values are part of a compiled program."""


def refuse_chosen(sets: Sequence[str], where: str) -> None:
    """Raises RecipeError for overrides of what a compiled program fixes; `where` names its recipe."""
    problems = [
        f"--set {expression} does nothing to a compiled program: its {keys[0]} were chosen when it was "
        "compiled. Compile again with it. What can be set here are targets, sources, data, metrics and study."
        for expression in sets
        for keys in set_keys([expression])
        if keys[0] in _CHOSEN
    ]
    if problems:
        raise RecipeError(where, problems)


def import_program(compiled: CompiledProgram, how: Opening) -> None:
    """Imports the module of `compiled`'s author if its program is one. Nothing else is read.

    Raises Untrusted if that is not allowed, and RecipeError if it cannot be imported.
    """
    if is_reference(compiled.state.method):
        recipe, folder, root, outside = _read(compiled, how)
        if outside:
            bare = Recipe(program=recipe.program).at(root)
            trust.refuse(
                bare, root, where=folder, typed=set_keys(how.sets), access=Access(code=how.access.code)
            )


def _read(compiled: CompiledProgram, how: Opening) -> tuple[Recipe, Path, Path, bool]:
    """Returns the recipe of `compiled`, its folder, the folder of its paths, and whether it is from outside.

    The module of its author is imported if that is allowed.
    """
    folder = compiled.path if compiled.path is not None else Path()
    where = str(folder / "recipe.toml")
    refuse_chosen(how.sets, where)
    outside = not is_trusted(compiled.digest, folder)
    root = folder.resolve() if outside else base_of(compiled.digest, folder)
    if how.access.base is not None:
        base = Path(how.access.base)
        root = base.resolve()
        if not root.is_dir():
            raise RecipeError(where, [f"--base {str(base)!r} is no folder; name where its paths lead from"])
    if root == folder.resolve():
        sys.dont_write_bytecode = True  # what Python compiles would be another file of the author's code
    is_unaltered: bool | None = None
    typed = ("program",) in set_keys(how.sets)
    if not outside and root == folder.resolve() and not typed:
        is_unaltered = _import_stored(compiled, folder)
        outside = is_unaltered is False
    if typed and outside and not how.access.code and root == folder.resolve() and code_files(folder):
        # The name that the user typed is the user's word; what the directory laid under it is not.
        reason = f"{folder} is from elsewhere, and the program that you named would be sought in its modules"
        raise Untrusted(
            f"{reason}; name a folder of your own with access=ragc.Access(base=...), or allow its modules "
            "with access=ragc.Access(code=True).",
            command=f"{reason}; name a folder of your own with --base DIR, or allow them with --trust-code.",
        )
    allowed = not is_unaltered and (not outside or how.access.code or typed)
    recipe = parse(compiled.recipe, how.sets, where=where, base=root, files=False, stored=True, code=allowed)
    return recipe, folder, root, outside


def _import_stored(compiled: CompiledProgram, folder: Path) -> bool | None:
    """Imports the module stored in `compiled`, that file alone; returns False if its digest differs.

    None if it stores none; its program is then imported from Python's path.
    The digest of the directory covers the file by its digest in `provenance.json`.
    """
    held = compiled.provenance.get(PROGRAM_FACTS)
    facts = held if isinstance(held, dict) else {}
    name = str(facts.get("file") or "")
    if not name or facts.get("beside") or not is_reference(compiled.state.method):
        return None  # what it imports was carried along, and the digest covers every module in the folder
    try:
        content = read_bytes(folder / name, within=folder)
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return False
    if hashlib.sha256(content).hexdigest() != facts.get("sha256"):
        return False
    from ragc.programs.own import kept_method

    kept_method(compiled.state.method, folder / name, folder)
    return True


def _strip_unused(recipe: Recipe, state: ProgramState, *, questions: bool) -> Recipe:
    """Returns `recipe` without compile-only parts and, unless `questions`, without those for scoring.

    The limits name metrics that are reported beside the others.
    """
    search = recipe.search.replace(
        programs=(), knobs=(), ranges={}, demos=0, instructions=0, demo_kinds=("filled",), front=0,
        limits=recipe.search.limits if questions else CostLimits(), pick=recipe.search.pick_name,
    )  # fmt: skip
    own = state.method if state.method in NAMES else recipe.program
    data = recipe.data.replace(cross_domain="", cross_domain_corpus="")
    needed = recipe.replace(program=own, search=search, data=data, prompts={})
    if CALLERS_METRIC in (*recipe.metrics.report, recipe.search.pick_name):  # a function, which is not here
        report = tuple(name for name in recipe.metrics.report if name != CALLERS_METRIC) or ("em",)
        needed = needed.replace(
            metrics=recipe.metrics.replace(report=report),
            search=search.replace(objectives=("em",), pick="em"),
        )
    if questions:
        return needed
    if not _brings_passages(recipe):
        dataset = "jsonl" if is_address(data.dataset) else data.dataset
        data = data.replace(dataset=dataset, questions="", train=None, dev=None, test=None)
        needed = needed.replace(data=data)
    playing = {"main", "proxy", *(call.role for call in state.predictors.values()), *state.targets.values()}
    names = [name for name in recipe.targets if name in playing]
    for name in names:  # grows by the fallbacks
        listed = recipe.targets[name].options.get("fallbacks", ())
        names += [other for other in listed if other in recipe.targets and other not in names]
    playing_targets = {name: spec for name, spec in recipe.targets.items() if name in names}
    scored = tuple(name for name in needed.metrics.report if not trust.is_code(name)) or ("em",)
    search = search.replace(objectives=("em",), pick="em")
    metrics = recipe.metrics.replace(report=scored, entailment="lexical")
    return needed.replace(search=search, targets=playing_targets, metrics=metrics)


def _brings_passages(recipe: Recipe) -> bool:
    """Returns whether a source searches the passages that come with a named data set's questions."""
    records = [SOURCES.loaded(spec.kind) for spec in recipe.sources.values() if not spec.corpus]
    bare = any(record is None or record.corpus == "passages" for record in records)
    return bare and recipe.data.dataset in datasets.FILES


def _missing(want: RequestedAccess, root: Path) -> str:
    """Returns the message about a missing file and its remedy; "" if the file exists."""
    if want.kind != "reads" or not want.path or want.model:
        return ""
    try:
        if files_named(root, want.path):
            return ""
        text = missing_file(f"{want}", want.path, root)
    except (OSError, ValueError) as error:
        text = f"{want} cannot be looked at ({error})"
    if Path(want.path).is_absolute():
        return f"{text}; name it with --set {want.name}=FILE"
    return f"{text}; it leads from {root}: say where relative paths lead from with --base DIR"
