"""Converts JSON schemas to types: the inputs of a prompt, and a DSPy signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from ragc.errors import UsageError
from ragc.prompts.model import Input, Kind, Output

_PLAIN: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": type(None),
}
_KINDS: Mapping[str, Kind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "flag"}
_TYPES: Mapping[Kind, type] = {"text": str, "integer": int, "number": float, "flag": bool}
_BOUNDS = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_length",
    "maxItems": "max_length",
    "pattern": "pattern",
}


def input_of(name: str, schema: Mapping[str, Any]) -> Input:
    """Returns the input `name` with its JSON schema; raises UsageError for an unsupported type."""
    many = schema.get("type") == "array"
    one = (schema.get("items") or {}) if many else schema
    kind = _KINDS.get(str(one.get("type")))
    if kind is None:
        raise UsageError(f"The input {name!r} is neither text, number, flag, nor a list of those.")
    return Input(name, kind, many, str(schema.get("description") or ""))


def annotation(schema: Mapping[str, Any], named: Mapping[str, Any], name: str = "Reply") -> Any:
    """Returns the Python type of values that fit `schema`; `named` are its definitions. Raises UsageError."""
    import pydantic

    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        if name not in named:
            raise UsageError(f"The schema refers to {schema['$ref']!r}, which it does not define.")
        schema = named[name]
    bounds = {keyword: schema[key] for key, keyword in _BOUNDS.items() if key in schema}
    bare = _bare(schema, named, name)
    return Annotated[bare, pydantic.Field(**bounds)] if bounds else bare


def _bare(schema: Mapping[str, Any], named: Mapping[str, Any], name: str) -> Any:
    import pydantic

    if "enum" in schema or "const" in schema:
        return Literal[tuple(schema["enum"] if "enum" in schema else [schema["const"]])]
    if parts := schema.get("anyOf") or schema.get("oneOf"):
        union: Any = annotation(parts[0], named, name)
        for part in parts[1:]:
            union = union | annotation(part, named, name)
        return union
    kind = schema.get("type")
    if kind == "array":
        return list[annotation(schema.get("items") or {}, named, name)]  # type: ignore[misc]
    if kind == "object" and schema.get("properties"):
        fields: dict[str, Any] = {
            field: (annotation(part, named, field.title()), ...)
            for field, part in schema["properties"].items()
        }
        return pydantic.create_model(name, **fields)
    if kind not in _PLAIN:
        raise UsageError(f"No type is known for the JSON schema {dict(schema)!r}.")
    return _PLAIN[str(kind)]


def signature_of(instructions: str, inputs: Sequence[Input], outputs: Sequence[Output], named: Any) -> Any:
    """Returns the DSPy signature with these fields; raises UsageError for a name or type that DSPy cannot
    have.
    """
    import dspy

    fields: dict[str, Any] = {}
    if both := {one.name for one in inputs} & {out.name for out in outputs}:
        raise UsageError(f"The prompt has {', '.join(sorted(both))} as input and as output; rename one.")
    for one in inputs:
        kind = _TYPES[one.kind]
        shown = dspy.InputField(**({"desc": one.about} if one.about else {}))
        fields[one.name] = (list[kind] if one.many else kind, shown)  # type: ignore[valid-type]
    try:
        for out in outputs:
            shown = dspy.OutputField(**({"desc": out.about} if out.about else {}))
            fields[out.name] = (annotation(out.schema, named, out.name.title()), shown)
        return dspy.make_signature(fields, instructions)
    except RecursionError:
        raise UsageError("The prompt gives no signature: a schema of its reply refers to itself.") from None
    except UsageError:
        raise
    except Exception as error:  # pydantic raises many exceptions for an invalid schema
        why = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
        raise UsageError(f"The prompt gives no signature: {why:.200}") from error
