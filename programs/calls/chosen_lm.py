"""Chooses the language model of a typed call: one chosen by DSPy's means, else the target.

    lm= of the call  >  set_lm  >  dspy.context(lm=...) for the role main  >  the target of the role

The model of `dspy.configure`, which is for all modules, does not replace a target that the program was given.
If an LM has a `rollout_id`, as BestOfN, Refine and SIMBA set it, the reply is drawn with that number and the
LM's temperature; all other sampling values come from the program's knobs.
"""

from __future__ import annotations

from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any

import dspy

from ragc.errors import UsageError
from ragc.targets.base import Target

if TYPE_CHECKING:
    from ragc.programs.calls.prompt import TypedPrompt
    from ragc.programs.runtime import Runtime

_ROLLOUT = ("rollout_id", "temperature")


def configured_lm() -> Any:
    """Returns the LM of `dspy.configure`, whatever a `dspy.context` around this call says; None without."""
    return Context().run(lambda: dspy.settings.lm)


def context_lm() -> Any:
    """Returns the LM of a `dspy.context` around this call; None outside of one.

    The LM of `dspy.configure` and its copies do not count, nor does an LM that only writes instructions.
    """
    lm = dspy.settings.lm
    if lm is None or not getattr(lm, "answers_programs", True):
        return None
    configured = configured_lm()
    is_configured = lm is configured or (configured is not None and _essence(lm) == _essence(configured))
    return None if is_configured else lm


def _essence(lm: Any) -> Any:
    """Returns what copies of `lm` for other draws have in common."""
    kwargs = {name: value for name, value in getattr(lm, "kwargs", {}).items() if name not in _ROLLOUT}
    engine = getattr(lm, "engine", None)
    return type(lm), getattr(lm, "model", None), engine if isinstance(engine, str) else id(engine), kwargs


def lm_of(call: TypedPrompt) -> Any:
    """Returns the LM that is chosen for `call`, a predictor; None if its target answers."""
    lm = context_lm() if call.lm is None and call.role == "main" else call.lm
    if lm is not None and not isinstance(lm, dspy.BaseLM):
        raise UsageError(
            f"The call {call.name or 'without a name'!r} was given an LM of the type {type(lm).__name__}; "
            "give it a dspy.LM, such as dspy.LM('openai/gpt-4o-mini')."
        )
    return lm


def target_for(call: TypedPrompt, lm: Any) -> Target:
    """Returns the target that answers `call`, for which `lm` was chosen; None means that of its role."""
    if lm is None or is_own(lm):
        return call.runtime.target(call.role)
    from ragc.targets.dspy_lm import target_of

    target: Target = target_of(lm)
    return target


def is_own(lm: Any) -> bool:
    """Returns whether `lm` represents the targets of a program (`own_lm`)."""
    from ragc.targets.dspy_lm import OwnLM

    return isinstance(lm, OwnLM)


def rollout_of(lm: Any) -> dict[str, Any]:
    """Returns number and temperature of the draw that `lm`, or else a context's LM, sets; {} for none."""
    if lm is None and (lm := dspy.settings.lm) is configured_lm():
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
    return next(iter(chosen.values()), None) or context_lm() or own_lm(runtime)


def refines() -> bool:
    """Returns whether DSPy's Refine gives its advice in this context, by an adapter of its own."""
    return bool(type(dspy.settings.adapter).__module__ == dspy.Refine.__module__)


class _Inputs(dict[str, Any]):
    """The inputs of a call of Refine's adapter, which ends as soon as it adds its advice to them."""

    def __setitem__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        raise LookupError


def advice_for(call: TypedPrompt) -> str | None:
    """Returns the advice of DSPy's Refine for `call` in this context; None outside of Refine.

    Refine adds it to the inputs of a call by an adapter, which prompts of typed calls do not pass through.
    """
    if not refines():
        return None
    inputs = _Inputs()
    with suppress(LookupError):
        dspy.settings.adapter(None, {}, call.signature, [], inputs)
    return next(iter(inputs.values()), None)
