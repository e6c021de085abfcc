"""Derives an export from a program: prompts as templates, without a model, a source or a network.

A prompt's text is rendered by its predictor with a marker as the value of every input; the markers in the
output become slots. So a template matches the predictor's output for any layout.

The targets and sources of `runtime` are stubs: they suffice to build a program and read its prompts, not to
run it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal, get_args, get_origin

from ragc.compiled.base import CompiledProgram
from ragc.errors import UsageError
from ragc.programs import method
from ragc.programs.base import RagProgram
from ragc.programs.calls.demos import plain
from ragc.programs.calls.layouts import JSON_LAYOUTS
from ragc.programs.calls.outputs import reply_schema
from ragc.programs.calls.predict import RagPredict
from ragc.programs.knobs import ADAPTER
from ragc.programs.method import Method
from ragc.programs.ragx.demos import ChoosingPredict, choose_demos
from ragc.programs.runtime import Runtime
from ragc.prompts.model import (
    Case,
    CompiledPrompt,
    ExportedProgram,
    Input,
    Kind,
    NotExpressible,
    Output,
    Part,
    Slot,
    TemplateMessage,
)
from ragc.records import Hit, Passage
from ragc.store.calls import CallStore
from ragc.targets.base import ROLES, Capability, ChatRequest, Reply, Watch
from ragc.targets.reasoning import reasoning_of
from ragc.task.base import recorded_rooms
from ragc.task.rehearsal import rehearse


class OfflineStub:
    """A target and source that claims every capability and raises UsageError when used."""

    name = model = identity = kind = fingerprint = "stand-in"
    capabilities: frozenset[Capability] = frozenset({"schema", "logprobs", "prompt_logprobs", "seed"})
    context_tokens, concurrency = 10**9, 1

    def __init__(self, reasoning_tokens: int = 0) -> None:
        self.reasoning_tokens = reasoning_tokens

    def __deepcopy__(self, memo: object) -> OfflineStub:
        return self

    async def open(self, progress: Watch | None = None) -> None:
        """Does nothing."""

    async def complete(self, request: ChatRequest) -> Reply:
        """Raises UsageError."""
        raise _offline_error("call")

    def count_tokens(self, text: str) -> int:
        """Returns the number of words."""
        return len(text.split())

    async def aclose(self) -> None:
        """Does nothing."""

    async def search(self, query: str, k: int) -> tuple[Hit, ...]:
        """Raises UsageError."""
        raise _offline_error("search")

    def sample(self, n: int, *, seed: str, exclude: frozenset[str] = frozenset()) -> tuple[Passage, ...]:
        """Raises UsageError."""
        raise _offline_error("search")

    def rechunk(self, chunk_size: int, overlap: float) -> OfflineStub:
        """Returns this source itself."""
        return self


def _offline_error(what: str) -> UsageError:
    return UsageError(f"An export makes no {what}; run the program itself to get an answer.")


def tables(recipe: str) -> Mapping[str, Any]:
    """Returns the tables of a recipe's TOML text; none if it is unreadable."""
    try:
        return tomllib.loads(recipe)
    except tomllib.TOMLDecodeError:
        return {}


def runtime(entry: Method, recipe: Mapping[str, Any], provenance: Mapping[str, Any] | None = None) -> Runtime:
    """Returns a stub runtime with the roles and sources of `recipe`, by default all that the method may use.

    `provenance` has the tokens for thoughts of its targets.
    """
    roles: Iterable[Any] = recipe.get("targets") or ROLES
    rooms = recorded_rooms(provenance or {})
    sources: Iterable[str] = recipe.get("sources") or (*entry.sources, *entry.optional_sources)
    nothing = OfflineStub()
    stubs = {role: OfflineStub(rooms[role]) if rooms.get(role) else nothing for role in roles}
    return Runtime(stubs, dict.fromkeys(sources, nothing), store=CallStore(None))


def models(recipe: Mapping[str, Any], provenance: Mapping[str, Any]) -> dict[str, str]:
    """Returns the model id of each role, without addresses, and only the last part of a path."""
    by_role = {}
    for role, table in (recipe.get("targets") or {}).items():
        id = str(table.get("model") or "")
        if not id:  # the kind's default model, whose name ends the target's name
            target_name = ((provenance.get("targets") or {}).get(role) or {}).get("name") or ""
            id = str(target_name).rpartition(" ")[2]
        if table.get("kind") == "embedded" or id[:1] in ("/", "~", ".") or PureWindowsPath(id).drive:
            id = PurePosixPath(PureWindowsPath(id).as_posix()).name
        if id:
            by_role[str(role)] = id
    return by_role


def openai_ids(recipe: Mapping[str, Any]) -> dict[str, str]:
    """Returns the name for OpenAI's API of each model that the recipe names as LiteLLM does, by its id."""
    hosted = [one for one in (recipe.get("targets") or {}).values() if one.get("kind") == "hosted"]
    ids = [str(one.get("model")) for one in hosted]
    return {id: id.removeprefix("openai/") for id in ids if id.startswith("openai/")}


_KINDS: Mapping[type, Kind] = {str: "text", bool: "flag", int: "integer", float: "number"}
_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private-use characters that delimit the marker of an input."""


def derive_export(compiled: CompiledProgram | RagProgram, *, cases: Iterable[Case] = ()) -> ExportedProgram:
    """Returns the ExportedProgram of `compiled`, a compiled program or one made in Python.

    `cases` are for formats that include them. Raises NotExpressible when a prompt is not a
    fixed template, and ArtefactError when this version of ragc cannot build the program.
    """
    if isinstance(compiled, RagProgram):
        program = compiled
        state = CompiledProgram.of(program, provenance={}, recipe="", run={})
    else:
        state = compiled
        entry = method(compiled.state.method)
        program = compiled.build(runtime(entry, tables(compiled.recipe), compiled.provenance))
    recipe, mark = tables(state.recipe), state.fingerprint
    prompts = {name: prompt_of(name, call, mark) for name, call in program.named_calls()}
    entry = program.method
    return ExportedProgram(
        method=entry.id,
        about=entry.about,
        fingerprint=mark,
        knobs=program.knobs.to_json(),
        prompts=tuple(prompts.values()),
        single=len(prompts) == 1 and _calls_of(program) == 1,
        models=models(recipe, state.provenance),
        openai_ids=openai_ids(recipe),
        learned=dict(program.learned),
        note=_note(recipe) if any(prompt.demos for prompt in prompts.values()) else "",
        metric=_metric_of(recipe.get("search") or {}),
        cases=tuple(cases),
    )


def _calls_of(program: RagProgram) -> int:
    """Returns how many LM calls a question takes; 0 for a user's own program, which nobody knows."""
    rehearsals = rehearse(program.method, program.runtime, program.knobs.to_json())
    return max((rehearsal.calls for rehearsal in rehearsals), default=0)


def prompt_of(name: str, call: RagPredict, program: str) -> CompiledPrompt:
    """Returns the prompt of the predictor `call`; `program` is the fingerprint of its program.

    Raises NotExpressible when demonstrations depend on the question, when an input has a type other than
    text, number, flag or a list of those, or when the layout changes a value.
    """
    what = f"The prompt {name!r}"
    _check_fixed(what, call)
    signature = call.signature
    echoes = {field: _extra(info).get("echo") for field, info in signature.input_fields.items()}
    inputs = [
        _input(what, field, info) for field, info in signature.input_fields.items() if not echoes[field]
    ]
    marks: dict[str, Any] = {one.name: [_mark(one.name)] if one.many else _mark(one.name) for one in inputs}
    messages = call.messages(**marks)
    if not messages:
        raise NotExpressible(what, "its predictor makes no call of a model that can be written down")
    last = _parts(what, messages[-1].content, {one.name: one for one in inputs}, call.layout)
    if any(_OPEN in m.content for m in messages[:-1]):
        raise NotExpressible(what, "its instructions or demonstrations hold U+E000, which marks the inputs")
    fixed = [TemplateMessage(m.role, (m.content,) if m.content else ()) for m in messages[:-1]]
    sent = call.request(**marks)
    shown = {part.name for part in last if isinstance(part, Slot)}
    return CompiledPrompt(
        name=name,
        role=call.role,
        instructions=signature.instructions,
        messages=(*fixed, TemplateMessage("user", last)),
        inputs=tuple(one for one in inputs if one.name in shown),
        outputs=tuple(_output(field, info, signature) for field, info in signature.output_fields.items()),
        output_schema=reply_schema(signature),
        layout=call.layout,
        enforced=getattr(call, "enforced", call.layout in JSON_LAYOUTS),
        sampling=sent.sampling,
        logprobs=call.logprobs,
        demos=sum(m.role == "assistant" for m in fixed),
        fingerprint=call.fingerprint,
        program=program,
        demonstrations=tuple(_values(demo, signature) for demo in _prompt_demos(call)),
        thinking=reasoning_of(call.target),
    )


def _prompt_demos(call: RagPredict) -> list[Mapping[str, Any]]:
    """Returns the demonstrations that `call` shows: those with an input and an output."""
    places: Sequence[int] = range(min(len(call.demos), call.max_demos))
    if isinstance(call, ChoosingPredict):
        places = choose_demos(call.demos, call.max_demos, where="any", domain="", invalid=call.invalid)
    demos = [plain(call.demos[index]) for index in places]
    kinds = (call.signature.input_fields.keys(), call.signature.output_fields.keys())
    return [demo for demo in demos if all(kind & demo.keys() for kind in kinds)]


def _values(demo: Mapping[str, Any], signature: Any) -> dict[str, Any]:
    """Returns the values of `demo` for the fields of `signature`, without inputs that repeat another."""
    return {
        name: demo[name]
        for name, info in signature.fields.items()
        if name in demo and not _extra(info).get("echo")
    }


def _check_fixed(what: str, call: Any) -> None:
    if call.nearest and call.demos:
        raise NotExpressible(
            what,
            f"each question decides which {call.nearest} of its {len(call.demos)} demonstrations are shown; "
            "compile it with other search.demo_kinds than 'nearest' to export it",
        )
    if call.layout == ADAPTER:
        raise NotExpressible(what, "a DSPy adapter of your own makes its messages, which no export holds")
    if isinstance(call, ChoosingPredict):
        if call.where != "any" and call.demos:
            raise NotExpressible(
                what, f"the domain of each question decides its demonstrations (icl_domain = {call.where!r})"
            )
    elif isinstance(call, RagPredict) and type(call).messages is not RagPredict.messages:
        raise NotExpressible(what, f"{type(call).__name__} makes its messages anew for every question")


def _input(what: str, name: str, info: Any) -> Input:
    """Returns the Input for a field; raises NotExpressible for an unsupported type."""
    one, many = _unwrap(info.annotation), False
    if get_origin(one) in (list, tuple) and get_args(one):
        one, many = _unwrap(get_args(one)[0]), True
    if one not in _KINDS:
        raise NotExpressible(what, f"its input {name!r} is of the type {info.annotation}")
    desc = _extra(info).get("desc") or ""
    return Input(name, _KINDS[one], many, "" if desc == f"${{{name}}}" else desc)


def _unwrap(annotation: Any) -> Any:
    """Returns the plain type of an annotated one, and the common type of a choice of values."""
    if get_origin(annotation) is Annotated:
        return _unwrap(get_args(annotation)[0])
    if get_origin(annotation) is Literal:
        kinds = {type(option) for option in get_args(annotation)}
        return kinds.pop() if len(kinds) == 1 else annotation
    return annotation


def _output(name: str, info: Any, signature: Any) -> Output:
    desc = _extra(info).get("desc") or ""
    schema = reply_schema(signature)["properties"][name]
    return Output(name, schema, "" if desc == f"${{{name}}}" else desc)


def _extra(info: Any) -> Mapping[str, Any]:
    return info.json_schema_extra or {}


def _mark(name: str) -> str:
    return f"{_OPEN}{name}{_CLOSE}"


def _parts(what: str, content: str, inputs: Mapping[str, Input], layout: str) -> tuple[Part, ...]:
    """Splits `content` at the markers; a list's marker includes what the layout adds around a single item."""
    pieces = re.split(rf'(\[1\] {_OPEN}\w+{_CLOSE}|\["{_OPEN}\w+{_CLOSE}"\]|{_OPEN}\w+{_CLOSE})', content)
    parts: list[Part] = []
    for text, mark in zip(pieces[::2], [*pieces[1::2], ""], strict=True):
        if text:
            parts.append(text)
        if mark:
            parts.append(_slot(what, mark, inputs, layout))
    if _OPEN in "".join(part for part in parts if isinstance(part, str)):
        raise NotExpressible(what, f"the layout {layout!r} changes the value of an input")
    return tuple(parts)


def _slot(what: str, mark: str, inputs: Mapping[str, Input], layout: str) -> Slot:
    one = inputs[mark[mark.index(_OPEN) + 1 : mark.index(_CLOSE)]]
    around = mark[0]
    if one.many == (around == _OPEN):
        raise NotExpressible(what, f"the layout {layout!r} writes the input {one.name!r} in an unknown way")
    if one.many:
        return Slot(one.name, "lines" if mark.startswith("[1]") else "json")
    return Slot(one.name, "plain", ("true", "false") if layout == "minimal" else ("True", "False"))


def _metric_of(search: Mapping[str, Any]) -> str:
    """Returns the objective that decided, by the table `search` of a recipe; "" if it names none."""
    pick = search.get("pick") or ""
    return str(pick.get("objective") or "") if isinstance(pick, Mapping) else str(pick)


def _note(recipe: Mapping[str, Any]) -> str:
    """Returns the origin and licence of demonstrations."""
    from ragc.corpora import datasets

    id = str((recipe.get("data") or {}).get("dataset") or "")
    if not id:
        return "Demonstrations: from data of the user; no licence is known."
    if id not in datasets.FILES:
        return f"Demonstrations: from questions of the data set {id}; no licence is known."
    return f"Demonstrations: from train questions of the data set {id}; licence: {datasets.card(id).licence}."
