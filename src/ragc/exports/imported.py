"""Import: a prompt that a team has, exported or hand-written, as a signature with demonstrations.

Files are read, never run: templates are parsed and nothing in them is rendered.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragc.errors import UnknownName, UsageError
from ragc.exports.import_file import contents, read
from ragc.exports.prompt import Input, Output
from ragc.targets.base import Sampling

__all__ = ["DEFAULT", "ImportedPrompt", "contents", "imported"]

DEFAULT = Sampling()
"""What a file that says nothing of the sampling asks for."""

if TYPE_CHECKING:
    from ragc.programs.base import RagProgram
    from ragc.programs.predict import RagPredict


@dataclass(frozen=True, slots=True)
class ImportedPrompt:
    """A prompt as it was read.

    `inputs` and `outputs` are its fields; those in `guessed` have a type that the file does not tell.
    `demos` are values by field name. `definitions` are what the schemas of outputs refer to. `left` says, a
    sentence each, what of the file was not taken over as it stands. `exported` tells that all of this is
    what an export said. `sampling` is for the reader: knobs decide the sampling of a program.
    """

    path: Path
    format: str
    instructions: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    demos: tuple[Mapping[str, Any], ...] = ()
    sampling: Sampling = DEFAULT
    guessed: frozenset[str] = frozenset()
    definitions: Mapping[str, Any] = field(default_factory=dict)
    left: tuple[str, ...] = ()
    exported: bool = False

    def signature(self) -> Any:
        """The DSPy signature of the prompt; raises UsageError where a field has no name or type for one."""
        from ragc.exports.import_types import signature_of

        return signature_of(self.instructions, self.inputs, self.outputs, self.definitions)

    def apply(self, program: RagProgram, predictor: str, *, demos: bool = True) -> None:
        """Give the instructions and demonstrations of this prompt to a predictor of `program`.

        Without `demos` its demonstrations stay as they are, and so do its instructions where this prompt has
        none. Raises UnknownName for another predictor, and UsageError when its fields are others, or when the
        program shows fewer demonstrations than there are.
        """
        calls = dict(program.named_predictors())
        if predictor not in calls:
            raise UnknownName(f"predictor of {program.method.id!r}", predictor, calls)
        call = calls[predictor]
        what = f"{self.path} cannot be the prompt of {predictor!r} of {program.method.id}"
        self._check(what, call)
        if demos and len(self.demos) > call.max_demos:
            raise UsageError(
                f"{what}: it has {len(self.demos)} demonstrations and the program shows {call.max_demos}; "
                f"set the knob icl_n to {len(self.demos)}, or take its instructions only."
            )
        if self.exported or self.instructions:
            call.signature = call.signature.with_instructions(self.instructions)
        if demos:
            call.demos = [_fitted(demo, call.signature) for demo in self.demos]

    def _check(self, what: str, call: RagPredict) -> None:
        """Raise UsageError unless the fields of `call` are those of this prompt."""
        fields = call.signature.input_fields
        own = {name: info for name, info in fields.items() if not (info.json_schema_extra or {}).get("echo")}
        hidden = {"domain"} if type(call).messages is not _messages() else set()
        found = {one.name for one in self.inputs}
        if not (own.keys() - hidden <= found <= own.keys()):
            raise UsageError(f"{what}: its inputs are {_names(found)}, wanted are {_names(own)}.")
        for one in self.inputs:
            many = str(own[one.name].annotation).startswith(("list", "tuple"))
            if many != one.many and one.name not in self.guessed:
                raise UsageError(
                    f"{what}: its input {one.name!r} is {_many(one.many)}, wanted is {_many(many)}."
                )
        outputs = call.signature.output_fields
        told = {one.name for one in self.outputs}
        wrong = told - outputs.keys() if told & self.guessed else told ^ outputs.keys()
        if wrong:
            raise UsageError(f"{what}: its outputs are {_names(told)}, wanted are {_names(outputs)}.")


def _messages() -> Any:
    from ragc.programs.predict import RagPredict

    return RagPredict.messages


def _names(names: Any) -> str:
    return ", ".join(name[:60] for name in sorted(names)[:20]) or "none"


def _many(many: bool) -> str:
    return "a list" if many else "one value"


def _fitted(demo: Mapping[str, Any], signature: Any) -> dict[str, Any]:
    """`demo` with one item where a list is wanted and a value stands."""
    made = dict(demo)
    for name, info in signature.input_fields.items():
        if isinstance(made.get(name), str) and str(info.annotation).startswith(("list", "tuple")):
            made[name] = [made[name]]
    return made


def imported(path: str | Path, *, format: str | None = None) -> ImportedPrompt:
    """The prompt in the file at `path`, an export of `jinja2` or `openai-json` or a hand-written one.

    That is a JSON array of messages, an object with `messages`, or a text template (`.jinja`, `.jinja2`,
    `.j2`). Pairs of user and assistant before the last message become demonstrations where they are
    written as the last message is. Raises UnknownName for another format and DataError for what is no
    prompt or does what no prompt of ragc can, in one sentence.
    """
    from ragc.exports.import_reading import taken, told
    from ragc.exports.origin import intact

    file = read(path, format)
    return told(file) if intact(file.told, file.raw) else taken(file)
