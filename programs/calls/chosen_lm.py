"""Chooses the language model of a typed call: one chosen by DSPy's means, else the target.

    lm= of the call  >  set_lm  >  dspy.context(lm=...) for the role main  >  the target of the role

The model of `dspy.configure`, which is for all modules, does not replace a target that the program was given.
If an LM has a `rollout_id`, as BestOfN, Refine and SIMBA set it, the reply is drawn with that number and the
LM's temperature; all other sampling values come from the program's knobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import dspy
from dspy.dsp.utils.settings import main_thread_config, thread_local_overrides

from ragc.errors import UsageError
from ragc.targets.base import Target

if TYPE_CHECKING:
    from ragc.programs.runtime import Runtime

_ROLLOUT = ("rollout_id", "temperature")

call_lm: ContextVar[tuple[object, Any] | None] = ContextVar("ragc_named_lm", default=None)
"""A call and the LM that its argument `lm` names, in this context."""


@contextmanager
def named_lm(call: object, lm: Any) -> Iterator[None]:
    """Sends `call` to `lm` in this context and its tasks until exit."""
    token = call_lm.set((call, lm))
    try:
        yield
    finally:
        call_lm.reset(token)


def context_lm() -> Any:
    """Returns the LM of a `dspy.context` around this call; None outside of one.

    The LM of `dspy.configure` and its copies do not count, nor does an LM that only writes instructions.
    """
    lm = thread_local_overrides.get().get("lm")
    if lm is None or not getattr(lm, "answers_programs", True) or _is_configured(lm):
        return None
    return lm


def _is_configured(lm: Any) -> bool:
    """Returns whether `lm` is the LM of `dspy.configure`, or a copy of it for another draw."""
    configured = main_thread_config.get("lm")
    return lm is configured or (configured is not None and _essence(lm) == _essence(configured))


def _essence(lm: Any) -> Any:
    kwargs = {name: value for name, value in getattr(lm, "kwargs", {}).items() if name not in _ROLLOUT}
    engine = getattr(lm, "_engine_spec", None)
    return type(lm), getattr(lm, "model", None), engine if isinstance(engine, str) else id(engine), kwargs


def lm_of(call: Any) -> Any:
    """Returns the LM that is chosen for `call`, a predictor; None if its target answers."""
    named = call_lm.get()
    lm = named[1] if named is not None and named[0] is call else call.lm
    if lm is None and call.role == "main" and thread_local_overrides.get():
        lm = context_lm()
    if lm is None:
        return None
    if not isinstance(lm, dspy.BaseLM):
        raise UsageError(
            f"The call {call.name or 'without a name'!r} was given an LM of the type {type(lm).__name__}; "
            "give it a dspy.LM, such as dspy.LM('openai/gpt-4o-mini')."
        )
    return lm


def target_for(call: Any, lm: Any) -> Target:
    """Returns the target that answers `call`, for which `lm` was chosen; None means that of its role."""
    if lm is None or is_own(lm):
        target: Target = call.runtime.target(call.role)
    else:
        from ragc.targets.dspy_lm import target_of

        target = target_of(lm)
    return target


def is_own(lm: Any) -> bool:
    """Returns whether `lm` represents the targets of a program (`own_lm`)."""
    from ragc.targets.dspy_lm import OwnLM

    return isinstance(lm, OwnLM)


def rollout_of(lm: Any) -> dict[str, Any]:
    """Returns number and temperature of the draw that `lm`, or else a context's LM, sets; {} for none."""
    if lm is None and (lm := thread_local_overrides.get().get("lm")) is None:
        return {}
    kwargs = getattr(lm, "kwargs", None) or {}
    if kwargs.get("rollout_id") is None or not getattr(lm, "answers_programs", True):
        return {}
    return {name: kwargs[name] for name in _ROLLOUT if kwargs.get(name) is not None}


def own_lm(runtime: Runtime) -> dspy.LM:
    """Returns the targets of `runtime` as an LM; called directly, it is the target of the role main."""
    from ragc.targets.dspy_lm import OwnLM, as_lm

    target = runtime.target("main")
    return as_lm(lambda request: runtime.gateway.complete(target, request), target, kind=OwnLM)


def shared_lm(calls: Any, runtime: Runtime) -> Any:
    """Returns the one LM of all `calls` for DSPy's optimizers; the program's own if none was chosen.

    Raises ValueError, as DSPy does, if they have different ones.
    """
    chosen = {id(call.lm): call.lm for call in calls}
    if len(chosen) > 1:
        raise ValueError("Multiple LMs are being used in the module. There's no unique LM to return.")
    lm = next(iter(chosen.values()), None)
    return lm or context_lm() or own_lm(runtime)


def hint_for(call: Any) -> str | None:
    """Returns the advice of DSPy's Refine for `call` in this context; None outside of Refine.

    Refine puts its advice into an adapter, which our prompts do not pass through; it is read from there.
    """
    adapter: Any = dspy.settings.adapter
    if type(adapter).__module__ != "dspy.predict.refine":
        return None
    wrapped: Any = type(adapter).__call__
    cells = dict(zip(wrapped.__code__.co_freevars, wrapped.__closure__ or (), strict=False))
    advice, names = cells["advice"].cell_contents, cells["signature2name"].cell_contents
    return str(advice.get(names.get(call.signature), "N/A"))
