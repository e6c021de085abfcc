"""All errors that ragc raises deliberately.

    RagcError                      exit 1: the run failed
    ├── UsageError                 exit 2: the request is invalid
    │   ├── UnknownName            an unknown name, with the nearest known one
    │   ├── RecipeError            all problems of one recipe, each with its key
    │   └── DataError              all problems of one data file, each with its line
    ├── TargetError                a language model could not answer
    │   ├── RequestRefused         this request is refused; others may be answered
    │   │   └── PromptTooLong      a prompt that cannot be cut to fit its context
    │   ├── TargetUnavailable      no endpoint, overloaded, timed out: a retry may succeed
    │   │   └── TargetStopped      nothing is answered until a key, a name or an address is set right
    │   └── CapabilityMissing      the target cannot do what the program needs
    ├── ParseFailure               a reply did not fit its signature
    ├── MetricFailure              a metric gave no score for a question
    ├── SourceError                a search failed
    ├── StoreError                 the call store cannot be read or written
    ├── BudgetExhausted            the next request would exceed the budget
    ├── NothingAnswered            every question failed under every trial
    └── ArtefactError              a compiled program or study cannot be read
        └── Untrusted              an untrusted one needs a permission

Every message says what was requested, what was found and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Literal


class RagcError(Exception):
    """Base of every error that ragc raises deliberately; the command line exits 1.

    Of an error that ended a question, `counters` are its costs by name, and `events` its trace so far. Both
    are empty outside a program.
    """

    exit_code = 1
    counters: Mapping[str, float] = MappingProxyType({})
    events: tuple[Any, ...] = ()


class UsageError(RagcError):
    """The request itself is invalid; the command line exits 2, and nothing was sent."""

    exit_code = 2


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the sentence ` Did you mean 'x'?` for the nearest known name, or an empty string."""
    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


class UnknownName(UsageError):
    """A name that does not exist; `advice`, a sentence on what to write, stands in for the nearest name."""

    def __init__(self, kind: str, name: str, known: Iterable[str], advice: str = "") -> None:
        self.kind, self.name, self.known = kind, name, tuple(known)
        listed = ", ".join(self.known) or "none"
        hint = f" {advice}" if advice else nearest(name, self.known)
        super().__init__(f"No {kind} is named {name!r}.{hint} Known: {listed}.")


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

    `endpoint` names the endpoint, `request_id` is the server's id of the request; "" if unknown. `refused`
    says that no reply was computed, so that the request costs nothing: it was not sent, or was refused.
    """

    def __init__(
        self, message: str, *, endpoint: str = "", request_id: str = "", refused: bool = False
    ) -> None:
        self.endpoint, self.request_id, self.refused = endpoint, request_id, refused
        super().__init__(message)


class RequestRefused(TargetError):
    """The server refused this request; it answers others.

    `kind` is "filtered" (a content filter) or "too long" (the context length), which are stored like a reply
    and counted, or "failed": any other refusal, which is not stored, as the user may mend its cause.
    """

    def __init__(
        self,
        message: str,
        kind: Literal["filtered", "too long", "failed"],
        *,
        endpoint: str = "",
        request_id: str = "",
        refused: bool = True,
    ) -> None:
        super().__init__(message, endpoint=endpoint, request_id=request_id, refused=refused)
        self.kind = kind


class PromptTooLong(RequestRefused, UsageError):
    """A prompt that cannot be cut to fit the context of its target; it was not sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "too long")


class TargetUnavailable(TargetError):
    """The endpoint refused, timed out or failed in a way that a retry may cure."""


class TargetStopped(TargetUnavailable):
    """Nothing is answered until the user sets something right: a key, a model's name, an address, a quota.

    `status` is that of an answer by which the address has no such page; else 0.
    """

    def __init__(
        self,
        message: str,
        *,
        endpoint: str = "",
        request_id: str = "",
        refused: bool = False,
        status: int = 0,
    ) -> None:
        super().__init__(message, endpoint=endpoint, request_id=request_id, refused=refused)
        self.status = status


class CapabilityMissing(TargetError, UsageError):
    """The target cannot do what the program needs; raised before the first call."""


class ParseFailure(RagcError):
    """A reply did not fit its signature, and the repair call did not help."""


class MetricFailure(RagcError):
    """A metric of the user's raised an error for a question, or gave what is no number."""


OF_ONE_QUESTION = (ParseFailure, RequestRefused, TargetUnavailable)
"""The errors that a question may end with while others are answered; not so `TargetStopped`, one of them."""


class SourceError(RagcError):
    """A search failed."""


class StoreError(RagcError):
    """The call store cannot be read or written."""


class BudgetExhausted(RagcError):
    """The next request would exceed the budget; completed work is stored."""


class NothingAnswered(RagcError):
    """Every question failed under every trial, so there is nothing to compile; all replies are stored."""


class ArtefactError(UsageError):
    """A compiled program, study or recipe directory cannot be read."""


class Untrusted(ArtefactError):
    """A compiled directory from outside would run, read or contact something that is not allowed.

    The message names the arguments of Python that allow it; `command` is the message with the flags of the
    command line.
    """

    def __init__(self, message: str, *, command: str = "") -> None:
        self.command = command or message
        super().__init__(message)
