"""Trace of one run: typed calls, searches and threshold checks in call-graph order.

Each event has its position: its number, or the number of its branch and its number there. Concurrent branches
are numbered before they start, so the order never depends on which of them finishes first.

A threshold check compares a score with a threshold knob. A knob declared with `threshold=True` is
used in no other way, and every comparison with it is recorded here. The trace then holds, by the knob's name,
each question's scores and decisions, so that the knob can be fitted.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from ragc.core.counters import passed
from ragc.core.event_loop import gather_or_cancel
from ragc.errors import ParseFailure, RequestRefused
from ragc.records import Hit

T = TypeVar("T")

watching_events: ContextVar[Callable[[Event], None] | None] = ContextVar("ragc_watching_events", default=None)
"""What is shown each event of a question as it happens, in any thread; None where nobody watches."""


class Sent:
    """The request and the replies of a typed call: chat messages as (role, content), and the replies.

    There are two replies if the first was unreadable and a second was requested. `thoughts` are those of each
    reply, shortened; "" if a model did not think. Messages are rendered when they are first read, as most
    calls are never read.
    """

    __slots__ = ("_messages", "_render", "replies", "thoughts")

    def __init__(
        self,
        render: Callable[[], Sequence[tuple[str, str]]] | None,
        replies: Iterable[str] = (),
        thoughts: Iterable[str] = (),
    ) -> None:
        self._render, self.replies, self.thoughts = render, tuple(replies), tuple(thoughts)
        self._messages: tuple[tuple[str, str], ...] = ()

    @property
    def messages(self) -> tuple[tuple[str, str], ...]:
        """The chat messages, in order."""
        if self._render is not None:
            self._messages, self._render = tuple((role, text) for role, text in self._render()), None
        return self._messages

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        messages = [{"role": role, "content": text} for role, text in self.messages]
        thoughts = {"thoughts": list(self.thoughts)} if any(self.thoughts) else {}
        return {"messages": messages, "replies": list(self.replies), **thoughts}

    def __reduce__(self) -> Any:  # what renders the messages belongs to this process
        return _sent_of, (self.messages, self.replies, self.thoughts)

    def __deepcopy__(self, memo: object) -> Sent:
        return self


def _sent_of(
    messages: tuple[tuple[str, str], ...], replies: tuple[str, ...], thoughts: tuple[str, ...] = ()
) -> Sent:
    return Sent(lambda: messages, replies, thoughts)


@dataclass(frozen=True, slots=True)
class Call:
    """One typed call: the predictor's name, the role that answered, inputs and outputs.

    Tokens are those of prompt and reply, a repair's included; 0 if the outputs were given, not requested.
    `mended` counts the values of the reply that were not written as requested. `sent` is the prompt with its
    replies; None if nothing was requested. `raised_limit` is the limit in tokens of the second request, if
    the first reply reached its own; else 0.
    """

    name: str
    role: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    truncated: bool = False
    repaired: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    at: tuple[int, ...] = ()
    mended: int = 0
    sent: Sent | None = field(default=None, compare=False, repr=False)
    raised_limit: int = 0

    @property
    def calls(self) -> int:
        """The requests to the model: two if the first reply was unreadable."""
        return 1 + self.repaired

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only; inputs and outputs as DSPy would serialise them."""
        return {
            "at": list(self.at),
            "call": self.name,
            "role": self.role,
            "inputs": dict(self.inputs),
            "outputs": dict(self.outputs),
            "truncated": self.truncated,
            "repaired": self.repaired,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            **({"mended": self.mended} if self.mended else {}),
            **({"raised_limit": self.raised_limit} if self.raised_limit else {}),
        }


@dataclass(frozen=True, slots=True)
class Search:
    """One search: the source's name, the query, the number of hits wanted, and the hits."""

    source: str
    query: str
    k: int
    hits: tuple[Hit, ...]
    at: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only; passages by id."""
        hits = [{"id": h.passage.id, "score": round(h.score, 6)} for h in self.hits]
        fields = {"search": self.source, "query": self.query, "k": self.k, "hits": hits}
        return {"at": list(self.at), **fields}


@dataclass(frozen=True, slots=True)
class Note:
    """A decision of the program worth showing: its subject and its outcome."""

    about: str
    outcome: str
    at: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {"at": list(self.at), "note": self.about, "outcome": self.outcome}


@dataclass(frozen=True, slots=True)
class UnreadableReply(Note):
    """A typed call whose reply was unreadable: `about` is its predictor, `outcome` the reason.

    `calls` are its requests to the model with `role`, and tokens are theirs. `raised_limit` is as in Call.
    """

    role: str = "main"
    calls: int = 1
    prompt_tokens: int = 0
    completion_tokens: int = 0
    sent: Sent | None = field(default=None, compare=False, repr=False)
    raised_limit: int = 0

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        spent = {
            name: getattr(self, name) for name in ("role", "calls", "prompt_tokens", "completion_tokens")
        } | ({"raised_limit": self.raised_limit} if self.raised_limit else {})
        return {"at": list(self.at), "note": self.about, "outcome": self.outcome, **spent}


@dataclass(frozen=True, slots=True)
class ThresholdCheck:
    """A score that was compared with the threshold `knob`, and whether it `passed`, being high enough.

    `threshold` is the value of the knob; None if it was not recorded.
    """

    knob: str
    score: float
    passed: bool
    at: tuple[int, ...] = ()
    threshold: float | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Returns JSON values only."""
        return {"at": list(self.at), "gate": self.knob, "score": self.score, "passed": self.passed}


Event = Call | Search | Note | UnreadableReply | ThresholdCheck

EXCERPT = 240
"""Characters of a hit's text in a whole event."""


def whole_json(event: Event) -> dict[str, Any]:
    """Returns `event` as JSON values, with prompts and replies as sent, excerpts of hits, and thresholds."""
    value = event.to_json()
    if isinstance(event, Search):
        for entry, hit in zip(value["hits"], event.hits, strict=True):
            text = hit.passage.text
            excerpt = text if len(text) <= EXCERPT else f"{text[:EXCERPT]}…"
            entry |= {"title": hit.passage.title, "text": excerpt}
    elif isinstance(event, Call | UnreadableReply) and event.sent is not None:
        value["sent"] = event.sent.to_json()
    elif isinstance(event, ThresholdCheck) and event.threshold is not None:
        value["threshold"] = event.threshold
    return value


@dataclass(frozen=True, slots=True)
class CallCost:
    """The total cost of the calls of one name: their number, and their tokens."""

    name: str
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def to_json(self) -> dict[str, Any]:
        """Returns every amount by name."""
        return {name: getattr(self, name) for name in self.__slots__}


def by_call(events: Iterable[Event]) -> tuple[CallCost, ...]:
    """Sums what the calls of each name cost, in the order in which the names first appear."""
    costs: dict[str, CallCost] = {}
    for event in events:
        if isinstance(event, Call | UnreadableReply):
            name = event.name if isinstance(event, Call) else event.about
            cost = costs.get(name, CallCost(name))
            prompt = cost.prompt_tokens + event.prompt_tokens
            completion = cost.completion_tokens + event.completion_tokens
            costs[name] = CallCost(name, cost.calls + 1, prompt, completion)
    return tuple(costs.values())


def by_part(events: Iterable[Event]) -> dict[str, float]:
    """Returns calls and tokens by role and searches by source: amounts under names such as `tokens@proxy`."""
    totals = defaultdict[str, float](int)
    for event in events:
        if isinstance(event, Call | UnreadableReply):
            totals[f"lm_calls@{event.role}"] += event.calls
            totals[f"tokens@{event.role}"] += event.prompt_tokens + event.completion_tokens
        elif isinstance(event, Search):
            totals[f"searches@{event.source}"] += 1
    return dict(totals)


@dataclass(slots=True)
class Run:
    """Collects the events of one question, and the predictions behind them for DSPy's own trace."""

    _events: list[tuple[tuple[int, ...], Event, Any]] = field(default_factory=list)

    def add(self, path: tuple[int, ...], event: Event, prediction: Any = None) -> None:
        """Records `event` at `path`; `prediction` is what DSPy's trace wants for a call."""
        placed = event if event.at == path else replace(event, at=path)
        self._events.append((path, placed, prediction))
        if (show := watching_events.get()) is not None:
            show(placed)

    @property
    def events(self) -> tuple[Event, ...]:
        """All events in call-graph order."""
        return tuple(event for _, event, _ in self._sorted_events())

    @property
    def predictions(self) -> list[Any]:
        """DSPy's trace entries in call-graph order."""
        return [entry for _, _, entry in self._sorted_events() if entry is not None]

    def begin(self, path: tuple[int, ...]) -> None:
        """Notes that what `path` names begins; for classes that watch a run."""

    def finish(self, prediction: Any) -> None:
        """Notes that the question was answered with `prediction`; for classes that watch a run."""

    def fail(self, error: BaseException) -> None:
        """Notes that `error` ended the question; for classes that watch a run."""

    def _sorted_events(self) -> list[tuple[tuple[int, ...], Event, Any]]:
        return sorted(self._events, key=lambda entry: entry[0])


class Branch:
    """A position in the call graph that numbers its children in the order they are started."""

    __slots__ = ("next", "path", "run")

    def __init__(self, run: Run, path: tuple[int, ...] = ()) -> None:
        self.run, self.path, self.next = run, path, 0

    def child(self) -> tuple[int, ...]:
        """Returns the path of the next child."""
        self.next += 1
        path = (*self.path, self.next)
        self.run.begin(path)
        return path


_current_branch: ContextVar[Branch | None] = ContextVar("ragc_branch", default=None)


@contextmanager
def recording(watched: Run | None = None) -> Iterator[Run]:
    """Records everything until exit; an enclosing recording is suspended meanwhile.

    A `watched` run is used instead of a new one, and is told of an error that ends the block.
    """
    run = watched or Run()
    token = _current_branch.set(Branch(run))
    try:
        yield run
    except BaseException as error:
        run.fail(error)
        raise
    finally:
        _current_branch.reset(token)


def allocate_position() -> tuple[Run, tuple[int, ...]] | None:
    """Returns the run and the next free path in this context; None when nothing is recorded."""
    branch = _current_branch.get()
    return None if branch is None else (branch.run, branch.child())


def recorded_events() -> tuple[Event, ...]:
    """Returns what was recorded so far of the run of this context."""
    branch = _current_branch.get()
    return () if branch is None else branch.run.events


def record(event: Event) -> None:
    """Adds `event` at the next free path; does nothing when nothing is recorded."""
    if spot := allocate_position():
        spot[0].add(spot[1], event)


async def together(*work: Coroutine[Any, Any, T]) -> list[T]:
    """Awaits all of `work` at once; results and trace keep the order of the arguments.

    When one fails the others are cancelled and its error is raised. After an unreadable reply or a refusal
    the others finish first, so that the cost of a failed question does not depend on which is faster; of
    several such errors that of the first argument is raised.
    """
    branch = _current_branch.get()
    paths: Sequence[tuple[int, ...] | None] = [branch.child() if branch else None for _ in work]

    seconds = [list[float]() for _ in work]

    async def on_branch(
        path: tuple[int, ...] | None, one: Coroutine[Any, Any, T], mine: list[float]
    ) -> T | ParseFailure | RequestRefused:
        if branch is not None and path is not None:
            _current_branch.set(Branch(branch.run, path))
        passed.set(mine)
        try:
            return await one
        except (ParseFailure, RequestRefused) as error:
            return error

    try:
        results = await gather_or_cancel(map(on_branch, paths, work, seconds))
    except BaseException:
        for one in work:
            one.close()  # one whose task was cancelled before it began is awaited by nobody else
        raise
    if (whole := passed.get()) is not None:
        whole.append(max(map(sum, seconds), default=0.0))  # at the same time: as the slowest
    for result in results:
        if isinstance(result, ParseFailure | RequestRefused):
            raise result
    return [result for result in results if not isinstance(result, ParseFailure | RequestRefused)]


DIGITS = 6
"""Decimals of a score that count. Scores that differ by less go the same way."""


def at_least(knob: str, score: float, threshold: float) -> bool:
    """Returns whether `score` is at least the `threshold` that the knob called `knob` sets."""
    return _check(knob, score, threshold, operator.ge)


def above(knob: str, score: float, threshold: float) -> bool:
    """Returns whether `score` is greater than the `threshold` that the knob called `knob` sets."""
    return _check(knob, score, threshold, operator.gt)


def _check(knob: str, score: float, threshold: float, compare: Callable[[float, float], bool]) -> bool:
    """Records the comparison, without the rounding errors of summed steps of a threshold."""
    score, threshold = round(score, DIGITS), round(threshold, DIGITS + 3)
    passed = compare(score, threshold)
    record(ThresholdCheck(knob, score, passed, threshold=threshold))
    return passed
