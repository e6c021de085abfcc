"""The ledger shared by all workers of a study, on the Redis server of the call store.

The rules are those of `FileLedger`. Each check and each charge is one atomic script on the server, so limits
hold for concurrent workers. Reservations of a dead worker are charged after `LEASE_S` seconds. How long
charges persist depends on the server's configuration.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ragc.core.redact import bare_address, mask
from ragc.errors import StoreError, UsageError
from ragc.recipe import Budget, Recipe
from ragc.recipe.values import OWN_OPTIMIZER
from ragc.store.call_store import STORAGE_ENV, STORE_ENV
from ragc.targets.charges import Need, Wanted
from ragc.task.budget import Spare, Spent, budget_error
from ragc.task.study_address import storage_address, store_address, study_name

LEASE_S = 900.0
"""Seconds after which an unfinished try is charged at what it reserved."""

_WAIT_S = 10.0
_LOOK_S = (0.02, 0.5)
"""Seconds between two looks whether a request fits by now: at first, and at most."""
_LIMITS = ("lm_calls", "tokens", "usd", "minutes")

# KEYS: totals (hash), charged (set), reserved (hash: "TOKENS DOLLARS" by number), leases (sorted set: end by
# number), lost (hash as reserved: tries that are charged at what they reserved).
_COMMON = """
local totals, charged, reserved, leases, lost = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local function total(name) return tonumber(redis.call('HGET', totals, name) or '0') end
local function charge(calls, tokens, usd)
  redis.call('HINCRBY', totals, 'calls', calls)
  redis.call('HINCRBY', totals, 'tokens', string.format('%.0f', tokens))
  redis.call('HINCRBYFLOAT', totals, 'usd', string.format('%.17g', usd))
end
local function amounts(text)
  local tokens, usd = string.match(text, '^(%S+) ?(%S*)$')
  return tonumber(tokens), tonumber(usd) or 0
end
local function free(number)
  redis.call('ZREM', leases, number)
  if redis.call('HDEL', reserved, number) == 1 then return true end
  local text = redis.call('HGET', lost, number)
  if not text then return false end
  local tokens, usd = amounts(text)
  redis.call('HDEL', lost, number)
  charge(-1, 0 - tokens, 0 - usd)
  return true
end
local function lose(number)
  local text = redis.call('HGET', reserved, number)
  redis.call('ZREM', leases, number)
  if text then
    local tokens, usd = amounts(text)
    redis.call('HDEL', reserved, number)
    redis.call('HSET', lost, number, text)
    charge(1, tokens, usd)
  end
end
local function minutes() return total('before') + (now - total('began')) / 60 end
local function seen() redis.call('HSET', totals, 'seen', string.format('%.3f', now)) end
"""
_RESERVE = """
if redis.call('EXISTS', totals) == 0 then return 'gone' end
for _, late in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now)) do lose(late) end
local lease = now + tonumber(ARGV[1])
local calls, tokens, usd = 0, 0, 0
for at = 6, #ARGV, 3 do
  calls, tokens, usd = calls + 1, tokens + tonumber(ARGV[at + 1]), usd + tonumber(ARGV[at + 2])
end
local held = total('held')
if held > 0 then
  tokens = tokens + (held + total('spare_calls')) * total('held_tokens') + total('spare_tokens')
  usd = usd + (held + total('spare_calls')) * total('held_usd') + total('spare_usd')
end
calls, tokens, usd = calls + total('calls') + held, tokens + total('tokens'), usd + total('usd')
local function refused()
  if ARGV[2] ~= '' and calls > tonumber(ARGV[2]) then return 'lm_calls' end
  if ARGV[3] ~= '' and tokens > tonumber(ARGV[3]) then return 'tokens' end
  if ARGV[4] ~= '' and usd > tonumber(ARGV[4]) then return 'usd' end
  if ARGV[5] ~= '' and minutes() >= tonumber(ARGV[5]) then return 'minutes' end
  return ''
end
local what = refused()
if what ~= '' then return what end
local flying = redis.call('HVALS', reserved)
for _, text in ipairs(flying) do
  local more_tokens, more_usd = amounts(text)
  calls, tokens, usd = calls + 1, tokens + more_tokens, usd + more_usd
end
if refused() ~= '' then return 'wait' end
for at = 6, #ARGV, 3 do
  redis.call('HSET', reserved, ARGV[at], ARGV[at + 1] .. ' ' .. ARGV[at + 2])
  redis.call('ZADD', leases, lease, ARGV[at])
end
seen()
return ''
"""
_SETTLE = """
if free(ARGV[1]) then
  redis.call('SADD', charged, ARGV[2])
  charge(1, ARGV[3], tonumber(ARGV[4]))
end
seen()
"""
_KEEP = "lose(ARGV[1])"
_RELEASE = "free(ARGV[1])"
_REPLAY = """
if redis.call('SADD', charged, ARGV[1]) == 1 then
  charge(1, ARGV[2], tonumber(ARGV[3]))
  redis.call('HINCRBY', totals, 'replayed_calls', 1)
  redis.call('HINCRBY', totals, 'replayed_tokens', string.format('%.0f', ARGV[2]))
  redis.call('HINCRBYFLOAT', totals, 'replayed_usd', string.format('%.17g', tonumber(ARGV[3])))
end
seen()
"""
_BEGIN = """
if redis.call('EXISTS', totals) == 1 then
  local spent = total('before') + (total('seen') - total('began')) / 60
  redis.call('HSET', totals, 'before', string.format('%.6f', spent))
end
for _, number in ipairs(redis.call('HKEYS', reserved)) do lose(number) end
redis.call('HSET', totals, 'began', string.format('%.3f', now), 'held', 0)
seen()
"""
_SPENT = """
local clock = total('before') + (total('seen') - total('began')) / 60
local replayed = {total('replayed_calls'), total('replayed_tokens'), tostring(total('replayed_usd'))}
return {total('calls'), total('tokens'), tostring(total('usd')), tostring(clock), unpack(replayed)}
"""


class SharedLedger:
    """The ledger of the study `name` on the Redis server at `address`, within `budget`.

    Raises UsageError without redis-py, StoreError if the server does not answer; no message holds the
    password. The study's own process calls `begin` once, before any worker makes a request.
    """

    def __init__(self, address: str, name: str, budget: Budget, *, lease_s: float = LEASE_S) -> None:
        try:
            import redis
        except ImportError as error:
            raise UsageError(
                "A budget shared by workers needs redis-py, which is not installed; run: "
                "pip install 'ragc[redis]'."
            ) from error
        self.budget = budget
        self._where = bare_address(address)
        self._failed: type[Exception] = redis.RedisError
        try:
            self._client: Any = redis.Redis.from_url(
                address, socket_timeout=_WAIT_S, socket_connect_timeout=_WAIT_S, decode_responses=True
            )
        except ValueError as error:
            raise UsageError(
                f"The address of the call store cannot be read ({mask(str(error), address)}); write "
                "redis://HOST:PORT/NUMBER, and special characters of a password as %XX."
            ) from None
        self._keys = [
            f"ragc:ledger:{{{name}}}:{part}" for part in ("totals", "charged", "reserved", "leases", "lost")
        ]
        self._name, self._tries = secrets.token_hex(4), 0
        self._requests: dict[str, str] = {}
        self._scripts: dict[str, Any] = {}
        self._lease_s = lease_s
        self._charged: set[str] = set()

    def begin(self) -> None:
        """Resumes the study: the clock continues, and tries that were never settled are charged."""
        self._run(_BEGIN)

    def forget(self) -> None:
        """Deletes the study's ledger."""
        with self._translate_errors():
            self._client.delete(*self._keys)

    def hold(self, calls: int) -> None:
        """Holds back `calls` LM calls for later, and their cost, from all workers; 0 releases them."""
        with self._translate_errors():
            self._client.hset(self._keys[0], "held", calls)

    def price_held(self, calls: int, longer: float, spare: Spare) -> tuple[float, float]:
        """Sets the cost of held-back calls, once a study, to the mean of all charges so far."""
        spent, tokens, usd = self._read_totals()[:3]
        prices = {"held_tokens": tokens, "held_usd": usd}
        with self._translate_errors():
            for name, total in prices.items():
                self._client.hsetnx(self._keys[0], name, float(total) / max(1, int(spent)) * longer)
            spares = {f"spare_{name}": amount for name, amount in asdict(spare).items()}
            self._client.hset(self._keys[0], mapping=spares)
            price = self._client.hmget(self._keys[0], list(prices))
        return float(price[0]), float(price[1])

    async def reserve(self, needs: Sequence[Need], wanted: Wanted = lambda: True) -> list[str]:
        """Reserves all of `needs`, or none; returns the numbers of the tries. Waits as `FileLedger` does."""
        limits = ["" if (limit := getattr(self.budget, name)) is None else limit for name in _LIMITS]
        numbers = [f"{self._name}-{self._tries + at}" for at in range(len(needs))]
        self._tries += len(needs)
        amounts = [
            part
            for number, need in zip(numbers, needs, strict=True)
            for part in (number, need.tokens, repr(float(need.usd)))
        ]
        wait, longest = _LOOK_S
        while (refused := self._run(_RESERVE, self._lease_s, *limits, *amounts)) == "wait":
            await asyncio.sleep(wait)
            wait = min(2 * wait, longest)
            if not wanted():
                raise asyncio.CancelledError
        if refused == "gone":
            raise StoreError(
                f"The Redis server at {self._where} knows no budget of this study; give every worker the "
                "address of the same server in RAGC_STORE, and run the study again with --resume."
            )
        if refused:
            raise budget_error(refused, self.budget)
        self._requests.update(zip(numbers, (need.key for need in needs), strict=True))
        return numbers

    def settle(self, number: str, tokens: int, usd: float) -> None:
        """Replaces the reservation of the try `number` by its cost."""
        key = self._requests.pop(number, None)
        if key is not None:
            self._run(_SETTLE, number, key, tokens, repr(float(usd)))
            self._charged.add(key)

    def charge_in_full(self, number: str) -> None:
        """Charges the try `number` as it was reserved."""
        if self._requests.pop(number, None) is not None:
            self._run(_KEEP, number)

    def release(self, number: str) -> None:
        """Charges nothing for the try `number`."""
        if self._requests.pop(number, None) is not None:
            self._run(_RELEASE, number)

    def replay(self, key: str, tokens: int, usd: float) -> None:
        """Charges a stored reply; a request that any worker charged before costs nothing."""
        if key not in self._charged:
            self._run(_REPLAY, key, tokens, repr(float(usd)))
            self._charged.add(key)

    @property
    def limits_usd(self) -> bool:
        """Whether dollars are limited, so that every request needs a price."""
        return self.budget.usd is not None

    @property
    def calls(self) -> int:
        """LM calls charged so far."""
        return int(self._read_totals()[0])

    @property
    def tokens(self) -> int:
        """Tokens charged so far."""
        return int(self._read_totals()[1])

    @property
    def usd(self) -> float:
        """Dollars charged so far."""
        return float(self._read_totals()[2])

    @property
    def minutes(self) -> float:
        """Minutes spent on the study, up to the last request of any worker."""
        return float(self._read_totals()[3])

    @property
    def replayed(self) -> Spent:
        """The charges for stored replies so far."""
        calls, tokens, usd = self._read_totals()[4:]
        return Spent(int(calls), int(tokens), float(usd))

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def _read_totals(self) -> list[Any]:
        return list(self._run(_SPENT))

    def _run(self, script: str, *arguments: object) -> Any:
        command = self._scripts.get(script)
        if command is None:
            command = self._scripts[script] = self._client.register_script(_COMMON + script)
        with self._translate_errors():
            return command(keys=self._keys, args=list(arguments))

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Raises errors of redis-py as one StoreError without the password."""
        try:
            yield
        except (self._failed, OSError) as error:
            raise StoreError(
                f"The budget of the study cannot be read from the Redis server at {self._where} "
                f"({type(error).__name__}); start the server, or check the address in RAGC_STORE."
            ) from None


def ledger_of(recipe: Recipe, directory: Path) -> SharedLedger | None:
    """Returns the ledger shared by all workers of the study, ready for use; None for a study without workers.

    Raises UsageError if the workers share no storage or no store, and for an optimizer that runs in one
    process.
    """
    if not recipe.study.workers:
        return None
    if recipe.search.optimizer != OWN_OPTIMIZER:
        raise UsageError(
            f"The optimizer {recipe.search.optimizer!r} runs in one process; leave study.workers out, or "
            f'set search.optimizer = "{OWN_OPTIMIZER}".'
        )
    for address, key, variable, example in (
        (storage_address(recipe.study), "storage", STORAGE_ENV, "postgresql+psycopg://HOST/DATABASE"),
        (store_address(recipe.study), "store", STORE_ENV, "redis://HOST:PORT/0"),
    ):
        if not address:
            raise UsageError(
                f"study.workers needs study.{key}, which all workers reach, found none; set it to an address "
                f"such as {example}, or {variable} in the environment of every worker."
            )
    ledger = SharedLedger(store_address(recipe.study), study_name(directory), recipe.budget)
    ledger.begin()
    return ledger
