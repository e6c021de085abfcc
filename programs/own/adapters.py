"""How a compiled program stores the DSPy adapter that it was measured under: its class and options."""

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


def layout_of(adapter: Any) -> str:
    """Returns the layout of `adapter`: "chat", "json" or "xml" for DSPy's own, else "adapter"."""
    return LAYOUT_OF.get(type(adapter), ADAPTER)


def to_json(adapter: Any) -> dict[str, Any]:
    """Returns the class of `adapter`, its changed options, and the names of those that JSON cannot hold."""
    cls, options, other = type(adapter), dict[str, Any](), list[str]()
    try:
        defaults = vars(cls())
    except Exception:  # a class of the user's that needs arguments
        defaults = {}
    for name, value in sorted(vars(adapter).items()):
        try:
            text = json.dumps(value)
            if name not in defaults or json.dumps(defaults[name]) != text:
                options[name] = json.loads(text)
        except TypeError:
            if name != "callbacks" and defaults.get(name) != value:
                other.append(name)
    named = {"class": f"{cls.__module__}:{cls.__qualname__}", "options": options, "other": other}
    return {name: value for name, value in named.items() if value}


def from_json(value: Any) -> Any:
    """Returns the adapter that `to_json` described.

    DSPy's configured adapter if it is the same; else a new one of a class of DSPy, or of an imported module.
    No user's module is imported. Raises UsageError if that is impossible.
    """
    present = dspy.settings.adapter
    if present is not None and to_json(present) == value:
        return present
    try:
        home, _, name = str(value["class"]).partition(":")
        if home.startswith("dspy.adapters."):
            importlib.import_module(home)
        adapter = getattr(sys.modules[home], name)()
        if not isinstance(adapter, dspy.Adapter) or value.get("other"):
            raise TypeError("it, or an option of it, is not in the file")
        vars(adapter).update(value.get("options") or {})
    except Exception as error:
        raise UsageError(
            f"The program was measured with the adapter {value}, which cannot be made here "
            f"({type(error).__name__}: {error}); name it with dspy.configure(adapter=...) before the program "
            "is opened."
        ) from error
    return adapter
