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
        method = getattr(program, "method", None)
        state = {"method": method.id if method else "", "knobs": program.knobs.to_json()}
        return {**state, **({"learned": program.learned} if program.learned else {})}

    def load_state(self, state: dict[str, Any], **more: Any) -> None:
        """Loads the learned values.

        Raises UsageError when `state` is of another method, or was saved under other knobs, which are part of
        how a program was built.
        """
        program = self.program
        own = getattr(program, "method", None)
        if own is not None and state.get("method", own.id) not in ("", own.id):
            raise UsageError(
                f"The saved state is of program {state['method']!r}, and this one is {own.id!r}; load it "
                f"into ragc.program({state['method']!r}, ...)."
            )
        present, saved = program.knobs.to_json(), state.get("knobs", {})
        differing = [name for name in present if name in saved and saved[name] != present[name]]
        if differing or (unknown := [name for name in saved if name not in present]):
            names = differing or unknown
            arguments = ", ".join(f"{name}={saved[name]!r}" for name in names)
            own_values = [f"{name}={present[name]!r}" for name in names if name in present]
            raise UsageError(
                f"The state was saved with {arguments}, and this program has "
                f"{', '.join(own_values) or 'none of them'}; build it with {arguments} "
                "and load the state then."
            )
        program.learned = state.get("learned", {})


_settings: WeakKeyDictionary[Any, SavedSettings] = WeakKeyDictionary()


def settings_of(program: RagProgram) -> SavedSettings:
    """Returns the settings of `program`, always the same object: DSPy compares parameters by identity."""
    held = _settings.get(program)
    if held is None:
        held = _settings[program] = SavedSettings(program)
    return held
