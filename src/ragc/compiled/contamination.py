"""Contamination: test questions that taught or chose a program before they are to test it.

    at a compile       a question that any earlier search on this machine used as train or dev (the ledger of
                       uses), or that is a train or dev question of the same recipe but for its spelling
    at an evaluation   a question whose mark is in the compiled program: its train and dev questions, and
                       those that earlier searches had used when it was compiled

Such questions are left out by default and named. With `include_seen` they are scored, and the verdict, the
rows and the report say so. An empty split is refused. Near duplicates are named, not left out.

A study reads the ledger once, when it starts, and stores the result in `seen.json` of its directory, so that
a resume tests on the same questions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragc.compiled.study_rows import SEEN_FILE
from ragc.core.digest import add_digest, digest, pretty, verify_digest
from ragc.core.display import quantity
from ragc.core.files import put_file, read_text
from ragc.corpora.files.near_duplicates import near_duplicates
from ragc.errors import ArtefactError, StoreError, UsageError
from ragc.records import Question
from ragc.store import uses
from ragc.store.question_marks import mark
from ragc.store.uses import QuestionIndex, QuestionSet, Use, UseLedger
from ragc.task.answering import Row
from ragc.task.base import Task

FORMAT = "ragc.question"
"""The normalisation of the marks in a compiled program."""

MAX_NAMED = 5
"""The most questions that a sentence names."""

EARLIER = "an earlier search"
"""The role of questions that this program's compile found in the ledger, at an evaluation."""

NO_MARKS_NOTE = "the compiled program has no digests of its train and dev questions, so they were not checked"
"""Why a compiled program from elsewhere is not checked."""


@dataclass(frozen=True, slots=True)
class Contamination:
    """The check of `questions` test questions.

    `used` has the earlier use of each contaminated question, by id and in the order of the split: "train",
    "dev" or "train and dev", followed by "by an earlier search" if that was not this program's own. They are
    `scored` or left out. `near` has the ids of test questions and of nearly equal train or dev questions.
    `unchecked` says what could not be checked, "" for nothing.
    """

    questions: int = 0
    used: Mapping[str, str] = field(default_factory=dict)
    scored: bool = False
    near: Mapping[str, str] = field(default_factory=dict)
    unchecked: str = ""

    def __bool__(self) -> bool:
        """Returns whether there is anything to report."""
        return bool(self.used or self.near or self.unchecked)

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {
            "questions": self.questions,
            "used": dict(self.used),
            "scored": self.scored,
            "near": dict(self.near),
            "unchecked": self.unchecked,
        }

    @property
    def left_out(self) -> frozenset[str]:
        """The ids of the test questions that are not scored."""
        return frozenset() if self.scored else frozenset(self.used)

    @property
    def mark(self) -> str:
        """Returns the suffix of a verdict on questions that were seen before; "" if none was scored."""
        if not (self.used and self.scored):
            return ""
        return f"{len(self.used):,} of {self.questions:,} test questions were seen before"

    @property
    def sentences(self) -> tuple[str, ...]:
        """Returns for people what was left out or scored anyway, near duplicates, and unchecked parts."""
        out = []
        if self.used:
            count = f"{len(self.used):,} of {quantity(self.questions, 'test question')}"
            were = "was" if len(self.used) == 1 else "were"
            how = "scored nevertheless, so these scores flatter"
            if not self.scored:
                how = "left out; --include-seen scores all, marked"
            out.append(f"{count} {were} used as train or dev before ({_named(self.used)}) and {how}.")
        if self.near:
            pairs = [f"{one} like {other}" for one, other in self.near.items()]
            count = f"{quantity(len(pairs), 'test question')} {'is' if len(pairs) == 1 else 'are'} scored"
            out.append(f"{count} whose text is nearly that of a question seen before ({_named(pairs)}).")
        if self.unchecked:
            out.append(f"Whether all test questions are new is not known: {self.unchecked}.")
        return tuple(out)

    def marked(self, rows: Iterable[Row]) -> tuple[Row, ...]:
        """Returns `rows`, marked if their question was used before."""
        used = self.used
        return tuple(
            [replace(row, seen=used[row.question.id]) if row.question.id in used else row for row in rows]
        )


CLEAN = Contamination()


def _named(names: Iterable[str]) -> str:
    """Returns the first names, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - MAX_NAMED:,} more" if len(every) > MAX_NAMED else ""
    return ", ".join(every[:MAX_NAMED]) + more


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of questions that a program may not be tested on, joined, by their use.

    `earlier` are the questions of its test split that earlier searches had used.
    """

    train: str = ""
    dev: str = ""
    earlier: str = ""

    def to_json(self) -> dict[str, str]:
        """Returns the entry `questions` of `provenance.json`."""
        held = {"train": self.train, "dev": self.dev, "earlier": self.earlier}
        return {"marks": FORMAT} | {name: marks for name, marks in held.items() if marks}

    def joined(self, other: Marks) -> Marks:
        """Returns the marks of both, joined."""
        pairs = ((self.train, other.train), (self.dev, other.dev), (self.earlier, other.earlier))
        return Marks(*("".join(sorted(set(uses.split_marks("".join(pair))))) for pair in pairs))


def check_compile(
    task: Task, directory: Path | None, *, include_seen: bool = False
) -> tuple[Task, Contamination]:
    """Checks the test questions of `task` against the ledger of uses, and records train and dev questions.

    Returns the task without the questions that are left out, with the marks of all in its facts. The uses are
    read from `directory`, the study's, if that study has begun. Without a directory (a dry run) nothing is
    recorded and nothing is written. Raises UsageError if no test question is left, StoreError if the ledger
    cannot be used, and ArtefactError for a damaged record in `directory`.
    """
    own = _own_sets(task)
    index = QuestionIndex([question.whole_text for question in task.test])
    marks = marks_of_task(task)

    def checked(earlier: _EarlierUses) -> Contamination:
        roles = _roles(task.test, index, marks, earlier.roles)
        others = [*_train(task), *task.dev]
        return _contamination_of(task, roles, earlier.unchecked, others, include_seen)

    if directory is None:
        contamination = checked(earlier := _look_up(task, index, own))
    else:
        earlier, contamination = _study_contamination(task, index, own, directory, checked)
    facts: dict[str, Any] = {"contamination": contamination.to_json()} if contamination else {}
    known = [text for q in task.test if mark(text := q.whole_text) in earlier.roles]
    facts["questions"] = replace(marks, earlier=QuestionSet.of(known).marks).to_json()
    return replace(_without(task, contamination), facts={**task.facts, **facts}), contamination


def marks_of_task(task: Task) -> Marks:
    """Returns the marks of the train and dev questions of `task`."""
    own = _own_sets(task)
    return Marks(own["train"].marks, own["dev"].marks)


def question_facts(task: Task, before: Marks | None = None) -> dict[str, Any]:
    """Returns the entry of `provenance.json` on train and dev questions of `task`.

    `before` are the marks of the compiled program that the search began with: the questions that taught or
    chose it count for this one too.
    """
    own = marks_of_task(task)
    return {"questions": (own if before is None else own.joined(before)).to_json()}


def check_evaluation(
    task: Task, provenance: Mapping[str, Any] | None, split: str, *, include_seen: bool = False
) -> tuple[Task, Contamination]:
    """Checks the questions of `split` against the marks in the `provenance` of a compiled program.

    Returns the task without the questions that are left out, those of the test split only. A program without
    provenance, that of a recipe, learns from the train questions of `task` alone. Raises UsageError if no
    test question is left, and ArtefactError for damaged marks.
    """
    marks = Marks(_own_sets(task)["train"].marks) if provenance is None else marks_in(provenance)
    if provenance is None and split != "test":
        return task, CLEAN
    if marks is None:
        return task, Contamination(len(task.test), unchecked=NO_MARKS_NOTE) if split == "test" else CLEAN
    questions = task.splits.get(split, ())
    index = QuestionIndex([question.whole_text for question in questions])
    roles = _roles(questions, index, marks, {})
    if split != "test":
        own = {questions[position].id: role for position, role in roles.items() if role != EARLIER}
        return task, Contamination(len(questions), own, scored=True)
    known = frozenset(one for joined in (marks.train, marks.dev) for one in uses.split_marks(joined))
    others = [q for q in (*_train(task), *task.dev) if mark(q.whole_text) in known]
    contamination = _contamination_of(task, roles, "", others, include_seen)
    return _without(task, contamination), contamination


def marks_in(provenance: Mapping[str, Any]) -> Marks | None:
    """Returns the marks in the `provenance` of a compiled program; None if it has none.

    Raises ArtefactError if they are damaged.
    """
    held = provenance.get("questions")
    if held is None:
        return None
    names = ("train", "dev", "earlier")
    whole = isinstance(held, dict) and all(uses.are_marks(held.get(name, "")) for name in names)
    if not whole or held.get("marks") != FORMAT:
        raise ArtefactError(
            "The digests of questions in provenance.json are damaged, so nobody knows which questions chose "
            "the program; copy the compiled directory again, or compile the recipe again."
        )
    return Marks(*(held.get(name, "") for name in names))


def record(task: Task, work: str, roles: Iterable[str] = ("train", "dev")) -> str:
    """Records the questions of `roles` in `task` as used by `work`, such as "grid".

    Returns a sentence if that fails, "" otherwise: such work tests nothing, so it continues without.
    """
    try:
        with uses.opened() as ledger:
            ledger.append(use for use in _uses_of(task, work) if use.role in set(roles))
    except StoreError as error:
        return f"This use of the questions is not recorded: {error}"
    return ""


def recipe_digest(task: Task) -> str:
    """Returns the digest of the recipe of `task` in the ledger of uses."""
    return digest(task.recipe.identity())[:32]


@dataclass(frozen=True, slots=True)
class _EarlierUses:
    """The ledger's record on test questions: roles in earlier searches by mark, and what is unknown."""

    roles: Mapping[str, str]
    unchecked: str = ""


def _train(task: Task) -> tuple[Question, ...]:
    """Returns the questions that may teach a program of `task`, those of another domain too."""
    return (*task.train, *(task.other.questions if task.other else ()))


def _own_sets(task: Task) -> dict[str, QuestionSet]:
    """Returns the train and dev questions of `task`."""
    held = {"train": _train(task), "dev": task.dev}
    return {role: QuestionSet.of(q.whole_text for q in questions) for role, questions in held.items()}


def _uses_of(task: Task, work: str) -> list[Use]:
    """Returns the uses of the train and dev questions of `task` by `work`."""
    sets, recipe = _own_sets(task), recipe_digest(task)
    return [Use("train", work, sets["train"], recipe), Use("dev", work, sets["dev"], recipe)]


def _look_up(task: Task, index: QuestionIndex, own: Mapping[str, QuestionSet]) -> _EarlierUses:
    """Looks up the questions of `index` in the ledger of uses. Raises StoreError if it cannot be read."""
    path = uses.ledger_file()
    try:
        return _read_from(uses.read(path), task, index, own)
    except OSError as error:
        raise uses.UnusableLedger(path, error) from error


def _read_from(
    ledger: UseLedger, task: Task, index: QuestionIndex, own: Mapping[str, QuestionSet]
) -> _EarlierUses:
    """Returns the uses of the questions of `index` in `ledger`, except uses of this task's own sets.

    Those are uses by the same study, or by one that adds no risk: this task's own check finds them.
    """
    own_digests = {held.digest for held in own.values()}
    roles: dict[int, set[str]] = {}
    for use in {(use.role, use.questions): use for use in ledger.searched}.values():
        if use.questions.digest in own_digests:
            continue
        for position in index.positions_of(use.questions):
            roles.setdefault(position, set()).add(use.role)
    lines = quantity(ledger.damaged, "line")
    unchecked = f"{lines} of the ledger of uses cannot be read" if ledger.damaged else ""
    by_mark = {
        mark(task.test[position].whole_text): " and ".join(sorted(names, reverse=True))
        for position, names in roles.items()
    }
    return _EarlierUses(dict(sorted(by_mark.items())), unchecked)


def _study_contamination(
    task: Task,
    index: QuestionIndex,
    own: Mapping[str, QuestionSet],
    directory: Path,
    checked: Callable[[_EarlierUses], Contamination],
) -> tuple[_EarlierUses, Contamination]:
    """Returns the uses known when the study in `directory` began; a new study reads and is recorded.

    A study that `checked` refuses uses nothing, so it is not recorded. The record is written before the use
    is appended: after a kill between them the resumed study appends it.
    """
    path = directory / SEEN_FILE
    stored = _read_record(path, task.facts["data"])
    with uses.opened() as ledger:
        earlier = stored or _read_from(ledger.content, task, index, own)
        contamination = checked(earlier)
        if stored is None:
            content = {
                "format": FORMAT,
                "roles": dict(earlier.roles),
                "unchecked": earlier.unchecked,
                "data": task.facts["data"],
            }
            put_file(path, pretty(add_digest(content)).encode())
        ledger.append(_uses_of(task, "compile"))
    return earlier, contamination


def _read_record(path: Path, data: object) -> _EarlierUses | None:
    """Returns the record of a study in the file `path`; None if there is none.

    Raises ArtefactError for damage, UsageError if the study began with other questions than `data` describes.
    """
    try:
        held = verify_digest(json.loads(read_text(path)))
        if held is None:
            raise ValueError
        roles = {str(mark): str(role) for mark, role in held["roles"].items()}
        earlier = _EarlierUses(roles, str(held["unchecked"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ArtefactError(
            f"{path} is damaged, so nobody knows which test questions the study leaves out; leave --resume "
            "out to begin anew, which replays what was answered."
        ) from None
    if held.get("data", data) != data:
        raise UsageError(
            "The data of the recipe changed since the study began, though the recipe did not; undo the "
            "change, or leave --resume out to begin anew."
        )
    return earlier


def _roles(
    questions: Sequence[Question], index: QuestionIndex, marks: Marks, earlier: Mapping[str, str]
) -> dict[int, str]:
    """Returns the earlier use of `questions` by position; those never used are left out.

    `marks` are those of the program; `earlier` has the roles in earlier searches by mark.
    """
    train, dev = (index.positions_in(uses.split_marks(joined)) for joined in (marks.train, marks.dev))
    before = index.positions_in(uses.split_marks(marks.earlier))
    out = {}
    for position, question in enumerate(questions):
        if position in train:
            out[position] = "train and dev" if position in dev else "train"
        elif position in dev:
            out[position] = "dev"
        elif earlier and (searched := earlier.get(mark(question.whole_text))):
            out[position] = f"{searched} by {EARLIER}"
        elif position in before:
            out[position] = EARLIER
    return out


def _contamination_of(
    task: Task,
    roles: Mapping[int, str],
    unchecked: str,
    others: Sequence[Question],
    include_seen: bool,
) -> Contamination:
    """Returns the check of the test questions of `task` with these `roles`; near duplicates are those of
    `others`.

    Raises UsageError if no question is left.
    """
    test = task.test
    ids = {test[position].id: role for position, role in roles.items()}
    if ids and len(ids) == len(test) and not include_seen:
        raise UsageError(
            f"All {quantity(len(test), 'test question')} were used as train or dev before ({_named(ids)}), "
            "so none is left to test on; name other test questions, or score these, marked, with "
            "--include-seen (include_seen=True)."
        )
    free = [question for question in test if question.id not in ids]
    used = [question for question in test if question.id in ids]
    near = near_duplicates(free, [*others, *used])
    return Contamination(len(test), ids, include_seen and bool(ids), near, unchecked)


def _without(task: Task, contamination: Contamination) -> Task:
    """Returns `task` without the test questions that are left out."""
    if contamination.scored or not contamination.used:
        return task
    test = tuple(question for question in task.test if question.id not in contamination.used)
    return replace(task, splits={**task.splits, "test": test})
