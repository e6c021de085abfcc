"""The files of `[prompts]`: instructions, descriptions of fields and demonstrations for a predictor.

A `.txt` or `.md` file is the instructions. A `.toml` file holds them by name, and so does the block `source`
of an export (`jinja2`, `openai-json`): the rest of an export is made from that block, so an edit of the rest
is refused.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pydantic
from pydantic_core import ErrorDetails

from ragc.core.digest import digest
from ragc.core.files import read_bytes
from ragc.core.redact import shorten
from ragc.errors import DataError, UnknownName, UsageError, nearest
from ragc.prompts.model import SOURCE, digest_without_source

if TYPE_CHECKING:
    from ragc.programs.base import RagProgram

MAX_BYTES = 4 * 2**20
"""Maximum size of a file in bytes."""

LAYOUT_KNOBS = ("layout", "query_pos", "cot", "answer_format")
"""The knobs that most programs have and that lay out a prompt."""

_WANTED = (
    "wanted is instructions (.txt, .md), a .toml file with instructions, fields and demonstrations, or an "
    "export of jinja2 or openai-json"
)
_EDITED = (
    f"it was edited beside its {SOURCE!r}, from which its messages and settings are made; undo that, and "
    f"edit the instructions, fields and demonstrations in {SOURCE!r}."
)


class ImportedPrompt(pydantic.BaseModel):
    """What a file says of a predictor's prompt.

    `fields` are descriptions by field name. Instructions and demonstrations that are None, and fields that
    are not named, stay as the program has them. `laid_out` is the `layout_digest` of the exported predictor.
    """

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, strict=True)

    instructions: str | None = None
    fields: dict[str, str] = {}
    demonstrations: list[dict[str, pydantic.JsonValue]] | None = None
    laid_out: str = ""

    def apply(self, program: RagProgram, predictor: str, *, as_laid_out: bool = False) -> None:
        """Sets the prompt of a predictor of `program` to this one.

        Raises UnknownName for an unknown predictor or field, and UsageError for more demonstrations than the
        program shows, for one that does not fit the fields, for a text that holds a field's marker, and with
        `as_laid_out` for an export whose messages were laid out otherwise.
        """
        from ragc.signatures.wording import described, description

        predictors, calls = dict(program.named_predictors()), dict(program.named_calls())
        if predictor not in predictors:
            raise UnknownName(f"predictor of {program.method.id!r}", predictor, predictors)
        signature = predictors[predictor].signature
        for name in (*self.fields, *(name for demo in self.demonstrations or () for name in demo)):
            if name not in signature.fields:
                raise UnknownName(f"field of {predictor!r}", name, signature.fields)
        self._check_demonstrations(signature, calls[predictor].max_demos, program)
        self._check_markers(signature.fields, xml=calls[predictor].layout == "xml")
        if as_laid_out and self.laid_out and self.laid_out != layout_digest(calls[predictor]):
            raise UsageError(
                f"It was exported from a program whose knobs (such as {', '.join(LAYOUT_KNOBS)}) lay its "
                "messages out otherwise than those of this recipe; set the same under [knobs], or delete "
                f"'laid_out' in its {SOURCE!r} to have its texts laid out as here."
            )
        about = {name: description(name, info) for name, info in signature.fields.items()}
        instructions = signature.instructions if self.instructions is None else self.instructions
        if about | self.fields == about:
            predictors[predictor].signature = signature.with_instructions(instructions)
        else:
            predictors[predictor].signature = described(signature, instructions, about | self.fields)
        if self.demonstrations is not None:
            predictors[predictor].demos = self.demonstrations

    def _check_demonstrations(self, signature: Any, shown: int, program: RagProgram) -> None:
        """Raises UsageError for demonstrations of which `program` would not show all."""
        demonstrations = self.demonstrations or []
        if len(demonstrations) > shown:
            raise UsageError(
                f"It has {len(demonstrations)} demonstrations and the program shows {shown}; give fewer, or "
                f"set the knob icl_n, which is {int(program.knobs.knob('icl_n').high or 0)} at most."
            )
        for number, demonstration in enumerate(demonstrations, 1):
            for fields in (signature.input_fields, signature.output_fields):
                if not fields.keys() & demonstration.keys():
                    raise UsageError(
                        f"Its demonstration {number} has none of the fields {', '.join(fields)}, so no "
                        "program would show it."
                    )
            for name, value in demonstration.items():
                if problem := _type_problem(signature.fields[name].annotation, value):
                    raise UsageError(f"Its demonstration {number} has a value of {name!r}: {problem}.")

    def _check_markers(self, fields: Mapping[str, Any], *, xml: bool) -> None:
        """Raises UsageError for a text that holds what marks one of `fields` in prompts and replies."""
        names = "|".join(map(re.escape, (*fields, "completed")))
        marker = re.compile(rf"\[\[ ## (?:{names}) ## \]\]" + (rf"|</?(?:{names})>" if xml else ""))
        for text in _texts([self.instructions, self.fields, self.demonstrations]):
            if match := marker.search(text):
                raise UsageError(
                    f"A text holds {match[0]!r}, which marks a field in prompts and replies; write it in "
                    "another way."
                )


def _texts(value: Any) -> Iterator[str]:
    """Yields the texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)


def _type_problem(annotation: Any, value: Any) -> str:
    """Returns how the type of `value` differs from `annotation`; "" if it does not, whatever its bounds."""
    try:
        pydantic.TypeAdapter(annotation).validate_json(json.dumps(value), strict=True)
    except pydantic.ValidationError as error:
        return next((detail["msg"] for detail in error.errors() if detail["type"].endswith("_type")), "")
    return ""


def layout_digest(call: Any) -> str:
    """Returns a digest of how the predictor `call` lays out its messages, whatever the texts in them.

    It is "" for a predictor of a user's own module, which no knob lays out.
    """
    from ragc.programs.calls.outputs import reply_schema
    from ragc.programs.calls.prompt import TypedPrompt
    from ragc.signatures.wording import described

    if not isinstance(call, TypedPrompt):
        return ""
    blank = copy.deepcopy(call)
    blank.signature, blank.demos = described(call.signature, "", {}), []
    fields = blank.signature.input_fields.items()
    names = [name for name, info in fields if not (info.json_schema_extra or {}).get("echo")]
    return digest([blank.messages(**dict(zip(names, names, strict=True))), reply_schema(blank.signature)])[
        :16
    ]


def import_prompt(path: str | Path) -> ImportedPrompt:
    """Returns the prompt in the file at `path`. Nothing in it is run or rendered.

    Raises DataError, in one sentence, for a file that is no prompt, and for an export that was edited
    elsewhere than in its `source`.
    """
    path = Path(path)
    content = contents(path)
    try:
        text = content.decode("utf-8-sig")
        if path.suffix in (".txt", ".md"):
            return _validate(path, {"instructions": text.strip()})
        if path.suffix == ".toml":
            return _validate(path, tomllib.loads(text))
        document = json.loads(text)
        json.dumps(document, ensure_ascii=False, allow_nan=False).encode()  # no NaN, no lone surrogate
        source = document.get(SOURCE) if isinstance(document, dict) else None
        unedited = isinstance(source, dict) and digest_without_source(document) == source.get("digest")
    except UnicodeDecodeError as error:
        raise DataError(str(path), [f"the prompt is not UTF-8 text ({error})."]) from None
    except tomllib.TOMLDecodeError as error:
        raise DataError(str(path), [f"it is no TOML ({error})."]) from None
    except (ValueError, RecursionError) as error:
        raise DataError(str(path), [f"it cannot be read ({error}); {_WANTED}."]) from None
    if not isinstance(source, dict):
        raise DataError(str(path), [f"it has no {SOURCE!r} of an export; {_WANTED}."])
    if not unedited:
        raise DataError(str(path), [_EDITED])
    return _validate(path, {name: value for name, value in source.items() if name != "digest"})


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
