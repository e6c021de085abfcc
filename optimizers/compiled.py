"""CompiledProgram: what a study leaves behind, a directory of JSON and TOML that runs no code.

`program.json`, `provenance.json`, `recipe.toml` and `prompts/` are byte-identical for the same
recipe, seed and store; `run.json` says what this one run sent and when, and stands outside that.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pydantic

from ragc.errors import ArtefactError, UsageError
from ragc.fingerprint import digest, pretty
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.predict import RagPredict
from ragc.programs.runtime import Runtime
from ragc.programs.typed import reply_schema

FORMAT: Literal["ragc.compiled/1"] = "ragc.compiled/1"
IDENTICAL = ("program.json", "provenance.json", "recipe.toml")


class PredictorState(pydantic.BaseModel):
    """What the compiler chose for one typed call.

    With `nearest` above 0 a call shows so many of `demos`, those nearest to its question.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    instructions: str
    demos: list[dict[str, Any]]
    inputs: list[str]
    output_schema: dict[str, Any]
    layout: str
    role: str
    nearest: int = 0

    @pydantic.model_serializer(mode="wrap")
    def _written(self, write: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `nearest` where every call shows the same demonstrations."""
        return {name: value for name, value in write(self).items() if name != "nearest" or value}


class ProgramState(pydantic.BaseModel):
    """The whole of `program.json`."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)

    format: Literal["ragc.compiled/1"]
    method: str
    knobs: dict[str, bool | int | float | str]
    predictors: dict[str, PredictorState]
    learned: dict[str, Any] = {}
    targets: dict[str, str] = {}

    @pydantic.field_validator("knobs", "predictors", "learned", mode="before")
    @classmethod
    def _in_json(cls, value: Any) -> Any:
        """Refuse NaN and infinity, which the parser lets pass and JSON has not."""
        if not _finite(value):
            raise ValueError("NaN and infinity are no numbers of JSON")
        return value


def _is_endless(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _finite(value: Any) -> bool:
    """Whether no number in `value`, of JSON, is NaN or infinite."""
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return all(map(_finite, value)) if isinstance(value, list) else not _is_endless(value)


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A compiled program and where it came from.

    `provenance` and `run` are JSON objects; `recipe` is the text of `recipe.toml`.
    """

    state: ProgramState
    provenance: Mapping[str, Any]
    recipe: str
    run: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None

    @property
    def fingerprint(self) -> str:
        """A digest of `program.json`."""
        return digest(self.state.model_dump(mode="json"))

    @classmethod
    def of(
        cls, program: RagProgram, *, provenance: Mapping[str, Any], recipe: str, run: Mapping[str, Any]
    ) -> CompiledProgram:
        """The compiled form of `program` as it stands."""
        predictors = {name: _state(predictor) for name, predictor in program.named_predictors()}
        state = ProgramState(
            format=FORMAT,
            method=program.method.id,
            knobs=program.knobs.to_json(),
            predictors=predictors,
            learned=program.learned,
            targets=program.runtime.players,
        )
        return cls(state, provenance, recipe, run)

    def build(self, runtime: Runtime) -> RagProgram:
        """The program, ready to run. Raises ArtefactError when this version of ragc has other predictors."""
        try:
            program = method(self.state.method).build(runtime.playing(self.state.targets), self.state.knobs)
        except UsageError as error:
            raise ArtefactError(f"The compiled program at {self.path} cannot be built: {error}") from error
        found = dict(program.named_predictors())
        if set(found) != set(self.state.predictors):
            raise ArtefactError(
                f"The compiled program at {self.path} has the predictors {sorted(self.state.predictors)}, "
                f"and {self.state.method!r} has {sorted(found)} here; compile it again with this version."
            )
        for name, saved in self.state.predictors.items():
            found[name].signature = found[name].signature.with_instructions(saved.instructions)
            found[name].demos = [dict(demo) for demo in saved.demos]
            found[name].nearest = saved.nearest
        try:
            program.learned = self.state.learned
        except UsageError as error:
            raise ArtefactError(f"The compiled program at {self.path} cannot be built: {error}") from error
        return program

    def save(self, out: Path, program: RagProgram) -> Path:
        """Write the directory `out` at once; an older compiled program there is replaced.

        Raises ArtefactError when `out` exists and is something else.
        """
        refuse_foreign(out)
        out.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
        try:
            (fresh / "program.json").write_text(pretty(self.state.model_dump(mode="json")), "utf-8")
            (fresh / "provenance.json").write_text(pretty(self.provenance), "utf-8")
            (fresh / "recipe.toml").write_text(self.recipe, "utf-8")
            (fresh / "run.json").write_text(pretty(self.run), "utf-8")
            (fresh / "prompts").mkdir()
            for name, predictor in program.named_predictors():
                (fresh / "prompts" / f"{name}.md").write_text(readable(predictor), "utf-8")
            fresh.chmod(0o755)
            if out.exists():
                old = out.with_name(f".{out.name}-old-{os.getpid()}")
                out.rename(old)
                fresh.rename(out)
                shutil.rmtree(old)
            else:
                fresh.rename(out)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        return out


def refuse_foreign(out: Path) -> None:
    """Raise ArtefactError when `out` exists and does not hold a compiled program."""
    if out.exists() and not (out.is_dir() and ((out / "program.json").exists() or not any(out.iterdir()))):
        raise ArtefactError(
            f"{out} exists and is not a compiled program; choose another --out or move it away."
        )


def load(path: str | Path) -> CompiledProgram:
    """The compiled program in the directory `path`. Raises ArtefactError in one sentence."""
    folder = Path(path)
    if not (folder / "program.json").is_file():
        raise ArtefactError(
            f"{folder} holds no compiled program (no program.json); compile one with `ragc compile`."
        )
    try:
        state = ProgramState.model_validate_json((folder / "program.json").read_text("utf-8"))
        provenance = json.loads((folder / "provenance.json").read_text("utf-8"))
        recipe = (folder / "recipe.toml").read_text("utf-8")
        run_file = folder / "run.json"
        run = json.loads(run_file.read_text("utf-8")) if run_file.exists() else {}
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ArtefactError(f"{folder / 'program.json'} is not {FORMAT}: {where}: {first['msg']}.") from error
    except (OSError, ValueError) as error:
        raise ArtefactError(f"The compiled program at {folder} cannot be read: {error}.") from error
    return CompiledProgram(state, provenance, recipe, run, folder)


def _state(predictor: RagPredict) -> PredictorState:
    signature = predictor.signature
    return PredictorState(
        instructions=signature.instructions,
        demos=[dict(demo) for demo in predictor.demos],
        inputs=list(signature.input_fields),
        output_schema=reply_schema(signature),
        layout=predictor.layout,
        role=predictor.role,
        nearest=predictor.nearest,
    )


def readable(predictor: RagPredict) -> str:
    """The prompt of `predictor` for people: every message, inputs as `{name}`."""
    slots = {name: [f"{{{name}}}"] if _is_list(info) else f"{{{name}}}" for name, info in _inputs(predictor)}
    parts = []
    if predictor.nearest:
        parts = [f"Of {len(predictor.demos)} demonstrations the {predictor.nearest} nearest are shown.\n"]
    parts += [f"## {message.role}\n\n{message.content}\n" for message in predictor.messages(**slots)]
    return "\n".join(parts)


def _inputs(predictor: RagPredict) -> list[tuple[str, Any]]:
    return list(predictor.signature.input_fields.items())


def _is_list(info: Any) -> bool:
    return str(info.annotation).startswith("list")
