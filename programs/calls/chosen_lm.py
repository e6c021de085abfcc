"""Which language model a typed call goes to: the one that DSPy's ways to choose one name, else the target.

    lm= of the call  >  set_lm  >  dspy.context(lm=...) for the role main  >  the target of the role

What `dspy.configure` names for all modules does not take the place of a target, which the program was given.
Where an LM has a `rollout_id`, as BestOfN, Refine and SIMBA set it, the reply is drawn with that number and
the LM's temperature; everything else is drawn as the program's knobs say.
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
from ragc.targets.dspy_engine import RagLM, as_lm
from ragc.targets.dspy_lm import target_of

if TYPE_CHECKING:
    from ragc.programs.runtime import Runtime

_ROLLOUT = ("rollout_id", "temperature")

call_lm: ContextVar[tuple[object, Any] | None] = ContextVar("ragc_named_lm", default=None)
"""A call and the LM that its argument `lm` names, in this context."""


class OwnLM(RagLM):
    """The targets of a program as one LM, so that DSPy can copy it and number draws: it chooses no target."""


@contextmanager
def named_lm(call: object, lm: Any) -> Iterator[None]:
    """Let `call` go to `lm` in this context and its tasks."""
    token = call_lm.set((call, lm))
    try:
        yield
    finally:
        call_lm.reset(token)


def context_lm() -> Any:
    """The LM of a `dspy.context` around this call; None outside of one.

    The LM of `dspy.configure` does not count, nor copies of it, nor one that only writes instructions.
    """
    lm = thread_local_overrides.get().get("lm")
    if lm is None or not getattr(lm, "answers_programs", True) or _is_configured(lm):
        return None
    return lm


def _is_configured(lm: Any) -> bool:
    """Whether `lm` is what `dspy.configure` named, or a copy of it for another draw."""
    configured = main_thread_config.get("lm")
    return lm is configured or (configured is not None and _essence(lm) == _essence(configured))


def _essence(lm: Any) -> Any:
    kwargs = {name: value for name, value in getattr(lm, "kwargs", {}).items() if name not in _ROLLOUT}
    engine = getattr(lm, "_engine_spec", None)
    return type(lm), getattr(lm, "model", None), engine if isinstance(engine, str) else id(engine), kwargs


def lm_of(call: Any) -> Any:
    """The LM that is chosen for `call`, a predictor; None where its target answers."""
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
    """What answers `call`, for which `lm` was chosen; None chooses the target of its role."""
    if lm is None or isinstance(lm, OwnLM):
        target: Target = call.runtime.target(call.role)
    else:
        target = target_of(lm)
    return target


def rollout_of(lm: Any) -> dict[str, Any]:
    """The number of the draw and its temperature, where `lm`, or else the LM of a context, names a draw."""
    if lm is None and (lm := thread_local_overrides.get().get("lm")) is None:
        return {}
    kwargs = getattr(lm, "kwargs", None) or {}
    if kwargs.get("rollout_id") is None or not getattr(lm, "answers_programs", True):
        return {}
    return {name: kwargs[name] for name in _ROLLOUT if kwargs.get(name) is not None}


def own_lm(runtime: Runtime) -> dspy.LM:
    """The targets of `runtime` as an LM; called by itself, it is the target with the role main."""
    target = runtime.target("main")
    return as_lm(lambda request: runtime.gateway.complete(target, request), target, kind=OwnLM)


def shared_lm(calls: Any, runtime: Runtime) -> Any:
    """The one LM of all `calls`, as DSPy's optimizers ask for it; the program's own where none was chosen.

    Raises ValueError, as DSPy does, where they have different ones.
    """
    chosen = {id(call.lm): call.lm for call in calls}
    if len(chosen) > 1:
        raise ValueError("Multiple LMs are being used in the module. There's no unique LM to return.")
    lm = next(iter(chosen.values()), None)
    return lm or context_lm() or own_lm(runtime)


def hint_for(call: Any) -> str | None:
    """What DSPy's Refine advises `call` in this context; None outside of it.

    Refine puts its advice into an adapter, which our prompts do not pass through; it is read from there.
    """
    adapter: Any = dspy.settings.adapter
    if type(adapter).__module__ != "dspy.predict.refine":
        return None
    wrapped: Any = type(adapter).__call__
    cells = dict(zip(wrapped.__code__.co_freevars, wrapped.__closure__ or (), strict=False))
    advice, names = cells["advice"].cell_contents, cells["signature2name"].cell_contents
    return str(advice.get(names.get(call.signature), "N/A"))
