"""CompiledProgram: the result of a study, a directory of JSON and TOML that runs no code.

`program.json`, `provenance.json`, `recipe.toml` and `prompts/` are byte-identical for the same recipe, seed,
store and record of used questions. `run.json` records the requests and the time of one run and may differ.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import pydantic

from ragc.compiled.trust_record import DIGESTED, code_in, digest_of, remember_written
from ragc.core.digest import digest, pretty
from ragc.core.display import describe
from ragc.core.files import (
    Foreign,
    check_folder,
    missing_file,
    put_folder,
    read_bytes,
    resolve_out,
    with_manifest,
)
from ragc.errors import ArtefactError, UsageError
from ragc.programs import NAMES, Method, method
from ragc.programs.base import RagProgram
from ragc.programs.calls.outputs import reply_schema
from ragc.programs.calls.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.signatures.wording import described, description, with_fields

if TYPE_CHECKING:
    from ragc.programs.own.source import KeptModule
    from ragc.task.answering import Row

Format = Literal["ragc.compiled/2"]
FORMAT: Format = "ragc.compiled/2"

PACKED = ".ragc"
"""The suffix of a pack (`ragc.compiled.pack`)."""

PROGRAM_FACTS = "module"
"""The key in `provenance.json` of what is stored about a user's own module."""

RUN = "run.json"
"""The file of what differs between runs, with the list of the files that ragc wrote."""

FRONT = "front"
"""The folder of the programs of a front in the directory of a compiled program."""


class PredictorState(pydantic.BaseModel):
    """The compiler's choices for one typed call.

    With `nearest` above 0 a call shows so many of `demos`, those nearest to its question. `descriptions` are
    those of the fields, by name; a field without one is only named.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    instructions: str
    descriptions: dict[str, str] = {}
    demos: list[dict[str, Any]]
    inputs: list[str]
    output_schema: dict[str, Any]
    layout: str
    role: str
    nearest: int = 0

    @pydantic.model_serializer(mode="wrap")
    def _serialize(self, write: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leaves out `nearest` if it is 0 and `descriptions` if there are none."""
        absent = {name for name in ("nearest", "descriptions") if not getattr(self, name)}
        return {name: value for name, value in write(self).items() if name not in absent}


class ProgramState(pydantic.BaseModel):
    """The content of `program.json`."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    format: Format
    method: str
    knobs: dict[str, bool | int | float | str]
    predictors: dict[str, PredictorState]
    learned: dict[str, Any] = {}
    targets: dict[str, str] = {}

    @pydantic.field_validator("knobs", "predictors", "learned", mode="before")
    @classmethod
    def _in_json(cls, value: Any) -> Any:
        """Rejects NaN and infinity, which the parser accepts and JSON does not have."""
        if not _finite(value):
            raise ValueError("NaN and infinity are no numbers of JSON")
        return value


def _is_endless(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _finite(value: Any) -> bool:
    """Returns whether no number in the JSON value `value` is NaN or infinite."""
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return all(map(_finite, value)) if isinstance(value, list) else not _is_endless(value)


class Session(Protocol):
    """Opens a compiled program and answers with it: `ragc.compiled.opened.Session`."""

    def ask(self, compiled: CompiledProgram, question: str, context: Mapping[str, Any]) -> Row:
        """Answers `question` with `compiled`. Raises RagcError."""
        ...

    async def aask(self, compiled: CompiledProgram, question: str, context: Mapping[str, Any]) -> Row:
        """Awaits what `ask` returns, on any event loop."""
        ...

    def close(self) -> None:
        """Frees models, connections and files."""
        ...


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A compiled program with its provenance.

    `provenance` and `run` are JSON objects; `recipe` is the text of `recipe.toml`. A loaded program has its
    directory as `path`, the `digest` of the files read there, and, if its recipe names its author's code, the
    digests of `modules` by relative path, which that digest covers. A program from `ragc.load` has a
    `session` and answers questions: `program(question)` from any number of threads, or
    `await program.acall(question)`. Its models and sources are opened at the first question.
    """

    state: ProgramState
    provenance: Mapping[str, Any]
    recipe: str
    run: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    digest: str = ""
    modules: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    session: Session | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        state = self.state
        known = method(state.method).knobs.list_knobs() if state.method in NAMES else ()
        defaults = {knob.name: knob.default for knob in known}
        changed = {name: value for name, value in state.knobs.items() if defaults.get(name) != value}
        demos = sum(len(predictor.demos) for predictor in state.predictors.values())
        where = repr(str(self.path)) if self.path else None
        verdict = self.judged.get("verdict")
        shown = {"program": state.method, **changed, "demos": demos or None, "verdict": verdict}
        return describe("CompiledProgram", where, **shown)

    @property
    def judged(self) -> Mapping[str, Any]:
        """The table that has the `verdict` people are shown.

        That of `run.json` where it is adjusted for earlier looks at the test questions, else provenance.
        """
        adjusted = self.run.get("after_looks")
        return adjusted if isinstance(adjusted, dict) else self.provenance

    def __call__(self, question: str, **context: Any) -> Row:
        """Answers `question`; `context` are the other inputs of a data row. Raises RagcError."""
        return self._answering().ask(self, question, context)

    async def acall(self, question: str, **context: Any) -> Row:
        """Awaits what `__call__` returns, on any event loop."""
        return await self._answering().aask(self, question, context)

    def _answering(self) -> Session:
        if self.session is None or self.path is None:
            raise UsageError(
                "This compiled program was not loaded from a directory; ragc.load(PATH) answers."
            )
        return self.session

    def close(self) -> None:
        """Frees models, connections and files; a later call opens them again."""
        if self.session is not None:
            self.session.close()

    def __enter__(self) -> CompiledProgram:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def fingerprint(self) -> str:
        """A digest of `program.json`."""
        return digest(self.state.model_dump(mode="json"))

    @property
    def salt(self) -> str:
        """The salt of the measured replies, if they were requested again; else ""."""
        salt = self.run.get("salt")
        return salt if isinstance(salt, str) else ""

    @classmethod
    def of(
        cls, program: RagProgram, *, provenance: Mapping[str, Any], recipe: str, run: Mapping[str, Any]
    ) -> CompiledProgram:
        """Returns the compiled form of `program` in its present state."""
        return cls(state_of(program), provenance, recipe, run)

    def build(self, runtime: Runtime, entry: Method | None = None) -> RagProgram:
        """Builds the program, ready to run; `entry` is its method if it is known already.

        Raises ArtefactError if this version of ragc has other predictors.
        """
        try:
            chosen = entry or method(self.state.method)
            program = chosen.build(runtime.with_targets(self.state.targets), self.state.knobs)
        except UsageError as error:
            raise ArtefactError(f"The compiled program at {self.path} cannot be built: {error}") from error
        predictors = dict(program.named_predictors())
        if set(predictors) != set(self.state.predictors):
            raise ArtefactError(
                f"The compiled program at {self.path} has the predictors {sorted(self.state.predictors)}, "
                f"and {self.state.method!r} has {sorted(predictors)} here; compile it again with this "
                f"version."
            )
        for name, saved in self.state.predictors.items():
            predictors[name].signature = self._signature(program, name, saved)
            demos = [dict(demo) for demo in saved.demos]
            predictors[name].demos = demos
            if isinstance(predictors[name], RagPredict):  # DSPy shows a user's module whatever it has
                predictors[name].nearest = saved.nearest
                self._check_use(name, saved, predictors[name], demos)
        try:
            program.learned = self.state.learned
        except UsageError as error:
            raise ArtefactError(f"The compiled program at {self.path} cannot be built: {error}") from error
        return program

    def _signature(self, program: RagProgram, name: str, saved: PredictorState) -> Any:
        """Returns the signature of predictor `name` when it was compiled, with the field types of `program`.

        Raises ArtefactError if its fields differ from the present ones.
        """
        present = dict(program.named_predictors())[name].signature
        fields = [*saved.inputs, *saved.output_schema.get("required", ())]
        try:
            signature = with_fields(present, fields)
        except (KeyError, TypeError) as error:
            raise self._other_fields(name, error.args[:1]) from error
        if more := set(present.fields) - set(fields):
            raise self._other_fields(name, sorted(more))
        return described(signature, saved.instructions, saved.descriptions)

    def _check_use(
        self, name: str, saved: PredictorState, predictor: RagPredict, demos: Sequence[Mapping[str, Any]]
    ) -> None:
        """Raises ArtefactError for a layout that no prompt has, and for one of `demos` that none shows.

        DSPy leaves out demonstrations without an input or an output.
        """
        whose = f"the predictor {name!r} of the compiled program at {self.path}"
        if saved.layout != predictor.layout:
            raise ArtefactError(
                f"T{whose[1:]} has the layout {saved.layout!r}, and the prompts of this program have "
                f"{predictor.layout!r}, by its knob `layout`; copy the program again, or compile it again."
            )
        fields = {"input": predictor.signature.input_fields, "output": predictor.signature.output_fields}
        for number, demo in enumerate(demos, 1):
            for kind, names in fields.items():
                if all(demo.get(field) is None for field in names):
                    raise ArtefactError(
                        f"Demonstration {number} of {whose} has no {kind} ({', '.join(names)}), so no prompt "
                        "would show it; mend or remove it in program.json, or compile again."
                    )

    def _other_fields(self, name: str, fields: Sequence[object]) -> ArtefactError:
        return ArtefactError(
            f"The predictor {name!r} of the compiled program at {self.path} has other fields than here: "
            f"{', '.join(map(str, fields))}; compile it again with this version."
        )

    def save(
        self,
        out: Path,
        program: RagProgram,
        *,
        checkpoint: bool = False,
        front: Sequence[tuple[CompiledProgram, RagProgram]] = (),
    ) -> Path:
        """Writes the directory `out` as a whole, in place of a compiled program that is there.

        The programs of the `front` are in the folders `front/1`, `front/2` and so on. The module of a user's
        own program is stored as one file. Raises ArtefactError if `out` is something else or holds more than
        ragc wrote, UsageError if the module cannot be imported by others, and OSError. A `checkpoint` is for
        this process alone and stores what it can.
        """
        where = _check_folder(out)
        files = self._files(program, checkpoint)
        members = {f"{FRONT}/{number}": member for number, member in enumerate(front, start=1)}
        for folder, (compiled, member) in members.items():
            own = with_manifest(RUN, compiled.run, compiled._files(member, checkpoint))
            files |= {f"{folder}/{name}": content for name, content in own.items()}
        with as_artefact():
            put_folder(where, with_manifest(RUN, self.run, files), RUN)
        if self.path is None:  # created here, not loaded
            for folder in ("", *members):
                remember_written(out / folder, str(self.run.get("base", "")))
        return out

    def _files(self, program: RagProgram, checkpoint: bool) -> dict[str, bytes]:
        """Returns the files of the directory without `run.json`. Raises UsageError as `save` does."""
        module = getattr(program.method, "module", None)
        source_file: KeptModule | None = None
        if module is not None:
            from ragc.programs.own.source import kept_module

            with suppress(UsageError) if checkpoint else nullcontext():
                source_file = kept_module(program.method.id, module)
        provenance = {
            **self.provenance,
            **({} if source_file is None else {PROGRAM_FACTS: source_file.to_json()}),
        }
        files = {
            # A prompt shows the keys of an object in a demonstration in their order.
            "program.json": pretty(self.state.model_dump(mode="json"), sort_keys=False),
            "provenance.json": pretty(provenance),
            "recipe.toml": self.recipe,
        } | {f"prompts/{name}.md": readable(call) for name, call in program.named_calls()}
        written = {name: text.encode("utf-8", "surrogatepass") for name, text in files.items()}
        if source_file is not None and source_file.file:
            written[source_file.file] = source_file.content
        return written


def refuse_foreign(out: Path) -> None:
    """Raises ArtefactError if `out` exists and does not hold a compiled program as ragc wrote it.

    Raises UsageError if `out` is not writable, which is tested by writing.
    """
    _check_folder(out)


def _check_folder(out: Path) -> Path:
    """Returns the folder that `out` resolves to, checked for writing. Raises what `refuse_foreign` raises."""
    with as_artefact():
        where = resolve_out(out)
        check_folder(where, RUN, what="a compiled program", ours=is_compiled)
    return where


@contextmanager
def as_artefact() -> Iterator[None]:
    """Raises errors of foreign folders as ArtefactError."""
    try:
        yield
    except Foreign as error:
        raise ArtefactError(str(error)) from None


def is_compiled(folder: Path) -> bool:
    """Returns whether the content of `program.json` in `folder` is a compiled program."""
    try:
        ProgramState.model_validate_json(read_bytes(folder / "program.json"))
    except (OSError, ValueError):
        return False
    return True


def load(path: str | Path, session: Session | None = None) -> CompiledProgram:
    """Loads the compiled program in the directory `path`; with a `session` it answers questions.

    Raises ArtefactError in one sentence.
    """
    folder = Path(path)
    if not folder.exists():
        what = f"the compiled program {str(folder)!r}"
        raise ArtefactError(missing_file(what, str(folder), Path(), "folder"))
    if not (folder / "program.json").is_file():
        advice = "compile one with `ragc compile`"
        if folder.suffix == PACKED and folder.is_file():
            raise ArtefactError(
                f"{folder} is a pack; this reads the compiled directory that it was made of. Packs open in "
                "ask, eval, gate, serve, mcp and trust, and in Python in ragc.load."
            )
        if (folder / "recipe.toml").is_file():
            advice = f"it holds a recipe: name {folder / 'recipe.toml'}, or compile it with `ragc compile`"
        raise ArtefactError(f"{folder} holds no compiled program (no program.json); {advice}.")
    contents: dict[str, bytes] = {}
    try:
        # Each file is read once, so that the digest covers exactly the parsed bytes.
        contents = {name: _read_inside(folder, name) for name in DIGESTED}
        state = ProgramState.model_validate_json(contents["program.json"].decode("utf-8"))
        provenance = _object(contents["provenance.json"], "provenance.json")
        recipe = contents["recipe.toml"].decode("utf-8")
        run = _object(_read_inside(folder, RUN), RUN) if (folder / RUN).exists() else {}
        modules = code_in(folder, contents)
    except pydantic.ValidationError as error:
        raise ArtefactError(_not_valid(folder / "program.json", error)) from error
    except RecursionError:
        raise ArtefactError(
            f"The compiled program at {folder} cannot be read: it is nested too deep."
        ) from None
    except FileNotFoundError as error:
        name = Path(error.filename or "").name
        raise ArtefactError(
            f"The compiled program at {folder} has no {name}; copy the directory again, as a whole."
        ) from None
    except UnicodeDecodeError as error:
        name = next(name for name in contents if contents[name] == error.object)
        raise ArtefactError(
            f"The compiled program at {folder} cannot be read: {name} is not UTF-8; copy the directory again."
        ) from None
    except (OSError, ValueError) as error:
        raise ArtefactError(f"The compiled program at {folder} cannot be read: {error}.") from error
    known = digest_of(contents, modules)
    return CompiledProgram(state, provenance, recipe, run, folder, known, modules, session)


def _not_valid(file: Path, error: pydantic.ValidationError) -> str:
    """Returns the message that `file` is no program.json: of another version of ragc, or damaged."""
    first = error.errors()[0]
    if first["loc"] == ("format",) and isinstance(first["input"], str):
        known = " and ".join(get_args(Format))
        return (
            f"{file} has the format {first['input']!r}, and this version of ragc reads {known}; "
            "install the version that wrote it, or compile the recipe again."
        )
    where = ".".join(map(str, first["loc"]))
    problem = f"{where}: {first['msg']}" if where else first["msg"]
    return f"{file} is damaged ({problem}); copy it again, or compile the recipe again."


def _read_inside(folder: Path, name: str) -> bytes:
    """Returns the bytes of the file `name` in a compiled directory. Links that lead out of it are refused."""
    try:
        return read_bytes(folder / name, within=folder)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ArtefactError(
            f"{folder / name} cannot be read: {error.strerror}; copy the compiled program again."
        ) from None


def state_of(program: RagProgram) -> ProgramState:
    """Returns the content of `program.json` for `program` in its present state."""
    return ProgramState(
        format=FORMAT,
        method=program.method.id,
        knobs=program.knobs.to_json(),
        predictors={name: _state(call) for name, call in program.named_calls()},
        learned=program.learned,
        targets=program.runtime.target_names,
    )


def program_digest(program: RagProgram, facts: Mapping[str, Any]) -> str:
    """Returns the digest of `program` in the record of used questions, over its state, targets and sources.

    `facts` are those of its task.
    """
    inputs_of = {name: facts.get(name) for name in ("sources", "targets")}
    return digest([state_of(program).model_dump(mode="json"), inputs_of])[:32]


def _object(content: bytes, name: str) -> dict[str, Any]:
    """Returns the JSON object in the file `name`. Raises ValueError, which names it, and RecursionError."""
    try:
        value = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{name} is damaged: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{name} holds no JSON object")
    return value


def _state(predictor: RagPredict) -> PredictorState:
    signature = predictor.signature
    descriptions = {
        name: text for name, info in signature.fields.items() if (text := description(name, info))
    }
    return PredictorState(
        instructions=signature.instructions,
        descriptions=descriptions,
        demos=[dict(demo) for demo in predictor.demos],
        inputs=list(signature.input_fields),
        output_schema=reply_schema(signature),
        layout=predictor.layout,
        role=predictor.role,
        nearest=predictor.nearest,
    )


FOR_READING = (
    "<!-- For reading: a change here changes nothing. To edit a prompt, write it with `ragc export COMPILED "
    "--to openai-json --out PATH` and name that file under [prompts] in a recipe. -->\n"
)


def readable(predictor: RagPredict) -> str:
    """Returns the prompt of `predictor` for people: how to change it, then every message with inputs as
    `{name}`.
    """
    slots = {name: [f"{{{name}}}"] if _is_list(info) else f"{{{name}}}" for name, info in _inputs(predictor)}
    parts = [FOR_READING]
    if predictor.nearest:
        parts += [f"Of {len(predictor.demos)} demonstrations the {predictor.nearest} nearest are shown.\n"]
    parts += [f"## {message.role}\n\n{message.content}\n" for message in predictor.messages(**slots)]
    return "\n".join(parts)


def _inputs(predictor: RagPredict) -> list[tuple[str, Any]]:
    return list(predictor.signature.input_fields.items())


def _is_list(info: Any) -> bool:
    return str(info.annotation).startswith("list")
