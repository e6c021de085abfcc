"""Checks of stored files: replies, indexes, weights, prompt prefixes and studies.

Files are read completely; nothing is changed or deleted. Damage that is repaired at the next use, by a new
request, build or download, is not a failure.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ragc.core.digest import file_digest
from ragc.core.display import quantity
from ragc.core.home import cache_home
from ragc.core.progress import SILENT, Progress
from ragc.doctor.check import Check
from ragc.errors import RagcError

MAX_LISTED_SETS = 5
"""The most sets of test questions whose looks are listed."""


def store_check(*, whole: bool, progress: Progress = SILENT) -> Check:
    """Returns whether the call store can be used; with `whole`, how many of its replies are damaged."""
    from ragc.store.call_store import open_store

    try:
        store = open_store()
    except RagcError as error:
        return Check("store", False, str(error))
    try:
        free = shutil.disk_usage(cache_home()).free >> 20 if cache_home().exists() else None
        free_note = "" if free is None else f", {free} MiB free"
        if not whole:
            return Check("store", free is None or free > 200, f"{store.where}{free_note}")
        progress.phase("reading the store", None)
        audit = store.audit(progress.step)
        remedy = store.remedy
    except RagcError as error:
        return Check("store", False, str(error))
    finally:
        store.close()
    if audit.broken:
        return Check("store", False, f"{store.where} is damaged ({audit.broken}); {remedy}")
    if audit.damaged:
        message = (
            f"{audit.damaged:,} of {audit.rows:,} stored replies are damaged; they will be asked again: "
            "nothing to do"
        )
        return Check("store", False, message, needed=False)
    return Check("store", free is None or free > 200, f"{store.where}, {audit.rows:,} replies{free_note}")


def index_checks(progress: Progress = SILENT) -> list[Check]:
    """Returns one check for all intact indexes, and one for each damaged one."""
    from ragc.corpora.storage.index_cache import BUILDING, SMALL, damage, indexes_home

    home = indexes_home()
    folders = [path for path in sorted(home.glob("*/*")) if path.is_dir() and path.suffix != BUILDING]
    checks: list[Check] = []
    progress.phase("reading the indexes", None)
    for folder in folders:
        name = f"the {folder.parent.name} index {folder.name}"
        try:
            wrong = damage(folder, progress.step)
            small = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) <= SMALL
        except OSError as error:
            wrong, small = f"{error.strerror or error}", False
        if wrong:
            remedy = "it is built again at its next use: nothing to do" if small else f"delete {folder}"
            checks.append(Check("index", False, f"{name} is damaged ({wrong}); {remedy}", needed=False))
    whole = len(folders) - len(checks)
    if whole:
        checks.append(Check("indexes", True, f"{whole:,} whole, in {home}", needed=False))
    return checks


def weights_checks(*, whole: bool, progress: Progress = SILENT) -> list[Check]:
    """Returns the weights and the embedder that ragc downloads; with `whole`, verified by their SHA-256."""
    from ragc.corpora.embed.base import DEFAULT
    from ragc.corpora.embed.minilm import MINILM
    from ragc.targets.embedded.weights import SMOLLM2

    if whole:
        progress.phase("reading the weights", None)
    weights_file = cache_home() / "weights" / SMOLLM2.name
    if weights_file.is_file():
        bad = whole and _sha256(weights_file) != SMOLLM2.sha256
        checks = [Check("weights", not bad, _describe_file(weights_file, bad), needed=False)]
    else:
        later = f"not downloaded yet; the first embedded run fetches {SMOLLM2.wheel_bytes / 1e6:.0f} MB"
        checks = [Check("weights", False, later, needed=False)]
    for part in MINILM:
        file = cache_home() / "embedders" / f"{DEFAULT}-int8" / part.name
        if file.is_file() and whole and _sha256(file) != part.sha256:
            checks.append(Check("embedder", False, _describe_file(file, True), needed=False))
    return checks


def prefix_checks(progress: Progress = SILENT) -> list[Check]:
    """Returns one check for all states of prompt prefixes stored by the embedded target, if there are any."""
    from ragc.targets.embedded.prefix_states import PrefixStates

    states = PrefixStates()
    count = len(states.paths())
    if not count:
        return []
    progress.phase("reading the prompt prefixes", None)
    if damaged := states.damaged():
        message = (
            f"{len(damaged):,} of {count:,} are damaged; they are computed anew at their next use: "
            "nothing to do"
        )
        return [Check("prefixes", False, message, needed=False)]
    return [Check("prefixes", True, f"{count:,} whole, in {states.folder}", needed=False)]


def study_checks(progress: Progress = SILENT) -> list[Check]:
    """Returns one check for all intact studies, and one for each damaged one."""
    from ragc.optimizers.status import damage

    folders = sorted(path for path in (cache_home() / "studies").glob("*") if path.is_dir())
    progress.phase("reading the studies", None)
    checks: list[Check] = []
    for folder in folders:
        if wrong := damage(folder):
            checks.append(Check("study", False, f"{folder.name}: {wrong}", needed=False))
        progress.step()
    whole = len(folders) - len(checks)
    if whole:
        checks.append(Check("studies", True, f"{whole:,} whole, in {cache_home() / 'studies'}", needed=False))
    return checks


def look_checks() -> list[Check]:
    """Returns one check for looks at test questions, and one for other uses, if there are any."""
    from ragc.store.looks import read
    from ragc.store.uses import ledger_file
    from ragc.store.uses import read as read_uses

    path = ledger_file()
    try:
        ledger, log = read_uses(path), read()
    except OSError as error:
        where = error.filename or path
        return [Check("looks", False, f"{where} cannot be read: {error.strerror or error}", needed=False)]
    if log.damaged:
        message = (
            f"{log.damaged:,} lines of {path} are damaged, so there may have been more looks, and questions "
            "that earlier searches used may be scored as test"
        )
        return [Check("looks", False, message, needed=False)]
    searched = {(use.questions.digest, use.role): use.questions.n for use in ledger.searched}
    held = f"{sum(searched.values()):,} questions in {quantity(len(searched), 'set')} of train and dev"
    used = [Check("uses", True, f"{held}, in {path}", needed=False)] if searched else []
    if not log.count:
        return used
    sets = [f"{looks:,} at {questions:,} questions" for questions, looks in log.sets]
    rest = f" and {len(sets) - MAX_LISTED_SETS:,} sets more" if len(sets) > MAX_LISTED_SETS else ""
    listed = ", ".join(sets[:MAX_LISTED_SETS])
    total = f"{log.count:,} at test questions"
    return [*used, Check("looks", True, f"{total}: {listed}{rest}, in {path}", needed=False)]


def examine_kept(*, whole: bool, progress: Progress = SILENT) -> Sequence[Check]:
    """Returns all checks of this module; without `whole` no file content is read."""
    checks = [store_check(whole=whole, progress=progress), *weights_checks(whole=whole, progress=progress)]
    checks += look_checks()
    if whole:
        checks += [*index_checks(progress), *prefix_checks(progress), *study_checks(progress)]
    return checks


def _describe_file(file: Path, bad: bool) -> str:
    return f"{file.name} is damaged; delete {file} to have it fetched again" if bad else file.name


def _sha256(file: Path) -> str:
    try:
        return file_digest(file)
    except OSError:
        return ""
