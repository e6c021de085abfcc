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
    """Returns the class of `adapter`, its changed options, and the names of `other` ones.

    Other options have values that JSON cannot hold.
    """
    cls = type(adapter)
    try:
        defaults = vars(cls())
    except Exception:  # a class of the user's that needs arguments
        defaults = {}
    texts = {name: json.dumps(value, default=id) for name, value in sorted(vars(adapter).items())}
    changed = [n for n in texts if n not in defaults or json.dumps(defaults[n], default=id) != texts[n]]
    options = {name: json.loads(texts[name]) for name in changed}
    plain = {name: value for name, value in options.items() if value == getattr(adapter, name)}
    other = [name for name in changed if name not in plain and name != "callbacks"]
    return {
        "class": f"{cls.__module__}:{cls.__qualname__}",
        **({"options": plain} if plain else {}),
        **({"other": other} if other else {}),
    }


def from_json(value: Mapping[str, Any]) -> Any:
    """Returns the adapter that `to_json` described.

    DSPy's configured adapter if it is the same; else a new one of a class of DSPy, or of an imported module.
    No user's module is imported. Raises UsageError if that is impossible.
    """
    present = dspy.settings.adapter
    if present is not None and to_json(present) == dict(value):
        return present
    name, options = str(value.get("class", "")), value.get("options") or {}
    home, _, attribute = name.partition(":")
    held = ", ".join(map(str, value.get("other") or ()))
    try:
        if home.startswith("dspy.adapters."):
            importlib.import_module(home)
        adapter = getattr(sys.modules[home], attribute)()
        if held or not isinstance(adapter, dspy.Adapter):
            raise TypeError("it is not here")
        vars(adapter).update(options)
    except Exception as error:
        raise UsageError(
            f"The program was measured with the adapter {name!r}{f' with {held}' if held else ''}, which cannot "
            f"be made here ({type(error).__name__}: {error}); name it with dspy.configure(adapter=...) before "
            "the program is opened."
        ) from error
    return adapter
