"""The names of ragc that the contract suites of targets, sources and stores reach it by."""

from __future__ import annotations

from ragc.core.counters import Counters, counting
from ragc.errors import TargetError, TargetUnavailable, UnknownName, UsageError
from ragc.programs.runtime import Runtime
from ragc.store.call_store import CallStore
from ragc.targets import TARGETS, TargetSpec, build
from ragc.targets.base import ChatRequest, Message, Reply, Sampling, Target, TokenLogprob, Usage
from ragc.targets.gateway import Gateway

__all__ = [
    "TARGETS", "CallStore", "ChatRequest", "Counters", "Gateway", "Message", "Reply", "Runtime", "Sampling",
    "Target", "TargetError", "TargetSpec", "TargetUnavailable", "TokenLogprob", "UnknownName", "Usage",
    "UsageError", "build", "counting",
]  # fmt: skip
