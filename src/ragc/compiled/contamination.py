"""Contamination: test questions that taught or chose a program before they are to test it.

    at a compile       a question that any earlier search on this machine used as train or dev (the record of
                       used questions), or that is a train or dev question of the same recipe, in whatever
                       spelling
    at an evaluation   a question whose digest is in the compiled program: its train and dev questions, and
                       those that earlier searches had used when it was compiled

Such questions are left out by default and named. With `include_seen` they are scored, and the verdict, the
rows and the report say so. An empty split is refused. Near duplicates are named, not left out.

A study reads the record once, when it starts, and stores the result in `seen.json` of its directory, so that
a resume tests on the same questions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ragc.compiled.study_rows import SEEN_FILE
from ragc.core.digest import digest, pretty
from ragc.core.display import quantity
from ragc.core.files import put_file, read_text
from ragc.corpora.files.splits import near_duplicates
from ragc.errors import ArtefactError, StoreError, UsageError
from ragc.records import Question
from ragc.store.used_questions import UsedQuestions, opened, question_digest
from ragc.task.answering import Row
from ragc.task.base import Task

FORMAT = "ragc.question"
"""The normalisation of the digests in a compiled program."""

MAX_NAMED = 5
"""The most questions that a sentence names."""

EARLIER = "an earlier search"
"""The role of questions that this program's compile found in the record, at an evaluation."""

UNCHECKED = "the compiled program has no digests of its train and dev questions, so they were not checked"
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
        return asdict(self)

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
class UsedDigests:
    """The digests of questions that a program may not be tested on, by their use.

    `earlier` are the questions of its test split that earlier searches had used.
    """

    train: frozenset[str] = frozenset()
    dev: frozenset[str] = frozenset()
    earlier: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, str]:
        """Returns the entry `questions` of `provenance.json`: the digests of each use, joined to one text."""
        joined = {name: "".join(sorted(digests)) for name, digests in asdict(self).items()}
        return {"marks": FORMAT} | {name: text for name, text in joined.items() if text}

    def joined(self, other: UsedDigests) -> UsedDigests:
        """Returns the digests of both."""
        return UsedDigests(self.train | other.train, self.dev | other.dev, self.earlier | other.earlier)

    def role(self, question: str, searched: Mapping[str, str]) -> str:
        """Returns how the `question` with this digest was used; "" if it was not.

        `searched` has the roles in earlier searches, by digest.
        """
        own = [name for name in ("train", "dev") if question in getattr(self, name)]
        if own or question in searched:
            return " and ".join(own) or f"{searched[question]} by {EARLIER}"
        return EARLIER if question in self.earlier else ""


def check_compile(
    task: Task, directory: Path | None, *, include_seen: bool = False
) -> tuple[Task, Contamination]:
    """Checks the test questions of `task` against the record of used questions, and records its own.

    Returns the task without the questions that are left out, with the digests of all in its facts. What
    earlier searches used is read from `directory`, the study's, if that study has begun. Without a directory
    (a dry run) nothing is recorded and nothing is written. Raises UsageError if no test question is left,
    StoreError if the record cannot be used, and ArtefactError for damage in `directory`.
    """
    own = digests_of(task)
    seen_file = None if directory is None else directory / SEEN_FILE
    stored = None if seen_file is None else _read_seen(seen_file, task.facts["data"])
    with opened(write=seen_file is not None) as record:
        searched = stored
        if searched is None:
            searched = record.roles(map(_digest, task.test), (own.train, own.dev))
        contamination = _checked(task, own, searched, [*_train(task), *task.dev], include_seen)
        if seen_file and stored is None:  # before the use is recorded, which a resume then does after a kill
            seen = {"format": FORMAT, "roles": searched, "data": task.facts["data"]}
            put_file(seen_file, pretty(seen).encode())
        if seen_file:
            _add(record, task, "compile", ("train", "dev"))
    facts: dict[str, Any] = {"contamination": contamination.to_json()} if contamination else {}
    facts["questions"] = replace(own, earlier=frozenset(searched)).to_json()
    return replace(_without(task, contamination), facts={**task.facts, **facts}), contamination


def check_evaluation(
    task: Task, provenance: Mapping[str, Any] | None, split: str, *, include_seen: bool = False
) -> tuple[Task, Contamination]:
    """Checks the questions of `split` against the digests in the `provenance` of a compiled program.

    Returns the task without the questions that are left out, those of the test split only. A program without
    provenance, that of a recipe, learns from the train questions of `task` alone. Raises UsageError if no
    test question is left, and ArtefactError for damaged digests.
    """
    if provenance is None and split != "test":
        return task, CLEAN
    held = UsedDigests(digests_of(task).train) if provenance is None else digests_in(provenance)
    if held is None:
        return task, Contamination(len(task.test), unchecked=UNCHECKED) if split == "test" else CLEAN
    if split != "test":
        questions, own = task.splits.get(split, ()), replace(held, earlier=frozenset())
        return task, Contamination(len(questions), _used(questions, own, {}), scored=True)
    others = [q for q in (*_train(task), *task.dev) if _digest(q) in held.train | held.dev]
    contamination = _checked(task, held, {}, others, include_seen)
    return _without(task, contamination), contamination


def record(task: Task, work: str, roles: Iterable[str] = ("train", "dev")) -> str:
    """Records the questions of `roles` in `task` as used by `work`, such as "grid".

    Returns a sentence if that fails, "" otherwise: such work tests nothing, so it continues without.
    """
    try:
        with opened() as used:
            _add(used, task, work, roles)
    except StoreError as error:
        return f"This use of the questions is not recorded: {error}"
    return ""


def digests_of(task: Task) -> UsedDigests:
    """Returns the digests of the train and dev questions of `task`."""
    return UsedDigests(frozenset(map(_digest, _train(task))), frozenset(map(_digest, task.dev)))


def digests_in(provenance: Mapping[str, Any]) -> UsedDigests | None:
    """Returns the digests in the `provenance` of a compiled program; None if it has none.

    Raises ArtefactError if they are damaged.
    """
    held = provenance.get("questions")
    if held is None:
        return None
    uses = [str(held.get(name, "")) for name in ("train", "dev", "earlier")] if isinstance(held, dict) else []
    whole = all(re.fullmatch("([0-9a-f]{16})*", use) for use in uses)
    if not uses or held.get("marks") != FORMAT or not whole:
        raise ArtefactError(
            "The digests of questions in provenance.json are damaged, so nobody knows which questions chose "
            "the program; copy the compiled directory again, or compile the recipe again."
        )
    return UsedDigests(*(frozenset(re.findall(".{16}", use)) for use in uses))


def question_facts(task: Task, before: UsedDigests | None = None) -> dict[str, Any]:
    """Returns the entry of `provenance.json` on train and dev questions of `task`.

    `before` are the digests of the compiled program that the search began with: the questions that taught or
    chose it count for this one too.
    """
    return {"questions": digests_of(task).joined(before or UsedDigests()).to_json()}


def recipe_digest(task: Task) -> str:
    """Returns the digest of the recipe of `task` in the record of used questions."""
    return digest(task.recipe.identity())[:32]


def _train(task: Task) -> tuple[Question, ...]:
    """Returns the questions that may teach a program of `task`, those of another domain too."""
    return (*task.train, *(task.other.questions if task.other else ()))


def _digest(question: Question) -> str:
    return question_digest(question.whole_text)


def _add(used: UsedQuestions, task: Task, work: str, roles: Iterable[str]) -> None:
    for role in roles:
        if role in ("train", "dev"):
            used.add(role, work, getattr(digests_of(task), role), recipe_digest(task))


def _read_seen(path: Path, data: object) -> dict[str, str] | None:
    """Returns the roles by digest that a study began with, from its file `path`; None if there is none.

    Raises ArtefactError for damage, UsageError if the study began with other questions than `data` describes.
    """
    try:
        held = json.loads(read_text(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):
        held = None
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise ArtefactError(
            f"{path} is damaged, so nobody knows which test questions the study leaves out; leave --resume "
            "out to begin anew, which replays what was answered."
        )
    if held["data"] != data:
        raise UsageError(
            "The data of the recipe changed since the study began, though the recipe did not; undo the "
            "change, or leave --resume out to begin anew."
        )
    roles: dict[str, str] = held["roles"]
    return roles


def _used(questions: Sequence[Question], own: UsedDigests, searched: Mapping[str, str]) -> dict[str, str]:
    """Returns the uses of `questions` by id; see `UsedDigests.role`."""
    return {q.id: role for q in questions if (role := own.role(_digest(q), searched))}


def _checked(
    task: Task, own: UsedDigests, searched: Mapping[str, str], others: Sequence[Question], include_seen: bool
) -> Contamination:
    """Returns the check of the test questions of `task`; near duplicates are those of `others`.

    Raises UsageError if no question is left.
    """
    used = _used(task.test, own, searched)
    if used and len(used) == len(task.test) and not include_seen:
        raise UsageError(
            f"All {quantity(len(used), 'test question')} were used as train or dev before ({_named(used)}), "
            "so none is left to test on; name other test questions, or score these, marked, with "
            "--include-seen (include_seen=True)."
        )
    free = [question for question in task.test if question.id not in used]
    others = [*others, *(question for question in task.test if question.id in used)]
    return Contamination(len(task.test), used, include_seen and bool(used), near_duplicates(free, others))


def _without(task: Task, contamination: Contamination) -> Task:
    """Returns `task` without the test questions that are left out."""
    test = tuple(question for question in task.test if question.id not in contamination.left_out)
    return replace(task, splits={**task.splits, "test": test}) if contamination.left_out else task
