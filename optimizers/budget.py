"""The ledger: hard limits on the spending of a study, persistent across kills.

Each distinct request is charged once, whether it was sent or replayed. Before a request is sent, its greatest
possible cost is checked and reserved until its real cost is known.
"""

from __future__ import annotations

import json
import math
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ragc.core.digest import add_digest, verify_digest
from ragc.errors import BudgetExhausted, StoreError
from ragc.recipe import Budget
from ragc.targets.gateway import Ledger

if TYPE_CHECKING:
    from ragc.optimizers.search.trial import TrialResult

FIRST = 10_000
"""The most charges whose costs are kept apart."""

_WORDS = {"lm_calls": "LM calls", "tokens": "tokens", "usd": "dollars", "minutes": "minutes"}


class StudyLedger(Ledger, Protocol):
    """The ledger of a study: `ragc.targets.gateway.Ledger` with the operations of the study itself.

    `calls`, `tokens`, `usd` and `minutes` are the charges so far.
    """

    @property
    def calls(self) -> int: ...  # noqa: D102 - described above

    @property
    def tokens(self) -> int: ...  # noqa: D102

    @property
    def usd(self) -> float: ...  # noqa: D102

    @property
    def minutes(self) -> float: ...  # noqa: D102

    def hold(self, calls: int) -> None:
        """Holds back `calls` LM calls for later, and what they cost (`price_held`); 0 releases them."""
        ...

    def price_held(self, calls: int, longer: float, spare: int) -> None:
        """Sets what calls that are held back cost: as the first `calls` of the study in the mean.

        Their tokens and dollars are multiplied by `longer`, and `spare` tokens are held back beside them.
        """
        ...

    def close(self) -> None:
        """Frees open resources."""
        ...


def budget_error(what: str, limits: Budget) -> BudgetExhausted:
    """The error of a request that would exceed `limits`; `what` is lm_calls, tokens, usd or minutes."""
    limit = getattr(limits, what)
    return BudgetExhausted(
        f"The budget of {limit:{'g' if isinstance(limit, float) else ''}} {_WORDS[what]} is spent; "
        f"raise budget.{what} to go on."
    )


def answers_left(limits: Budget, ledger: StudyLedger, base: TrialResult) -> float:
    """The answers that `limits` still allow after what `ledger` counted, at the mean cost of those of `base`.

    Infinite without a limit on calls, tokens or dollars.
    """
    cost, questions = base.counters, len(base.scores)
    rooms = [
        (limits.lm_calls, ledger.calls, cost.get("lm_calls", 0)),
        (limits.tokens, ledger.tokens, base.tokens),
        (limits.usd, ledger.usd, cost.get("usd", 0)),
    ]
    answers = [
        (limit - spent) * questions / each for limit, spent, each in rooms if limit is not None and each
    ]
    return min(answers, default=math.inf)


@dataclass(slots=True)
class Spent:
    """The charges of one part of a study."""

    calls: int = 0
    tokens: int = 0
    usd: float = 0.0


def share_error(what: str, limit: float, part: str) -> BudgetExhausted:
    """The error of a request that would exceed the share of `part`; `what` is as in `budget_error`."""
    amount = f"{limit:.0f}" if what in ("lm_calls", "tokens") else f"{limit:.2f}"
    return BudgetExhausted(
        f"The share of {amount} {_WORDS[what]} that {part} has of the budget is spent; raise budget.{what} "
        "or search.shares to go on."
    )


class FileLedger:
    """A ledger in an append-only file, one charge a request, which a resumed study reads again.

    A study of several parts names each with `enter`; a charge counts for the part that was first to send the
    request. Each line carries its own digest. Raises StoreError if the file cannot be read or a line is
    damaged, because the total would be too low.
    """

    def __init__(self, path: Path | None, budget: Budget) -> None:
        self.budget = budget
        self.calls = 0
        self.tokens = 0
        self.usd = 0.0
        self._charged: set[str] = set()
        self._reserved: dict[str, int] = {}
        self._held, self._price, self._spare = 0, (0.0, 0.0), 0
        self._first: list[tuple[int, float]] = []
        self._spent_before = 0.0
        self._started: float | None = None
        self._file: Any = None
        self._path = path
        self._torn = 0
        self._part, self._limits = "", Budget()
        self._parts: dict[str, Spent] = {}
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        """Reads the charges of earlier processes; a last line cut off by a kill is ignored."""
        try:
            content = path.read_bytes()
            lines = content.rstrip(b"\0").splitlines(keepends=True)
        except OSError as error:
            raise StoreError(
                f"What the study spent cannot be read from {path} ({error.strerror or error}); grant access "
                "to it, or leave --resume out to begin anew."
            ) from error
        if lines and _is_torn(lines[-1]):
            lines.pop()
        self._torn = len(content) - sum(map(len, lines))  # with zeros that a power loss left
        for number, line in enumerate(lines, start=1):
            if not self._take(_charge(line)):
                raise StoreError(
                    f"{path} is damaged in line {number}, so what the study spent is not known; leave "
                    "--resume out to begin anew (what was answered is replayed, and counted again), or "
                    "move the file away to count from 0."
                )

    def _take(self, row: dict[str, Any] | None) -> bool:
        """Applies one line of the file; False if it is no valid charge."""
        if row is None:
            return False
        try:
            if row.keys() == {"minutes"}:
                self._spent_before = max(self._spent_before, float(row["minutes"]))
            elif row.keys() - {"part"} == {"key", "tokens", "usd"}:
                tokens, usd = int(row["tokens"]), float(row["usd"])
                if tokens < 0 or not 0 <= usd < math.inf:
                    return False
                self._add(str(row["key"]), tokens, usd, str(row.get("part", "")))
            else:
                return False
        except (ValueError, TypeError, OverflowError):
            return False
        return True

    def _add(self, key: str, tokens: int, usd: float, part: str) -> bool:
        if key in self._charged:
            return False
        if len(self._first) < FIRST:
            self._first.append((tokens, usd))
        spent = self.spent(part)
        spent.calls, spent.tokens, spent.usd = spent.calls + 1, spent.tokens + tokens, spent.usd + usd
        self._charged.add(key)
        self.calls += 1
        self.tokens += tokens
        self.usd += usd
        return True

    def _start(self) -> None:
        if self._started is None:
            self._started = time.monotonic()

    @property
    def minutes(self) -> float:
        """Minutes spent by earlier processes and by this one since its first request."""
        return self._spent_before + (0.0 if self._started is None else time.monotonic() - self._started) / 60

    def hold(self, calls: int) -> None:
        """Holds back `calls` LM calls for later, and what they cost; 0 releases them."""
        self._held = calls

    def price_held(self, calls: int, longer: float, spare: int) -> None:
        """Sets what calls that are held back cost, from the first `calls` charges, which do not change."""
        first = self._first[: max(1, calls)] or [(0, 0.0)]
        tokens, usd = (longer * sum(column) / len(first) for column in zip(*first, strict=True))
        self._price, self._spare = (tokens, usd), spare

    def held_back(self, calls: int) -> tuple[float, float]:
        """The tokens and dollars that are held back with `calls`."""
        tokens, usd = (calls * price for price in self._price)
        return tokens + (self._spare if calls else 0), usd

    @property
    def path(self) -> Path | None:
        """The file; None for a ledger that is kept in memory."""
        return self._path

    def enter(self, part: str, limits: Budget) -> None:
        """Charges what follows to `part`, within `limits`, which replace those of the whole where not None.

        The caller divides the whole, so that a resumed part ends where it ended before, whatever later parts
        have spent since. `limits.minutes` are those of the whole study at the end of the part.
        """
        self._part, self._limits = part, limits

    def spent(self, part: str) -> Spent:
        """The charges of `part` so far, by earlier processes too."""
        return self._parts.setdefault(part, Spent())

    def _is_whole(self, what: str) -> bool:
        """Whether the limit of the whole on `what` applies: the present part has none of its own."""
        return getattr(self._limits, what) is None

    def _reserve_in_part(self, tokens: int) -> None:
        """Raises BudgetExhausted if a call of at most `tokens` exceeds the limits of the present part."""
        limits, spent = self._limits, self.spent(self._part)
        after = {
            "lm_calls": spent.calls + len(self._reserved) + 1,
            "tokens": spent.tokens + sum(self._reserved.values()) + tokens,
        }
        for what, amount in after.items():
            if (limit := getattr(limits, what)) is not None and amount > limit:
                raise share_error(what, limit, self._part)
        if limits.usd is not None and spent.usd >= limits.usd:
            raise share_error("usd", limits.usd, self._part)
        if limits.minutes is not None and self.minutes >= limits.minutes:
            raise share_error("minutes", limits.minutes, self._part)

    def reserve(self, key: str, tokens: int) -> None:
        """Reserves one call of at most `tokens`. Raises BudgetExhausted if it does not fit."""
        self._start()
        if key in self._charged or key in self._reserved:
            return
        limits = self.budget
        self._reserve_in_part(tokens)
        calls = self.calls + len(self._reserved) + self._held + 1
        if self._is_whole("lm_calls") and limits.lm_calls is not None and calls > limits.lm_calls:
            raise budget_error("lm_calls", limits)
        held_tokens, held_usd = self.held_back(self._held)
        due = self.tokens + sum(self._reserved.values()) + tokens + held_tokens
        if self._is_whole("tokens") and limits.tokens is not None and due > limits.tokens:
            raise budget_error("tokens", limits)
        if limits.usd is not None and self.usd >= limits.usd - held_usd:
            raise budget_error("usd", limits)
        if limits.minutes is not None and self.minutes >= limits.minutes:
            raise budget_error("minutes", limits)
        self._reserved[key] = tokens

    def settle(self, key: str, tokens: int, usd: float) -> None:
        """Charges the cost of a request; a request that was charged before costs nothing."""
        self._start()
        self._reserved.pop(key, None)
        if self._add(key, tokens, usd, self._part) and self._path is not None:
            if self._file is None:
                self._file = self._path.open("ab")
                weakref.finalize(self, self._file.close)  # an Optuna objective is dropped, never closed
                if self._torn:
                    self._file.truncate(self._path.stat().st_size - self._torn)
            charge = {"key": key, "tokens": tokens, "usd": usd} | ({"part": self._part} if self._part else {})
            rows = charge, {"minutes": round(self.minutes, 4)}
            self._file.write("".join(json.dumps(add_digest(row)) + "\n" for row in rows).encode())
            self._file.flush()

    def release(self, key: str) -> None:
        """Releases the reservation of a failed request."""
        self._reserved.pop(key, None)

    def close(self) -> None:
        """Closes the file. Later charges, for requests still in flight, are not written."""
        held, self._file, self._path = self._file, None, None
        if held is not None:
            held.close()


def _charge(line: bytes) -> dict[str, Any] | None:
    """The charge in a line; None if it is damaged. Lines of older versions have no digest."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(row, dict) and row.keys() in ({"minutes"}, {"key", "tokens", "usd"}):
        return row
    return verify_digest(row)


def _is_torn(line: bytes) -> bool:
    """Whether `line`, the last of the file, was cut off by a kill or a power loss, its newline alone too."""
    begun = b"}" not in line and line[:1] in (b"{", b"")
    return not line.endswith(b"\n") and (begun or _charge(line) is not None)
