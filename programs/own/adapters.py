"""The DSPy adapter of a user's module: which one it is, and how a compiled program stores it.

The adapter of `dspy.configure` makes the prompts of a user's module in plain DSPy. A compiled program stores
its class and options, so that it can be built elsewhere. An adapter with options that JSON cannot hold is
taken from `dspy.configure` there.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Mapping
from typing import Any

import dspy

from ragc.errors import UsageError
from ragc.programs.knobs import ADAPTER

LAYOUT_OF: Mapping[type, str] = {dspy.ChatAdapter: "chat", dspy.JSONAdapter: "json", dspy.XMLAdapter: "xml"}
"""The layouts whose prompts DSPy's own adapters make; every other adapter is the layout `adapter`."""


def configured() -> Any:
    """Returns the adapter of `dspy.configure` or `dspy.context`, or DSPy's default.

    Raises UsageError for one that is no adapter, or that asks a language model of its own.
    """
    adapter = dspy.settings.adapter
    if adapter is None:
        return dspy.ChatAdapter()
    name = type(adapter).__name__
    if not isinstance(adapter, dspy.Adapter):
        raise UsageError(
            f"dspy.configure names an adapter of the type {name}; give it a dspy.Adapter, such as "
            "dspy.ChatAdapter()."
        )
    for attribute, value in vars(adapter).items():
        if isinstance(value, dspy.BaseLM):
            raise UsageError(
                f"The adapter {name} asks a language model of its own ({attribute}), which neither store nor "
                "budget sees; configure another adapter, such as dspy.ChatAdapter()."
            )
    return adapter


def layout_of(adapter: Any) -> str:
    """Returns the layout of `adapter`: "chat", "json" or "xml" for DSPy's own, else "adapter"."""
    return LAYOUT_OF.get(type(adapter), ADAPTER)


def to_json(adapter: Any) -> dict[str, Any]:
    """Returns the class of `adapter`, its changed options, and the names of `other` ones.

    Other options have values that JSON cannot hold.
    """
    cls = type(adapter)
    try:
        defaults: Mapping[str, Any] = vars(cls())
    except Exception:  # a class of the user's that needs arguments
        defaults = {}
    changed = {
        name: value
        for name, value in sorted(vars(adapter).items())
        if name not in defaults or not _is_same(defaults[name], value)
    }
    options = {name: value for name, value in changed.items() if _is_plain(value)}
    other = [name for name in changed if name not in options and name != "callbacks"]
    return {
        "class": f"{cls.__module__}:{cls.__qualname__}",
        **({"options": options} if options else {}),
        **({"other": other} if other else {}),
    }


def _is_plain(value: Any) -> bool:
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def _is_same(default: Any, value: Any) -> bool:
    try:
        return default is value or bool(type(default) is type(value) and default == value)
    except Exception:  # whatever a user's class does when it is compared
        return False


def from_json(value: Mapping[str, Any]) -> Any:
    """Returns the adapter that `to_json` described.

    DSPy's configured adapter if it is the same; else a new one of a class of DSPy, or of an imported module.
    No user's module is imported. Raises UsageError if that is impossible.
    """
    present = dspy.settings.adapter
    if present is not None and to_json(present) == dict(value):
        return present
    name, options = str(value.get("class", "")), value.get("options") or {}
    cls = _class_of(name)
    if cls is None or value.get("other") or not isinstance(options, Mapping):
        held = f" with {', '.join(map(str, value['other']))}" if value.get("other") else ""
        raise UsageError(
            f"The program was measured with the adapter {name!r}{held}, which is not here; name it with "
            "dspy.configure(adapter=...) before the program is opened."
        )
    try:
        adapter = cls()
        for option, setting in options.items():
            setattr(adapter, str(option), setting)
    except Exception as error:
        raise UsageError(
            f"The program was measured with the adapter {name!r}, which cannot be made here "
            f"({type(error).__name__}: {error}); name it with dspy.configure(adapter=...)."
        ) from error
    return adapter


def _class_of(name: str) -> Any:
    """Returns the class of an adapter, `module:Class`: of DSPy, or of a module that is imported; None for
    others.
    """
    module, _, attribute = name.partition(":")
    if module.startswith("dspy.adapters."):
        try:
            held: Any = importlib.import_module(module)
        except ImportError:
            return None
    else:
        held = sys.modules.get(module)
    cls = getattr(held, attribute, None)
    return cls if isinstance(cls, type) and issubclass(cls, dspy.Adapter) else None


def shown(adapter: Any) -> str:
    """Returns `adapter` in a sentence, such as `dspy.ChatAdapter(use_json_adapter_fallback=False)`."""
    cls, facts = type(adapter), to_json(adapter)
    options = ", ".join(f"{name}={value!r}" for name, value in facts.get("options", {}).items())
    home = "dspy." if cls in LAYOUT_OF else ""
    return f"{home}{cls.__name__}({options}{', ...' if facts.get('other') else ''})"
