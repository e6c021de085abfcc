"""Mending of replies: what a model plainly meant, in the form that was asked for.

A value that fits its JSON schema stays as it is. Else these mends are tried, each counted:

    wanted          written                                     read as
    --------------  ------------------------------------------  ----------------------------------------------
    one of a few    other case, marks or hyphens: "Yes.", (b)   the option
                    the option, then more: "B. Paris"           the option; of 3 letters where a blank follows
                    another form, or the same in other words    the option: "partial", "wrong", "the web"
                    y, n or a tick where it is yes or no        the option
                    a label before it: "Answer: B"              the option
                    true or false where it is yes or no         the option
                    a number between options: 84                the nearest option
    yes or no       the name of the field: "insufficient"       the truth value, where nothing is hedged
    true or false   "Yes", "no", "T", "0", "True, because"      true or false
    a number        "5", "90 %", "[3]", "Passage 2", "4/5"      the number; of a fraction, on its own scale
                    90.5 for an integer; .9 of 0 to 100         the nearest one; 90, also of -100 to 100
                    stars; a sign of another font               how many are filled; the number
    a text          a number; true; a list of texts             its digits; "yes"; the texts with commas
                    longer than its bound                       its first words
    a list          one item; its items in a text; null         that item; "[3] > [1]" as [3, 1]; no items
                    a map by numbers, or to options             an item for each entry
                    ranks before the numbers: "1. Passage 3"    the numbers: 3
                    longer than its bound                       its first items
                    items that do not fit beside ones that do   the others; these are counted as dropped
    an object       its one field without a name; in a list     the object
                    names in other spelling: "Sub Questions"    the names
                    its fields beside it, one level too high    the object with them
                    a text, where all fields may be absent      the object with it as its first text
    a step          "search[query]"; {"search": "query"}        the option and its text
                    {"name": "search", "arguments": ...}        the same
    one of several  what one of them is after its mends         that one
    anything        an object with one field, a list of one     what it holds
                    JSON inside a text                          what it holds
                    null, beside other fields                   the empty text or list, the option "none"
    a reply         prose or a code fence around it             what is in it; prose before it is a first
                                                                text that is missing
                    thoughts in tags; formulas; tokens          what is after or in them
                    sentences that name the answer              that answer, option, number or list
                    a table; lines with labels or two values    a row or a line for each item
                    two values, the second in the first's place the second; without a word that says so, none
                    a step that goes on: "Observation: ..."     the first step
                    a refusal, a question back, a blank form    nothing: it is asked for again
                    another layout; labels: "Answer: Paris"     what is in it
                    bare, where one output is wanted            that output
                    cut by the limit of tokens                  missing texts and lists are empty, the item
                                                                that it was cut in is dropped

Nothing is invented: a value that is missing in a whole reply, a number out of bounds and a word that is no
option are left, and refused where the value is checked.

This module is part of exported Python files too: it needs nothing but the standard library.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragc.programs.calls.reading.json_objects import Tally
from ragc.programs.calls.reading.meaning import (
    BULLET,
    EMPTY,
    FLAGS,
    NO_MEANING,
    NONE_SAID,
    bare,
    choose,
    first_words,
    fold,
    is_option,
    is_text,
    loads,
    nearest_integer,
    number_in,
    numbers_in,
    word_set,
    written,
)
from ragc.programs.calls.reading.other_names import (
    chosen_under,
    flag_under,
    is_another,
    is_two_valued,
    is_verdict_key,
    marked_option,
    text_under,
)
from ragc.programs.calls.reading.step_calls import call_in, call_of, held_in
from ragc.programs.calls.reading.verdicts import rating, verdict


def _named_value(value: Any) -> Any:
    """What an object holds under the one name of its that means a value; `value` where there is none."""
    named = (
        [held for key, held in value.items() if fold(key) in _VALUE_NAMES] if isinstance(value, dict) else []
    )
    return named[0] if len(named) == 1 else value


def _ranks(value: Mapping[str, Any]) -> list[int]:
    """The numbers that a map by the ranks 1, 2 and so on holds, one for each; none where it is another."""
    places = [numbers_in(str(key)) for key in value]
    ranked = [numbers_in(str(held)) for held in value.values()]
    if places != [[at] for at in range(1, len(value) + 1)] or any(len(one) != 1 for one in ranked):
        return []
    return [one[0] for one in ranked]


class Mender:
    """Mends values by their schemas; `named` are the schemas that others refer to by name.

    With `strict` the items of lists that do not fit after all mends are dropped.
    """

    def __init__(self, named: Mapping[str, Any], tally: Tally, *, strict: bool = False) -> None:
        self._named, self._tally, self._strict = named, tally, strict

    def mend(self, schema: Mapping[str, Any], value: Any) -> Any:
        """`value` as `schema` wants it, as far as it can be mended."""
        schema = self.resolve(schema)
        if kinds := schema.get("anyOf") or schema.get("oneOf"):
            return self._one_of([self.resolve(kind) for kind in kinds], value)
        if value is None:
            return None
        kind = schema.get("type")
        if "enum" in schema or "const" in schema:
            return self._option(schema.get("enum") or [schema["const"]], value)
        if kind == "object" and schema.get("properties"):
            return self._object(schema, value)
        if kind == "array":
            return self._array(schema, value)
        scalar = _SCALARS.get(str(kind))
        return value if scalar is None else scalar(self, schema, value)

    def _one_of(self, kinds: Sequence[Mapping[str, Any]], value: Any) -> Any:
        """`value` as the first of `kinds` that it fits, mended where it fits none as it is."""
        if any(self.fits(kind, value) for kind in kinds):
            return value
        for kind in kinds:
            if self.fits(kind, Mender(self._named, Tally()).mend(kind, value)):
                return self.mend(kind, value)
        return value

    def resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """`schema`, or the one that it refers to."""
        for _ in range(len(self._named)):
            if "$ref" not in schema:
                break
            schema = self._named.get(schema["$ref"].rpartition("/")[2], {})
        if len(schema.get("allOf", ())) == 1:
            return self.resolve(schema["allOf"][0])
        return schema

    def fill(self, schema: Mapping[str, Any], value: Any, *, texts: bool = True) -> Any:
        """`value` of a reply that was cut: lists that are missing are empty, and `texts` of the reply too."""
        if not isinstance(value, dict):
            return value
        filled = dict(value)
        for name, inner in self.resolve(schema).get("properties", {}).items():
            kind = self.resolve(inner)
            if name in filled:
                filled[name] = self.fill(kind, filled[name], texts=False)
                continue
            empty = self._empty(kind)
            if isinstance(empty, str) and not (texts and is_text(kind)):
                continue
            if empty is not NO_MEANING:
                filled[name] = empty
                self._count()
        return filled

    def _count(self) -> None:
        self._tally.mended += 1

    def _empty(self, schema: Mapping[str, Any]) -> Any:
        """What says nothing where `schema` is wanted; `NO_MEANING` where everything says something."""
        schema = self.resolve(schema)
        if "enum" in schema:
            words = (option for option in schema["enum"] if isinstance(option, str))
            return next((option for option in words if option.casefold() in EMPTY), NO_MEANING)
        if schema.get("type") == "string" and not schema.get("minLength"):
            return ""
        if schema.get("type") == "array" and not schema.get("minItems"):
            return []
        lists = schema.get("properties", {})
        if lists and all(self._empty(kind) == [] for kind in lists.values()):
            return {name: [] for name in lists}
        return NO_MEANING

    def _object(self, schema: Mapping[str, Any], value: Any) -> Any:
        kinds = schema["properties"]
        value = self._inside(value, dict)
        one = value[0] if isinstance(value, list) and len(value) == 1 else None
        if isinstance(one, dict) and (len(kinds) > 1 or _fields_in(one, kinds)):
            self._count()
            value = one
        if not isinstance(value, dict):
            value = self._as_object(schema, value)
            if not isinstance(value, dict):
                return value
        fields = self._called(schema, self._gathered(kinds, self._fields(schema, value)))
        fields = self._renamed(schema, fields)
        first = next(iter(kinds))
        strange = [key for key in fields if key not in kinds and fold(key) not in _BESIDE_NAMES]
        if (
            first not in fields
            and is_text(self.resolve(kinds[first]))
            and any(isinstance(fields[k], str) for k in strange)
        ):
            fields[first] = {}  # no text: what stands under another name may be it
        for name, kind in kinds.items():
            if name not in fields:
                continue
            optional = name not in schema.get("required", kinds)
            if optional and fields[name] == [] and is_text(self.resolve(kind)):
                fields[name] = None
            if fields[name] is None and not self._allows_null(kind):
                empty = self._empty(kind)
                if empty is NO_MEANING or (empty == "" and len(kinds) == 1 and not optional):
                    del fields[name]
                    continue
                fields[name] = empty
                self._count()
            else:
                fields[name] = self.mend(kind, self._worded(name, kind, fields[name]))
        return fields

    def _worded(self, name: str, schema: Mapping[str, Any], value: Any) -> Any:
        """`value`; where it tells a truth value in words that fit the `name` of the field, that."""
        kind = self.resolve(schema)
        if is_text(kind) and name.rpartition("_")[2] in ("query", "question") and isinstance(value, list):
            texts = {one for one in value if isinstance(one, str) and len(one.split()) > 2}
            return value if len(texts) < 2 else None  # several, and no word of which counts
        options = [True, False] if kind.get("type") == "boolean" else kind.get("enum", ())
        if not isinstance(value, str) or len(options) < 2 or choose(value, options) is not NO_MEANING:
            return value
        if len(options) == 2 and choose(value, ("true", "false", "yes", "no")) is not NO_MEANING:
            return value
        meant = verdict(name, options, value)
        if meant is NO_MEANING:
            return value
        self._count()
        return meant

    def _as_object(self, schema: Mapping[str, Any], value: Any) -> Any:
        """The object that `value` stands for: by its only field, a call, or its first text."""
        kinds = schema["properties"]
        if len(kinds) == 1:
            self._count()
            return {next(iter(kinds)): value}
        if (
            isinstance(value, list)
            and len(value) == len(kinds)
            and not any(isinstance(v, (list, dict)) for v in value)
        ):
            placed = dict(zip(kinds, value, strict=False))
            if self.fits(schema, placed):
                self._count()
                return placed
        if not isinstance(value, str) or not value.strip():
            return value
        first, *others = kinds
        options = self._options(kinds[first])
        call = call_in(value, options)
        if call and others:
            self._count()
            return {first: call[0], others[0]: call[1]}
        may_be_absent = not set(kinds) & set(schema.get("required", kinds))
        sentence = len(value.split()) > 2 and value[:1].isalnum()
        if may_be_absent and sentence and is_text(self.resolve(kinds[first])):
            self._count()
            return {first: value}
        return value

    def _options(self, schema: Mapping[str, Any]) -> list[str]:
        """The words that `schema` allows; none where it allows anything else."""
        kind = self.resolve(schema)
        options = kind.get("enum") or ([kind["const"]] if "const" in kind else [])
        return list(options) if all(isinstance(option, str) for option in options) else []

    def _called(self, schema: Mapping[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
        """`fields` with a step's option and text apart, which were written as one: `search[query]`.

        So are an option that is the name of a field, and an option or a text under another name.
        """
        kinds = schema["properties"]
        if len(kinds) < 2:
            return fields
        (name, text), others = list(kinds)[-2:], set(kinds)
        if self._options(kinds[next(iter(kinds))]) and not self._options(kinds[name]):
            name, text = list(kinds)[:2]
        options = self._options(kinds[name])
        if (
            all(option.casefold() in FLAGS for option in options)
            or text not in schema.get("required", kinds)
            or not is_text(self.resolve(kinds[text]))
        ):
            return fields
        if fields.get(name) in options and fields.get(text):
            return fields
        call = call_of(options, fields, name, text, others)
        if call is None:
            return fields
        self._count()
        own = {key: held for key, held in fields.items() if key in others}
        return {**own, name: call[0], text: call[1]}

    def _renamed(self, schema: Mapping[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
        """`fields` with the only one that is missing under its name, where one other stands that fits it."""
        kinds = schema["properties"]
        required = schema.get("required", kinds)
        missing = [name for name in kinds if name not in fields and name in required]
        missing = missing or [
            name for name in kinds if name not in fields and is_text(self.resolve(kinds[name]))
        ]
        others = {
            key: held for key, held in fields.items() if key not in kinds and fold(key) not in _BESIDE_NAMES
        }
        if len(missing) != 1 or any(fold(key) in _SCALE_NAMES for key in others):
            return fields
        kind = self.resolve(kinds[missing[0]])
        key, value = self._under_other_key(missing[0], kind, others, alone=len(kinds) == 1)
        if not key or not self.fits(kind, Mender(self._named, Tally()).mend(kind, value)):
            return fields
        self._count()
        return {**{other: held for other, held in fields.items() if other != key}, missing[0]: value}

    def _under_other_key(
        self, name: str, kind: Mapping[str, Any], others: Mapping[str, Any], *, alone: bool
    ) -> tuple[str, Any]:
        """The key among `others` that means the output `name`, and the value for it; "" where none does."""
        if is_text(kind):
            key = text_under(name, others)
            return key, others.get(key)
        scalars = {key: held for key, held in others.items() if isinstance(held, (str, bool, int, float))}
        if "enum" in kind and (key := chosen_under(name, kind["enum"], scalars)):
            return key, others[key]
        named = [key for key in scalars if is_verdict_key(name, key)]
        if len(named) != 1 and (len(others) != 1 or len(scalars) != 1 or alone):
            return "", None
        (key,) = named if len(named) == 1 else scalars
        if not is_two_valued(kind):
            return key, others[key]
        meant = flag_under(name, kind.get("enum", (True, False)), key, others[key])
        return ("", None) if meant is NO_MEANING else (key, meant)

    def _gathered(self, kinds: Mapping[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
        """`fields` with those of the one inner object that is missing, and that are beside it, inside it."""
        if kinds.keys() <= fields.keys():
            return fields
        inner = {name: self._names_in(kind) for name, kind in kinds.items() if name not in fields}
        missing = [name for name, names in inner.items() if names]
        beside = {name: held for name, held in fields.items() if name not in kinds}
        numbered = [
            key for key, held in beside.items() if _NUMBERED_KEY.fullmatch(key) and isinstance(held, dict)
        ]
        lists = [
            name for name in inner if name in missing or self.resolve(kinds[name]).get("type") == "array"
        ]
        if len(lists) == 1 and numbered and len(numbered) == len(beside):
            self._count()
            return {**{name: fields[name] for name in fields if name in kinds}, lists[0]: beside}
        if len(missing) != 1 or not {fold(name) for name in beside} & inner[missing[0]]:
            return fields
        self._count()
        return {**{name: fields[name] for name in fields if name in kinds}, missing[0]: beside}

    def _names_in(self, schema: Mapping[str, Any]) -> set[str]:
        """The fields of an object, or of those that it is one of; none for other values."""
        schema = self.resolve(schema)
        kinds = [self.resolve(kind) for kind in schema.get("anyOf", [schema])]
        if any(kind.get("type") != "object" for kind in kinds):
            return set()
        return {fold(name) for kind in kinds for name in kind.get("properties", {})}

    def _fields(self, schema: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of an object under the names that `schema` gives them."""
        kinds = schema["properties"]
        if value and value.keys() <= kinds.keys():
            return dict(value)
        items = self._items_in(kinds, value)
        if items is not None:
            self._count()
            return items
        inner = [
            held
            for key, held in value.items()
            if isinstance(held, dict) and key != "properties" and _fields_in(held, kinds)
        ]
        nested = [held for held in value.values() if isinstance(held, dict)]
        if len(nested) == 1 and len(value) > 1 and _completes(value, nested[0], kinds):
            self._count()
            beside = {key: held for key, held in value.items() if held is not nested[0]}
            value = {**{key: held for key, held in nested[0].items() if key in kinds}, **beside}
        elif len(inner) == 1 and len(value) > 1 and not _fields_in(value, kinds):
            self._count()
            value = inner[0]
        if len(value) == 1 and not _fields_in(value, kinds):
            ((key, held),) = value.items()
            if isinstance(held, dict) and _fields_in(held, kinds):
                self._count()
                value = held
            elif len(kinds) == 1 and fold(key) not in _ASIDE_NAMES:
                ((name, only),) = kinds.items()
                only = self.resolve(only)
                if is_another(name, key, text=is_text(only)):
                    return {}
                if is_two_valued(only) and isinstance(held, (bool, str)):
                    meant = flag_under(name, only.get("enum", (True, False)), key, held)
                    held = held if meant is NO_MEANING else meant
                self._count()
                return {name: held}
        fields = {name: value[name] for name in value if name in kinds}
        spelled = {fold(name): name for name in kinds}
        for name, held in value.items():
            right = spelled.get(fold(name), name)
            if right not in fields:
                fields[right] = held
                if right != name:
                    self._count()
        return fields

    def _allows_null(self, schema: Mapping[str, Any]) -> bool:
        schema = self.resolve(schema)
        if not schema or schema.get("type") == "null" or None in schema.get("enum", ()):
            return True
        return any(self._allows_null(kind) for kind in schema.get("anyOf", ()))

    def _array(self, schema: Mapping[str, Any], value: Any) -> Any:
        value = self._inside(value, list)
        kind = self.resolve(schema.get("items") or {})
        if not isinstance(value, list):
            items = self._items_of(kind, value)
            if items is None:
                return value
            self._count()
            value = items
        if not self._allows_null(kind):
            whole = [item for item in value if item is not None]
            self._tally.dropped += len(value) - len(whole)
            value = whole
        items = [self.mend(kind, item) for item in value]
        if self._strict:
            fitting = [item for item in items if self.fits(kind, item)]
            if fitting:
                self._tally.dropped += len(items) - len(fitting)
                items = fitting
        most = schema.get("maxItems", len(items))
        if len(items) > most:
            self._count()
        return items[:most]

    def _items_of(self, kind: Mapping[str, Any], value: Any) -> list[Any] | None:
        """The items that `value`, which is no list, stands for; None where it stands for none."""
        if isinstance(value, dict):
            if kind.get("properties") and _fields_in(value, kind["properties"]):
                return [value]
            mapped = self._mapped(kind, value)
            mapped = _ranks(value) or None if mapped is None and kind.get("type") == "integer" else mapped
            if mapped is not None:
                return mapped
            if len(value) == 1:
                (held,) = value.values()
                return held if isinstance(held, list) else self._items_of(kind, held)
            return None
        if not isinstance(value, str):
            return None if isinstance(value, bool) and kind.get("type") != "boolean" else [value]
        if bare(value) in EMPTY or (kind.get("type") != "string" and NONE_SAID.fullmatch(value.strip())):
            return []
        if kind.get("type") == "integer":
            if _GRADED.search(value):
                return None
            return numbers_in(value) or numbers_in(_REMARKS.sub("", value)) or None
        if "enum" in kind:
            return [part for part in re.split(r"[,;\n]", value) if part.strip()]
        if kind.get("type") != "string":
            return None
        lines = [line.strip() for line in value.splitlines() if line.strip()]
        if len(lines) > 1 and all(BULLET.match(line) for line in lines):
            return [BULLET.sub("", line) for line in lines]
        return [value]

    def _items_in(self, kinds: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any] | None:
        """The only output, a list, of an object that is one of its items, or a map of them."""
        if len(kinds) != 1 or not value or _fields_in(value, kinds):
            return None
        name, kind = next((name, self.resolve(kind)) for name, kind in kinds.items())
        if (marked := marked_option(kind.get("enum", ()), value)) is not NO_MEANING:
            return {name: marked}
        item = self.resolve(kind.get("items") or {}) if kind.get("type") == "array" else {}
        if item.get("type") == "integer" and (ranks := _ranks(value)):
            return {name: ranks}
        if not item.get("properties"):
            return None
        if value.keys() & item["properties"].keys():
            return {name: [dict(value)]}
        mapped = self._mapped(item, value)
        return None if mapped is None else {name: mapped}

    def _mapped(self, kind: Mapping[str, Any], value: Mapping[str, Any]) -> list[Any] | None:
        """The items that a map by numbers, or to options, stands for; None where it is no such map."""
        kinds = {name: self.resolve(inner) for name, inner in kind.get("properties", {}).items()}
        texts = [name for name, inner in kinds.items() if is_text(inner)]
        numbers = [name for name, inner in kinds.items() if inner.get("type") == "integer"]
        options = [name for name, inner in kinds.items() if "enum" in inner]
        if not value or not texts:
            return None
        inner = [held for held in value.values() if isinstance(held, dict)]
        if len(inner) == len(value):  # the number that is the key stands in no item
            numbers = [name for name in numbers if not any(name in held for held in inner)]
        if len(numbers) == 1 and all(len(numbers_in(str(key).replace("_", " "))) == 1 for key in value):
            return [
                {
                    numbers[0]: numbers_in(str(key).replace("_", " "))[0],
                    **(held if isinstance(held, dict) else {texts[0]: held}),
                }
                for key, held in value.items()
                if held is not None and held != ""
            ]
        if (
            len(numbers) == 1
            and len(texts) == 1
            and all(number_in(held, 100) is not None for held in value.values())
        ):
            return [{texts[0]: key, numbers[0]: held} for key, held in value.items()]
        if len(options) == 1 and len(texts) == 1 and not numbers:
            grouped = {key: choose(key, kinds[options[0]]["enum"]) for key in value}
            lists = all(
                isinstance(held, list) and all(isinstance(t, str) for t in held) for held in value.values()
            )
            if lists and NO_MEANING not in grouped.values():
                return [{texts[0]: t, options[0]: grouped[key]} for key, held in value.items() for t in held]
            chosen = {key: choose(held, kinds[options[0]]["enum"]) for key, held in value.items()}
            if NO_MEANING not in chosen.values():
                return [{texts[0]: key, options[0]: option} for key, option in chosen.items()]
        return None

    def _inside(self, value: Any, kind: type) -> Any:
        """The JSON value of a `kind` that the text `value` holds, or `value`."""
        if isinstance(value, str) and value.strip()[:1] == ("{" if kind is dict else "["):
            held = loads(value)
            if isinstance(held, kind):
                self._count()
                return held
        return value

    def _option(self, options: Sequence[Any], value: Any) -> Any:
        if is_option(value, options):
            return value
        held = _named_value(held_in(value))
        option = marked_option(options, value)
        if isinstance(held, dict) and (key := chosen_under("", options, held)):
            held = held[key]
        option = choose(held, options) if option is NO_MEANING else option
        if option is NO_MEANING and isinstance(held, str) and all(type(one) is int for one in options):
            option = choose(rating(held, numbered=False), options)
        if option is NO_MEANING:
            return (
                str(value) if isinstance(value, bool) and all(type(one) is int for one in options) else value
            )
        self._count()
        return option

    def _flag(self, schema: Mapping[str, Any], value: Any) -> Any:
        if isinstance(value, bool):
            return value
        held = _named_value(held_in(value))
        flag = FLAGS.get(bare(held)) if isinstance(held, str) else None
        if isinstance(held, bool) or (isinstance(held, (int, float)) and held in (0, 1)):
            flag = bool(held)
        if flag is None and isinstance(held, str):
            flag = FLAGS.get(str(choose(held, ("true", "false", "yes", "no"))))
        if flag is None:
            return value
        self._count()
        return flag

    def _number(self, schema: Mapping[str, Any], value: Any) -> Any:
        held = held_in(value)
        if isinstance(held, dict):
            named = [one for key, one in held.items() if fold(key) in _NUMBER_NAMES]
            held = named[0] if len(named) == 1 else _named_value(held)
        if isinstance(held, bool):
            return str(held)  # no number: pydantic takes it for 0 or 1
        low, high = schema.get("minimum"), schema.get("maximum")
        number = number_in(held, high)
        if number is None and isinstance(held, str) and (rated := rating(held, numbered=high is None)):
            number = number_in(rated, high)
        if number is None:
            return value
        if schema["type"] == "integer":
            number = nearest_integer(number, low, high)
        if held is not value or isinstance(held, str) or number != held:
            self._count()
        return number

    def _text(self, schema: Mapping[str, Any], value: Any) -> Any:
        if isinstance(value, dict) and len(value) > 1:
            texts = [held for held in value.values() if isinstance(held, str)]
            named = [held for key, held in value.items() if fold(key) in _CONTENT and isinstance(held, str)]
            value = texts if len(texts) == 1 else named if len(named) == 1 else value
        text = value if isinstance(value, str) else written(held_in(value))
        if text is None:
            return value
        if not isinstance(value, str):
            self._count()
        most = schema.get("maxLength", len(text))
        if len(text) > most:
            self._count()
            text = first_words(text, most, schema.get("minLength", 0))
        return text

    def fits(self, schema: Mapping[str, Any], value: Any) -> bool:
        """Whether `value` fits `schema`, as far as types, options and bounds tell."""
        schema = self.resolve(schema)
        if kinds := schema.get("anyOf") or schema.get("oneOf"):
            return any(self.fits(kind, value) for kind in kinds)
        if "enum" in schema or "const" in schema:
            return is_option(value, schema.get("enum") or [schema["const"]])
        kind = schema.get("type")
        if kind == "object" and schema.get("properties"):
            return isinstance(value, dict) and all(
                self.fits(inner, value[name]) if name in value else name not in schema.get("required", ())
                for name, inner in schema["properties"].items()
            )
        if kind == "array":
            inner = schema.get("items") or {}
            return isinstance(value, list) and all(self.fits(inner, item) for item in value)
        if kind in ("integer", "number"):
            types = int if kind == "integer" else (int, float)
            if not isinstance(value, types) or isinstance(value, bool):
                return False
            return all(holds(value, schema[word]) for word, holds in _BOUNDS.items() if word in schema)
        types_by_name = {"string": str, "boolean": bool, "null": type(None)}
        return kind not in types_by_name or isinstance(value, types_by_name[kind])


_NUMBERED_KEY = re.compile(r"(?:[A-Za-z]+[ _]?)?\d{1,3}")
_GRADED = re.compile(r"^[^\w\n]{0,4}[A-Za-z]+ ?\W?\d{1,3}\W{0,2}[:=] ?\d", re.MULTILINE)
"""A passage and what it is given: "Passage 2: 9"."""
_REMARKS = re.compile(r"\s?\([^\W\d][^()]{0,200}\)")
"""What is said of a number in parentheses after it."""
_ASIDE_NAMES = word_set("""
    error errors detail exception question passages documents thought reasoning reason explanation note
    status type properties
    """)
_BESIDE_NAMES = _ASIDE_NAMES | word_set(
    "why confidence justification id evidence source sources comment comments remark language lang"
)
_VALUE_NAMES = word_set("value verdict label choice score points rating percent decision result answer")
_CONTENT = word_set("text content value answer response passage")
_SCALE_NAMES = word_set("max maximum outof scale total of maxscore")
_NUMBER_NAMES = word_set("""
    id passage document doc number passageid documentid docid passagenumber documentnumber identifier
    """)
_SCALARS: Mapping[str, Callable[[Mender, Mapping[str, Any], Any], Any]] = {
    "boolean": Mender._flag,
    "integer": Mender._number,
    "number": Mender._number,
    "string": Mender._text,
}
_BOUNDS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": lambda value, bound: value >= bound,
    "maximum": lambda value, bound: value <= bound,
    "exclusiveMinimum": lambda value, bound: value > bound,
    "exclusiveMaximum": lambda value, bound: value < bound,
}


def _fields_in(value: Mapping[str, Any], kinds: Mapping[str, Any]) -> bool:
    spelled = {fold(name) for name in kinds}
    return any(fold(name) in spelled for name in value)


def _completes(value: Mapping[str, Any], inner: Mapping[str, Any], kinds: Mapping[str, Any]) -> bool:
    """Whether `inner`, an object in `value` under another name, has just the outputs that `value` lacks."""
    missing = {name for name in kinds if name not in value}
    return bool(missing) and len(missing) < len(kinds) and missing <= inner.keys()
