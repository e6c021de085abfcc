"""Everything ragc raises on purpose.

    RagcError                      exit 1: the run failed
    ├── UsageError                 exit 2: what was asked cannot be done
    │   ├── UnknownName            a name that nothing answers to, with the nearest one that exists
    │   ├── RecipeError            all problems of one recipe, each with its line
    │   └── DataError              all problems of one data file, each with its line
    ├── TargetError                a language model could not answer
    │   ├── TargetUnavailable      no endpoint, refused, timed out: another try may succeed
    │   └── CapabilityMissing      the target cannot do what the program needs
    ├── ParseFailure               a reply did not fit its signature
    ├── SourceError                a search could not be made
    ├── StoreError                 the call store cannot be read or written
    ├── BudgetExhausted            the next request would pass the budget
    ├── NothingAnswered            every question failed under every trial
    └── ArtefactError              a compiled program or study cannot be read
        └── Untrusted              one from outside wants what nobody allowed it

Every message says what was asked, what was found and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any


class RagcError(Exception):
    """Base of every error that ragc raises on purpose; the command line exits 1."""

    exit_code = 1


class UsageError(RagcError):
    """The request itself is wrong; the command line exits 2 and nothing was sent."""

    exit_code = 2


def nearest(name: str, known: Iterable[str]) -> str:
    """The sentence ` Did you mean 'x'?` for the closest known name, or an empty string."""
    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


class UnknownName(UsageError):
    """A name that nothing answers to."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        listed = ", ".join(self.known) or "none"
        super().__init__(f"No {kind} is named {name!r}.{nearest(name, self.known)} Known: {listed}.")


class Problems(UsageError):
    """All problems of one file, reported together."""

    def __init__(self, where: str, problems: Sequence[str]) -> None:
        self.where, self.problems = where, tuple(problems)
        if len(self.problems) == 1:
            text = f"{where}: {self.problems[0]}"
        else:
            text = f"{where}: {len(self.problems)} problems\n" + "\n".join(f"  {p}" for p in self.problems)
        super().__init__(text)


class RecipeError(Problems):
    """A recipe that cannot be run."""


class DataError(Problems):
    """A question or corpus file that cannot be used."""


class TargetError(RagcError):
    """A language model could not answer.

    `endpoint` is what was asked, `request_id` the number that a server gave the request; "" where not known.
    """

    def __init__(self, message: str, *, endpoint: str = "", request_id: str = "") -> None:
        self.endpoint, self.request_id = endpoint, request_id
        super().__init__(message)


class TargetUnavailable(TargetError):
    """The endpoint refused, timed out or failed in a way that another try may cure."""


class CapabilityMissing(TargetError, UsageError):
    """The target cannot do what the program needs; raised before the first call."""


class ParseFailure(RagcError):
    """A reply did not fit its signature, and the repair call did not help.

    `counters` are what the question that it ended cost, by name, and `events` the trace until then; both are
    empty where no program answered a question.
    """

    counters: Mapping[str, float] = MappingProxyType({})
    events: tuple[Any, ...] = ()


class SourceError(RagcError):
    """A search could not be made."""


class StoreError(RagcError):
    """The call store cannot be read or written."""


class BudgetExhausted(RagcError):
    """The next request would pass the budget; what was done so far is kept."""


class NothingAnswered(RagcError):
    """Every question failed under every trial, so there is nothing to compile; all replies are kept."""


class ArtefactError(UsageError):
    """A compiled program, study or recipe directory cannot be read."""


class Untrusted(ArtefactError):
    """A compiled directory from outside would run, read or speak to what nobody allowed it."""
