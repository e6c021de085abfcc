"""The files of `[prompts]`: instructions, descriptions of fields and demonstrations for a predictor.

A `.txt` or `.md` file is the instructions. A `.toml` file holds them by name, and so does the block `source`
of an export (`jinja2`, `openai-json`): the rest of an export is made from that block, so an edit of the rest
is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic
from pydantic_core import ErrorDetails

from ragc.core.files import read_bytes
from ragc.core.redact import shorten
from ragc.errors import DataError, UnknownName, UsageError, nearest
from ragc.prompts.model import SOURCE, digest_without_source

if TYPE_CHECKING:
    from ragc.programs.base import RagProgram
    from ragc.programs.calls.predict import RagPredict

MAX_BYTES = 4 * 2**20
"""Maximum size of a file in bytes."""


class ImportedPrompt(pydantic.BaseModel):
    """What a file says of a predictor's prompt.

    `fields` are descriptions by field name. Instructions and demonstrations that are None, and fields that
    are not named, stay as the program has them.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)

    instructions: str | None = None
    fields: dict[str, str] = {}
    demonstrations: list[dict[str, pydantic.JsonValue]] | None = None

    def apply(self, program: RagProgram, predictor: str) -> None:
        """Sets the prompt of a predictor of `program` to this one.

        Raises UnknownName for an unknown predictor or field, and UsageError for more demonstrations than the
        program shows, for one that does not fit the fields, and for a text that holds a field's marker.
        """
        from ragc.signatures.wording import described, description

        calls = dict(program.named_predictors())
        if predictor not in calls:
            raise UnknownName(f"predictor of {program.method.id!r}", predictor, calls)
        call = calls[predictor]
        named = dict.fromkeys([*self.fields, *(name for demo in self.demonstrations or () for name in demo)])
        for name in named:
            if name not in call.signature.fields:
                raise UnknownName(f"field of {predictor!r}", name, call.signature.fields)
        self._check_demonstrations(call, int(program.knobs.knob("icl_n").high or 0))
        for text in self._texts():
            if marker := re.search(_markers(call), text):
                raise UsageError(
                    f"A text holds {marker[0]!r}, which marks a field in prompts and replies; write it in "
                    "another way."
                )
        instructions = call.signature.instructions if self.instructions is None else self.instructions
        own = {name: description(name, info) for name, info in call.signature.fields.items()}
        if own | self.fields == own:
            call.signature = call.signature.with_instructions(instructions)
        else:
            call.signature = described(call.signature, instructions, own | self.fields)
        if self.demonstrations is not None:
            call.demos = self.demonstrations

    def _check_demonstrations(self, call: RagPredict, most: int) -> None:
        """Raises UsageError for demonstrations that `call` would not show; icl_n is `most` at most."""
        fields, demonstrations = call.signature.fields, self.demonstrations or []
        if len(demonstrations) > call.max_demos:
            raise UsageError(
                f"It has {len(demonstrations)} demonstrations and the program shows {call.max_demos}; give "
                f"fewer, or set the knob icl_n, which is {most} at most."
            )
        for number, demonstration in enumerate(demonstrations, 1):
            for kind in (call.signature.input_fields, call.signature.output_fields):
                if not kind.keys() & demonstration.keys():
                    raise UsageError(
                        f"Its demonstration {number} has none of the fields {', '.join(kind)}, so no program "
                        "would show it."
                    )
            for name, value in demonstration.items():
                if problem := _type_problem(fields[name].annotation, value):
                    raise UsageError(f"Its demonstration {number} has a value of {name!r}: {problem}.")

    def _texts(self) -> Iterator[str]:
        yield self.instructions or ""
        yield from self.fields.values()
        for demonstration in self.demonstrations or ():
            for value in demonstration.values():
                yield from map(str, value) if isinstance(value, list) else (str(value),)


def _markers(call: RagPredict) -> str:
    """Returns the pattern of what marks a field of `call` in prompts and replies."""
    names = "|".join(map(re.escape, (*call.signature.fields, "completed")))
    tags = rf"|</?(?:{names})>" if call.layout == "xml" else ""
    return rf"\[\[ ## (?:{names}) ## \]\]{tags}"


def _type_problem(annotation: Any, value: Any) -> str:
    """Returns how the type of `value` differs from `annotation`; "" if it does not, whatever its bounds."""
    try:
        pydantic.TypeAdapter(annotation).validate_json(json.dumps(value), strict=True)
    except pydantic.ValidationError as error:
        return next((one["msg"] for one in error.errors() if one["type"].endswith("_type")), "")
    return ""


def import_prompt(path: str | Path) -> ImportedPrompt:
    """Returns the prompt in the file at `path`. Nothing in it is run or rendered.

    Raises DataError, in one sentence, for a file that is no prompt, and for an export that was edited
    elsewhere than in its `source`.
    """
    path = Path(path)
    try:
        text = contents(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(str(path), [f"the prompt is not UTF-8 text ({error})."]) from None
    if path.suffix in (".txt", ".md"):
        return _validate(path, {"instructions": text.strip()})
    if path.suffix == ".toml":
        try:
            return _validate(path, tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise DataError(str(path), [f"it is no TOML ({error})."]) from None
    try:
        document = json.loads(text)
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()  # no NaN, no lone surrogate
    except (ValueError, RecursionError) as error:
        raise DataError(str(path), [f"it is no JSON ({error}); {_WANTED}."]) from None
    source = document.get(SOURCE) if isinstance(document, dict) else None
    if not isinstance(source, dict):
        raise DataError(str(path), [f"it has no {SOURCE!r} of an export; {_WANTED}."])
    if not _is_as_exported(document, source.get("digest")):
        raise DataError(str(path), [_EDITED])
    return _validate(path, {name: value for name, value in source.items() if name != "digest"})


_WANTED = (
    "wanted is instructions (.txt, .md), a .toml file with instructions, fields and demonstrations, or an "
    "export of jinja2 or openai-json"
)


_EDITED = (
    f"it was edited beside its {SOURCE!r}, from which its messages and settings are made; undo that, and "
    f"edit the instructions, fields and demonstrations in {SOURCE!r}."
)


def _is_as_exported(document: Mapping[str, Any], digest: Any) -> bool:
    try:
        return bool(digest_without_source(document) == digest)
    except (ValueError, RecursionError):
        return False


def _validate(path: Path, values: Mapping[str, Any]) -> ImportedPrompt:
    try:
        return ImportedPrompt.model_validate(values)
    except RecursionError:
        raise DataError(str(path), ["it is nested too deep."]) from None
    except pydantic.ValidationError as error:
        raise DataError(str(path), list(map(_problem, error.errors()))) from None


def _problem(detail: ErrorDetails) -> str:
    """Returns what pydantic found, with the place, and for an unknown key the nearest name."""
    place = shorten(".".join(map(str, detail["loc"])), 80)
    if detail["type"] == "extra_forbidden":
        return f"unknown key {place!r}.{nearest(place, ImportedPrompt.model_fields)}"
    return f"{place}: {detail['msg']}."


def contents(path: Path) -> bytes:
    """Returns the bytes of the prompt at `path`; raises DataError for no file or one above MAX_BYTES."""
    try:
        return read_bytes(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(str(path), [f"the prompt cannot be read: {why}."]) from None
