"""SavedSettings: a program's knobs and learned values, as a parameter for DSPy's `save` and `load`.

DSPy writes the state of every parameter of a module, and of the modules inside it. This is one such
parameter, beside the predictors of each program of ours, so that a program inside a user's module is saved
completely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from dspy.predict.parameter import Parameter

from ragc.errors import UsageError

if TYPE_CHECKING:
    from ragc.programs.base import RagProgram

NAME = "settings"
"""The name of the parameter, and its key in a saved state."""


class SavedSettings(Parameter):
    """Method, knobs and learned values of one program. Loading them refuses other knobs."""

    def __init__(self, program: RagProgram) -> None:
        self._program: ReferenceType[RagProgram] = ref(program)

    @property
    def program(self) -> RagProgram:
        """The program whose settings these are."""
        program = self._program()
        if program is None:
            raise ReferenceError("the program of these settings is gone")
        return program

    def reset(self) -> None:
        """Does nothing: optimizers reset parameters to start anew, and a knob is no result of theirs."""

    def dump_state(self, json_mode: bool = True) -> dict[str, Any]:
        """Returns JSON values: `method`, `knobs`, and `learned` if anything was."""
        program = self.program
        id = program.method.id if hasattr(program, "method") else ""
        state = {"method": id, "knobs": program.knobs.to_json()}
        return {**state, **({"learned": program.learned} if program.learned else {})}

    def load_state(self, state: dict[str, Any], **more: Any) -> None:
        """Loads the learned values.

        Raises UsageError when `state` is of another method, or was saved under other knobs, which are part of
        how a program was built.
        """
        program = self.program
        id = program.method.id if hasattr(program, "method") else ""
        if id and state.get("method", id) not in ("", id):
            raise UsageError(
                f"The saved state is of program {state['method']!r}, and this one is {id!r}; load it into "
                f"ragc.program({state['method']!r}, ...)."
            )
        present, saved = program.knobs.to_json(), state.get("knobs", {})
        differing = {name: value for name, value in saved.items() if present.get(name) != value}
        if differing:
            arguments = ", ".join(f"{name}={value!r}" for name, value in differing.items())
            values = ", ".join(f"{name}={present[name]!r}" for name in differing if name in present)
            raise UsageError(
                f"The state was saved with {arguments}, and this program has {values or 'none of them'}; "
                f"build it with {arguments} and load the state then."
            )
        program.learned = state.get("learned", {})


_settings: WeakKeyDictionary[Any, SavedSettings] = WeakKeyDictionary()


def settings_of(program: RagProgram) -> SavedSettings:
    """Returns the settings of `program`, always the same object: DSPy compares parameters by identity."""
    if program not in _settings:
        _settings[program] = SavedSettings(program)
    return _settings[program]
