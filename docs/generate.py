"""Makes the pages of the documentation: those of docs/, and those that follow from the code.

    python docs/generate.py FOLDER

FOLDER then holds docs/, and `reference/commands.md`, `recipe.md` and `names.md`. Each page of `methods/`
goes on below its text with what the record of the method says. `make docs` runs it with the Python of
`make env`, and MkDocs builds the site from FOLDER.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ragc import list_names, recipe_schema
from ragc.cli.main import parser
from ragc.programs import METHODS, Method, table
from ragc.programs.knobs import Knob, When

DOCS = Path(__file__).parent
PAPER, CALLS, DIFFERS = HEADINGS = ("Paper", "Calls", "Differs")
"""What the parts of a program's docstring begin with."""
ROOT = DOCS.parent
MOST_SHOWN = 10
"""Options of a key that are listed; of more the first two are."""
BY_KNOB = ("knobs", "ranges")
"""Tables of a recipe with a key for each knob, which the pages of the programs list."""


def pages() -> dict[str, str]:
    """Every page that follows from the code: its path inside `docs/`, and its text."""
    written = {f"methods/{entry.id}.md": method_page(entry) for entry in METHODS}
    return written | {
        "methods/index.md": methods_index(),
        "reference/commands.md": commands_page(),
        "reference/names.md": names_page(),
        "reference/recipe.md": recipe_page(),
    }


# Methods


def methods_index() -> str:
    """The page that lists all programs."""
    linked = re.sub(r"^\| `(\w+)` \|", r"| [`\1`](\1.md) |", table(), flags=re.MULTILINE)
    return with_text("methods/index.md", linked)


def method_page(entry: Method) -> str:
    """The page of one program: its text, then knobs, paper and differences."""
    parts = [
        facts(entry),
        "## Knobs\n\n" + knobs_table(entry.knobs.list_knobs()),
        *origin(entry),
    ]
    return with_text(f"methods/{entry.id}.md", "\n\n".join(parts))


def facts(entry: Method) -> str:
    """What a recipe must say to use the program."""
    sources = names(entry.sources, entry.optional_sources)
    roles = names(entry.roles, entry.optional_roles)
    return "\n".join(
        (
            "| | |",
            "| --- | --- |",
            f'| in a recipe | `program = "{entry.id}"` |',
            f"| what it does | {cell(entry.about)} |",
            f"| from | {cell(entry.paper)} |",
            f"| sources | {sources} |",
            f"| roles of models | {roles} |",
            f"| code | `{file_of(entry).relative_to(ROOT)}` |",
        )
    )


def names(needed: Iterable[str], optional: Iterable[str]) -> str:
    """Names in code font, those that only some settings need in brackets."""
    return ", ".join((*(f"`{name}`" for name in needed), *(f"(`{name}`)" for name in optional))) or "none"


def knobs_table(knobs: Iterable[Knob]) -> str:
    """Every knob with its default, its values and where they come from."""
    lines = ["| knob | default | values | what it is | from |", "| --- | --- | --- | --- | --- |"]
    for knob in knobs:
        notes = [condition(knob.when)] if knob.when else []
        notes += [] if knob.searched else ['not part of `knobs = "all"`']
        notes += ["a threshold that is also fitted"] if knob.threshold else []
        about = knob.about + (f" ({'; '.join(notes)})" if notes else "")
        lines.append(
            f"| `{knob.name}` | {toml(knob.default)} | {values(knob)} | {cell(about)} | {cell(knob.paper)} |"
        )
    return "\n".join(lines)


def values(knob: Knob) -> str:
    """The range or the options of a knob."""
    if knob.kind == "switch":
        return "`false`, `true`"
    if knob.kind == "choice":
        return ", ".join(toml(option) for option in knob.options)
    step = f" in steps of {knob.step:g}" if knob.step and knob.step != 1 else ""
    return f"{knob.low:g} to {knob.high:g}{step}"


def condition(when: When) -> str:
    """When a knob matters, in words."""
    return f"matters if {', or if '.join(one_condition(one) for one in when.alternatives)}"


def one_condition(when: When) -> str:
    """One of the conditions of a knob, in words."""
    if when.greater_than is not None:
        return f"`{when.knob}` > {when.greater_than:g}"
    if when.excluded:
        return f"`{when.knob}` is not {' or '.join(toml(value) for value in when.excluded)}"
    return f"`{when.knob}` is {' or '.join(toml(value) for value in when.values)}"


def toml(value: object) -> str:
    """A value as a recipe writes it, in code font."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def file_of(entry: Method) -> Path:
    """The file of a program."""
    module = entry.program.partition(":")[0].removeprefix("ragc.")
    return ROOT.joinpath(*module.split(".")).with_suffix(".py")


def origin(entry: Method) -> list[str]:
    """What the docstrings beside the program say of its paper, its calls and its differences."""
    texts = origin_of(entry)
    titles = {PAPER: "## Paper", CALLS: "## Calls", DIFFERS: "## Where it differs from the paper"}
    parts = []
    for heading, title in titles.items():
        if heading in texts:
            text = "\n\n".join(texts[heading]) if heading != DIFFERS else bullets(texts[heading])
            parts.append(f"{title}\n\n{text}")
    return parts


def bullets(texts: Iterable[str]) -> str:
    """The sentences of texts, and their parts that semicolons join, one a line."""
    parts = (part for text in texts for part in clauses(text))
    return "\n".join(f"- {part[:1].upper()}{part[1:].rstrip('.')}." for part in parts)


# Docstrings of programs, read from the files, as importing a program imports DSPy


def origin_of(method: Method) -> dict[str, list[str]]:
    """Returns the texts under each heading, each one line: of the program's file, then "Differs" of those
    beside it.

    A file that several programs share has a paragraph for each. Empty for a program without such a file.
    """
    module, _, cls = method.program.partition(":")
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return {}
    program = Path(spec.origin)
    own = _own_sections(_docstring(program), cls)
    texts = {heading: [own[heading]] for heading in own}
    shared = program.parent.name == "baselines"
    for path in () if shared else sorted(program.parent.glob("*.py")):
        if path != program and (more := _sections(_docstring(path)).get(DIFFERS)):
            texts.setdefault(DIFFERS, []).append(more)
    return texts


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""


def _own_sections(text: str, cls: str) -> dict[str, str]:
    """Returns the sections of a docstring's part on the class `cls`, else of all of it."""
    paragraphs = text.split("\n\n")
    for index, paragraph in enumerate(paragraphs):
        head = re.match(r"([\w-]+)[.:]", paragraph)
        if index and head and head[1].replace("-", "").lower() == cls.lower():
            return _sections(paragraph)
    return _sections(text)


def _sections(text: str) -> dict[str, str]:
    line = " ".join(text.split())
    parts = re.split(rf"(?:(?<=^)|(?<=[.:] ))({'|'.join(HEADINGS)})(?: \([^)]*\))?: ", line)
    return {
        heading: text.strip()[:1].upper() + text.strip()[1:]
        for heading, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def clauses(text: str) -> Iterator[str]:
    """Splits `text` at each full stop and semicolon outside of brackets and code."""
    depth, start, code = 0, 0, False
    for index, character in enumerate(text):
        if character == "`":
            code = not code
        depth += (character in "([") - (character in ")]")
        ends = character == ";" or text[index : index + 2] == ". "
        if ends and depth == 0 and not code:
            yield text[start:index].strip()
            start = index + 1
    yield text[start:].strip()


# Recipe


def recipe_page() -> str:
    """Every key of a recipe, from the JSON Schema that `ragc schema` prints."""
    schema = recipe_schema()
    lines = [
        "# Recipe",
        "",
        "Every key that a recipe may have. `ragc schema` prints the same as a JSON Schema, with which",
        "editors complete and check recipes. What has no default and is not required may be left out.",
        "[Recipes](../guide/recipes.md) explains the whole.",
        "",
        "## At the top",
        "",
    ]
    properties = schema["properties"]
    inner = {name: resolve(part, schema) for name, part in properties.items()}
    single = {name: part for name, part in inner.items() if part.get("properties") and name not in BY_KNOB}
    kinds = {
        name: kinds_of(properties[name], schema) for name in properties if kinds_of(properties[name], schema)
    }
    plain = {name: part for name, part in properties.items() if name not in single and name not in kinds}
    lines += keys_table({"properties": plain, "required": schema.get("required", [])}, schema)
    for name, part in single.items():
        lines += ["", f"## [{name}]", "", about(part), "", *keys_table(part, schema)]
    for name, tables in kinds.items():
        lines += ["", f"## [{name}.NAME]", "", sentence(properties[name].get("description", "")), ""]
        shared = dict(next(iter(tables.values()))["properties"])
        shared.pop("options", None)
        shared["kind"] = {"enum": list(tables), "description": "Kind, which says what options there are."}
        lines += keys_table({"properties": shared, "required": ["kind"]}, schema)
        for kind, part in tables.items():
            options = resolve(part["properties"]["options"], schema)
            lines += ["", f'### {name}: kind = "{kind}"', "", about(part), ""]
            lines += keys_table(options, schema, "options.")
    return "\n".join(lines) + "\n"


def resolve(part: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """A part of the schema with the definition that it refers to; its own words go first."""
    referred = schema["$defs"][part["$ref"].rsplit("/", 1)[-1]] if "$ref" in part else {}
    return {**referred, **part}


def kinds_of(part: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables that `kind` tells apart, by kind; none for other parts."""
    values = part.get("additionalProperties")
    if not isinstance(values, dict) or "oneOf" not in values:
        return {}
    tables = [resolve(option, schema) for option in values["oneOf"] if "$ref" in option]  # but your own
    return {table["properties"]["kind"]["const"]: table for table in tables}


def about(part: Mapping[str, Any]) -> str:
    """The description of a table, without the name of the table."""
    text = re.sub(r"^The table `\[\w+\]`: ", "", part.get("description", ""))
    return sentence(text)


def keys_table(part: Mapping[str, Any], schema: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The keys of a table, one a line; those of tables inside with their whole path."""
    rows = list(keys(part, schema, prefix))
    if not rows:
        return ["It has no options."]
    return ["| key | value | default | what it is |", "| --- | --- | --- | --- |", *rows]


def keys(part: Mapping[str, Any], schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    """The rows of a table of keys."""
    for name, written in part["properties"].items():
        value = resolve(written, schema)
        if value.get("properties") and name not in BY_KNOB:
            yield from keys(value, schema, f"{prefix}{name}.")
            continue
        default = "required" if name in part.get("required", ()) else default_of(value)
        more = " The [programs](../methods/index.md) list their knobs." if name in BY_KNOB else ""
        text = cell(value.get("description", "")) + more
        yield f"| `{prefix}{name}` | {kind_of(value, schema)} | {default} | {text} |"
        for option in value.get("anyOf", ()):  # a table that may be left out
            yield from keys({"properties": {}, **resolve(option, schema)}, schema, f"{prefix}{name}.")


def default_of(value: Mapping[str, Any]) -> str:
    """The default of a key as a recipe writes it; "" for none."""
    default = value.get("default")
    if default in (None, "", [], {}):
        return ""
    if isinstance(default, list):
        return f"`{json.dumps(default)}`"
    return toml(default)


def kind_of(value: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """What a value may be, in a few words."""
    value = resolve(value, schema)
    if options := value.get("enum"):
        shown = options if len(options) <= MOST_SHOWN else options[:2]
        more = "" if len(options) <= MOST_SHOWN else f" and {len(options) - len(shown)} more names"
        return ", ".join(map(toml, shown)) + more
    if "const" in value:
        return toml(value["const"])
    if options := value.get("anyOf") or value.get("oneOf"):
        return " or ".join(
            dict.fromkeys(kind_of(option, schema) for option in options if option.get("type") != "null")
        )
    if value.get("type") == "array":
        return f"list of {kind_of(value.get('items', {}), schema)}"
    names = {"string": "text", "integer": "integer", "number": "number", "boolean": "`true`, `false`"}
    return names.get(value.get("type", ""), "table")


# Commands


def commands_page() -> str:
    """Every command with its arguments, from the parser itself."""
    top = parser()
    lines = [
        "# Commands",
        "",
        f"{top.description} `ragc COMMAND --help` prints the same.",
        "",
        "Errors of use exit 2, errors of the run exit 1, an interrupt exits 130.",
        "Where `--json` is given, stdout holds one JSON document and nothing else.",
        "",
    ]
    for name, command in subcommands(top).items():
        lines += [f"## ragc {name}", "", sentence(command.description or ""), ""]
        lines += [command.epilog, ""] if command.epilog else []
        lines += ["```text", usage(name, command), "```", ""]
        lines += ["| argument | what it is |", "| --- | --- |"]
        lines += [f"| {spelled(action)} | {cell(described(action))} |" for action in arguments(command)]
        lines.append("")
    return "\n".join(lines)


def subcommands(top: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    """The parser of each command."""
    action = next(a for a in top._actions if isinstance(a, argparse._SubParsersAction))
    return action.choices


def arguments(command: argparse.ArgumentParser) -> list[argparse.Action]:
    """The arguments of a command, those without a dash first."""
    listed = [action for action in command._actions if not isinstance(action, argparse._HelpAction)]
    return sorted(listed, key=lambda action: bool(action.option_strings))


def usage(name: str, command: argparse.ArgumentParser) -> str:
    """One line that shows how the command is written."""
    parts = [f"ragc {name}"]
    for action in arguments(command):
        text = (
            f"{action.option_strings[-1]} {value_of(action)}".strip()
            if action.option_strings
            else value_of(action)
        )
        optional = action.nargs == "?" or (action.option_strings and not action.required)
        parts.append(f"[{text}]" if optional else text)
    return " ".join(parts)


def value_of(action: argparse.Action) -> str:
    """What stands for the value of an argument; "" for a flag."""
    if action.nargs == 0:
        return ""
    if isinstance(action.metavar, str):
        return action.metavar
    if action.choices:
        return "|".join(map(str, action.choices))
    return action.dest.upper()


def spelled(action: argparse.Action) -> str:
    """An argument in code font, with what stands for its value."""
    option, value = ", ".join(action.option_strings), value_of(action)
    if "|" not in value:
        return f"`{' '.join(part for part in (option, value) if part)}`"
    values = " or ".join(f"`{part}`" for part in value.split("|"))
    return f"`{option}` {values}" if option else values


def described(action: argparse.Action) -> str:
    """What an argument's help says, and its default where it has one worth saying."""
    help_text = action.help or ""
    worth = action.default not in (None, False, "", []) and action.nargs != 0 and "default" not in help_text
    return help_text + (f" (default: `{action.default}`)" if worth else "")


# Names


def names_page() -> str:
    """What `ragc list` prints, kind by kind."""
    kinds = {
        "metrics": "Metrics",
        "datasets": "Data sets",
        "sources": "Sources",
        "targets": "Targets",
        "exports": "Export formats",
    }
    lines = ["# Names", "", "What a recipe can name; `ragc list KIND` prints the same.", ""]
    for kind, title in kinds.items():
        listed = list_names(kind)
        more = [key for key in ("file", "licence", "unit", "consumer") if any(key in row for row in listed)]
        lines += [f"## {title}", "", f"`ragc list {kind}`", ""]
        lines += [f"| id | what it is |{''.join(f' {key} |' for key in more)}"]
        lines += ["| --- " * (2 + len(more)) + "|"]
        for row in listed:
            extra = "".join(f" {cell(str(row.get(key, '')))} |" for key in more)
            lines.append(f"| `{row['id']}` | {cell(row['about'])} |{extra}")
        lines.append("")
    return "\n".join(lines)


# Pages


def cell(text: str) -> str:
    """A text as one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def sentence(text: str) -> str:
    """A text that begins with a capital and ends with a full stop."""
    return text[:1].upper() + text[1:].rstrip(".") + "."


def with_text(page: str, generated: str) -> str:
    """The text of a page that is written by hand, with what is `generated` below it."""
    return f"{(DOCS / page).read_text('utf-8').rstrip()}\n\n{generated}\n"


def write(folder: Path) -> None:
    """All pages in `folder`, which is made anew."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for page, text in pages().items():
        (folder / page).write_text(text, "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
