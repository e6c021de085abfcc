"""What each command says and how it ends, by the cases of `tests/messages/COMMAND.json`.

A case is arguments, and files and variables of the environment beside those of the prepared folder
(`tests.messages.world`), with the exit code, the message on stderr, `names`, which any wording of the message
holds (keys, nearest names, ways out), and the paths of keys that `--json` prints.

After a wording has changed: RAGC_WRITE_SNAPSHOTS=1 python -m pytest tests/messages. It writes messages and
keys, and `names` of new cases; it refuses where an exit code changed or an entry of `names` is gone.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.messages.world import SECRET, Ended, World, key_paths, prepared_world
from tests.support import names

FOLDER = Path(__file__).parent
COMMANDS = sorted(path.stem for path in FOLDER.glob("*.json"))
WRITE = bool(os.environ.get("RAGC_WRITE_SNAPSHOTS"))

_OPTION = re.compile(r"--[a-z][a-z-]+")
_NAMED = re.compile(
    r"Did you mean '[^']+'"  # the nearest name
    r"|--[a-z][a-z-]+"  # an option
    r"|\b(?:RAGC|OPENAI)_[A-Z_]+"  # a variable of the environment
    rf"|ragc (?:{'|'.join(COMMANDS)})\b(?: --[a-z-]+)?"
    r"|\bapi_key_env\b|\bbase_url\b"
    r"|\b[a-z_]+(?:\.[a-z_0-9]+)+\b"  # a key, or a file
    r"|\[[a-z_]+(?:\.[a-z_]+)*\]"  # a table
)
_PLACEHOLDERS = {
    text: f"{{{name}}}"
    for name, text in vars(names).items()
    if name.isupper() and isinstance(text, str) and text.startswith(("--", "search."))
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with prepared_world(tmp_path_factory.mktemp("world")) as prepared:
        yield prepared


def cases_of(command: str) -> list[dict[str, Any]]:
    """Returns the cases of a command."""
    cases: list[dict[str, Any]] = json.loads((FOLDER / f"{command}.json").read_text("utf-8"))
    return cases


def suggested_names(case: dict[str, Any], message: list[str]) -> list[str]:
    """Returns what any wording of the message of a case is to keep."""
    said = "\n".join(message).removeprefix("ragc: ")
    given = [repr(word) for word in re.split("[ =]", case["args"]) if repr(word) in said]
    found = dict.fromkeys([*given, *_NAMED.findall(said)])
    kept = (_PLACEHOLDERS.get(name, re.sub("^--trust-.*", "--trust", name)) for name in found)
    return list(dict.fromkeys(kept))


def check_form(ended: Ended) -> None:
    """Checks that a message is a sentence with a way out, or a problem a line, and shows no secret."""
    assert "Traceback" not in ended.err
    assert SECRET not in ended.err + ended.out
    assert ended.exit in (0, 1, 2, 10, 11)
    if ended.exit not in (1, 2) or (ended.exit == 1 and ended.out):  # doctor's checks are on stdout
        return
    first, *more = ended.message
    assert first.startswith("ragc: ")
    if more:
        assert first.endswith("problems"), first
        assert all(line.startswith("  ") for line in more), more
    else:
        problem_of_a_file = re.match(r"ragc: [^:]+: .*", first)
        assert first.endswith((".", "…", "'?")) or problem_of_a_file, first


@pytest.mark.parametrize("command", COMMANDS)
def test_messages(command: str, world: World) -> None:
    wrong: list[str] = []
    cases = [case | result_of(case, world, wrong) for case in cases_of(command)]
    if WRITE and not wrong:
        text = json.dumps(cases, indent=1, ensure_ascii=False)
        (FOLDER / f"{command}.json").write_text(text + "\n", "utf-8")
    assert not wrong, "\n\n".join(wrong)


def result_of(case: dict[str, Any], world: World, wrong: list[str]) -> dict[str, Any]:
    """Returns what a case records of its command as it ends now; what it must not record goes to `wrong`."""
    ended = world.run(case["args"], case.get("files", {}), case.get("environment", {}))
    check_form(ended)
    result: dict[str, Any] = {"exit": ended.exit, "message": ended.message}
    result["names"] = case.get("names", suggested_names(case, ended.message))
    if "keys" in case or ("exit" not in case and "--json" in case["args"] and ended.out):
        result["keys"] = sorted(key_paths(json.loads(ended.out)))
    said = "\n".join(ended.message)
    problems = [f"no longer names {name}" for name in result["names"] if world.filled(name) not in said]
    problems += [
        f"{part}: {value}, recorded {case.get(part)}"
        for part, value in result.items()
        if case.get(part, value) != value and (part == "exit" or not WRITE)
    ]
    if problems:
        wrong.append("\n".join([f"ragc {case['args']}", *problems, said or ended.err]))
    return result


def test_every_option_of_every_command_is_in_a_case(world: World) -> None:
    commands = re.findall(r"^    ([a-z]+)(?:  |$)", world.run("--help", {}, {}).out, re.MULTILINE)
    assert len(commands) >= 23
    untouched: set[str] = set()
    for command in commands:
        words = [world.filled(case["args"]) for case in cases_of(command)]
        assert all(line.split()[0] == command for line in words)
        usage = world.run(f"{command} --help", {}, {}).out.partition("\n\n")[0]
        used = {"--help", *_OPTION.findall(" ".join(words))}
        left = {option for option in _OPTION.findall(usage) if option not in used}
        untouched |= {f"{command} {option}" for option in left}
    assert not untouched


def test_every_key_of_a_recipe_is_in_a_case(world: World) -> None:
    schema = json.loads(world.run("schema", {}, {}).out)
    keys = {key for table in schema["$defs"].values() for key in table.get("properties", ())}
    recipes = world.filled("\n".join(case["files"]["bad.toml"] for case in cases_of("recipe")))
    assert len(keys) > 100
    assert not keys - set(re.findall(r"\w+", recipes))
