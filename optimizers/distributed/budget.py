"""The ledger shared by all workers of a study, on the Redis server of the call store.

The rules are those of `FileLedger`. Each check and each charge is one atomic script on the server, so limits
hold for concurrent workers. The reservations of a dead worker are released after `LEASE_S` seconds, or when
another worker makes the same request. How long charges persist depends on the server's configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ragc.core.redact import bare_address, mask
from ragc.errors import StoreError, UsageError
from ragc.optimizers.budget import budget_error
from ragc.recipe import Budget

LEASE_S = 900.0
"""Seconds after which the reservation of an unfinished request is released."""

_WAIT_S = 10.0
_LIMITS = ("lm_calls", "tokens", "usd", "minutes")

# KEYS: totals (hash), charged (set), reserved (hash: tokens by request), leases (sorted set: end by request).
_COMMON = """
local totals, charged, reserved, leases = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local function total(name) return tonumber(redis.call('HGET', totals, name) or '0') end
local function free(request)
  local tokens = redis.call('HGET', reserved, request)
  if tokens then
    redis.call('HDEL', reserved, request)
    redis.call('ZREM', leases, request)
    redis.call('HINCRBY', totals, 'reserved', 0 - tonumber(tokens))
  end
end
local function minutes() return total('before') + (now - total('began')) / 60 end
local function seen() redis.call('HSET', totals, 'seen', string.format('%.3f', now)) end
"""
_RESERVE = """
if redis.call('EXISTS', totals) == 0 then return 'gone' end
for _, late in ipairs(redis.call('ZRANGEBYSCORE', leases, '-inf', now)) do free(late) end
local request, tokens, lease = ARGV[1], tonumber(ARGV[2]), now + tonumber(ARGV[3])
if redis.call('SISMEMBER', charged, request) == 1 then return '' end
if redis.call('HEXISTS', reserved, request) == 1 then
  redis.call('ZADD', leases, lease, request)
  return ''
end
local calls = total('calls') + redis.call('HLEN', reserved) + total('held') + 1
if ARGV[4] ~= '' and calls > tonumber(ARGV[4]) then return 'lm_calls' end
local due = total('tokens') + total('reserved') + tokens + total('held') * total('held_tokens')
if total('held') > 0 then due = due + total('spare') end
if ARGV[5] ~= '' and due > tonumber(ARGV[5]) then return 'tokens' end
local usd = total('usd') + total('held') * total('held_usd')
if ARGV[6] ~= '' and usd >= tonumber(ARGV[6]) then return 'usd' end
if ARGV[7] ~= '' and minutes() >= tonumber(ARGV[7]) then return 'minutes' end
redis.call('HSET', reserved, request, tokens)
redis.call('ZADD', leases, lease, request)
redis.call('HINCRBY', totals, 'reserved', tokens)
seen()
return ''
"""
_SETTLE = """
free(ARGV[1])
if redis.call('SADD', charged, ARGV[1]) == 1 then
  redis.call('HINCRBY', totals, 'calls', 1)
  redis.call('HINCRBY', totals, 'tokens', ARGV[2])
  redis.call('HINCRBYFLOAT', totals, 'usd', ARGV[3])
end
seen()
"""
_RELEASE = "free(ARGV[1])"
_BEGIN = """
if redis.call('EXISTS', totals) == 1 then
  local spent = total('before') + (total('seen') - total('began')) / 60
  redis.call('HSET', totals, 'before', string.format('%.6f', spent))
end
redis.call('DEL', reserved, leases)
redis.call('HSET', totals, 'began', string.format('%.3f', now), 'held', 0, 'reserved', 0)
seen()
"""
_SPENT = """
local clock = total('before') + (total('seen') - total('began')) / 60
return {total('calls'), total('tokens'), tostring(total('usd')), tostring(clock)}
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
            f"ragc:ledger:{{{name}}}:{part}" for part in ("totals", "charged", "reserved", "leases")
        ]
        self._scripts: dict[str, Any] = {}
        self._lease_s = lease_s
        self._charged: set[str] = set()

    def begin(self) -> None:
        """Resumes the study: the clock continues, and uncharged reservations are released."""
        self._run(_BEGIN)

    def forget(self) -> None:
        """Deletes the study's ledger."""
        with self._translate_errors():
            self._client.delete(*self._keys)

    def hold(self, calls: int) -> None:
        """Holds back `calls` LM calls for later, and what they cost, from all workers; 0 releases them."""
        with self._translate_errors():
            self._client.hset(self._keys[0], "held", calls)

    def price_held(self, calls: int, longer: float, spare: int) -> None:
        """Sets what calls that are held back cost, once a study: as all charged so far, in the mean."""
        spent, tokens, usd, _ = self._read_totals()
        prices = {"held_tokens": tokens, "held_usd": usd}
        with self._translate_errors():
            for name, total in prices.items():
                self._client.hsetnx(self._keys[0], name, float(total) / max(1, int(spent)) * longer)
            self._client.hset(self._keys[0], "spare", spare)

    def reserve(self, key: str, tokens: int) -> None:
        """Reserves one call of at most `tokens`. Raises BudgetExhausted if it does not fit."""
        if key in self._charged:
            return
        limits = ["" if (limit := getattr(self.budget, name)) is None else limit for name in _LIMITS]
        refused = self._run(_RESERVE, key, tokens, self._lease_s, *limits)
        if refused == "gone":
            raise StoreError(
                f"The Redis server at {self._where} knows no budget of this study; give every worker the "
                "address of the same server in RAGC_STORE, and run the study again with --resume."
            )
        if refused:
            raise budget_error(refused, self.budget)

    def settle(self, key: str, tokens: int, usd: float) -> None:
        """Charges the cost of a request; a request that any worker charged before costs nothing."""
        if key in self._charged:
            return
        self._run(_SETTLE, key, tokens, repr(float(usd)))
        self._charged.add(key)

    def release(self, key: str) -> None:
        """Releases the reservation of a failed request."""
        self._run(_RELEASE, key)

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

    def close(self) -> None:
        """Close the connection."""
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
