"""The part of a generated Python file that is the whole program, for the methods where that is one call."""

from __future__ import annotations

from ragc.exports.prompt import ExportedProgram
from ragc.exports.python_source import Pieces, bracketed, quoted

_METHODS = frozenset(
    {"no_retrieval", "cot", "vanilla", "vanilla_sources", "iter_retgen", "chain_of_note", "ragx"}
)
"""What happens around the call is known of these, where a question asks it once."""

_INPUTS = {"question": "str", "passages": "Sequence[str]"}


def answers(program: ExportedProgram) -> bool:
    """Whether the program as a whole can be said."""
    return program.single and program.method in _METHODS


def answer(program: ExportedProgram, pieces: Pieces) -> str:
    """The function `answer` and what it calls, none of it where the program is more than a call."""
    if not answers(program):
        return ""
    cited, refuses = program.knobs.get("answer_format") == "cited", program.method == "ragx"
    given = {one.name for one in program.prompts[0].inputs}
    code = [_function(program, given, cited=cited and ("passages" in given or refuses), refuses=refuses)]
    if "passages" in given:
        code.append(pieces.taken("ragc.corpora", "neutral.py"))
    if refuses:
        code.append(pieces.taken("ragc.signatures", "invalid.py", ("INVALID", "UNSURE", "settled")))
    if cited and ("passages" in given or refuses):
        code.append(pieces.taken("ragc.signatures", "cited.py"))
    return "\n\n\n".join(code)


def _function(program: ExportedProgram, given: set[str], *, cited: bool, refuses: bool) -> str:
    name, passages, timed = program.prompts[0].name, "passages" in given, "query_time" in given
    arguments = [
        "question: str",
        *(["passages: Sequence[str]"] if passages else []),
        "complete: Complete",
        "*",
    ]
    arguments += ['query_time: str = ""'] if timed else []
    arguments += ['model: str = ""']
    head = bracketed("def answer(", arguments, ") -> str:", 0)
    inputs = ["question=question"]
    inputs += ['query_time=query_time.strip() or "unknown"'] if timed else []
    inputs += ["passages=shown"] if passages else []
    lines = []
    if passages:  # a text would be taken letter by letter
        lines = [
            "if isinstance(passages, str):",
            '    raise TypeError(f"passages must be a list of texts, got {passages!r:.80}.")',
            "shown = [neutral(passage) for passage in passages]",
        ]
    call = bracketed(
        "said = ask(", [quoted(name), "complete", "model=model", *inputs], ")", 8 if refuses else 4
    )
    if refuses:
        lines += ["try:", f"    {call}", "except ReplyError:", '    said = {"answer": ""}']
    else:
        lines += [call]
    last = 'settled(said["answer"])' if refuses else 'said["answer"]'
    if program.method == "cot" and program.knobs.get("whole"):
        last = '"{}\\n{}".format(said["reasoning"], said["answer"])'
    if cited:
        last = f"within({last}, {'len(shown)' if passages else 0})[0]"
    doc = _about(passages=passages, timed=timed, refuses=refuses, cited=cited)
    return f'{head}\n    """{doc}"""\n' + "\n".join(f"    {line}" for line in [*lines, f"return {last}"])


def _about(*, passages: bool, timed: bool, refuses: bool, cited: bool) -> str:
    read = " from `passages`, which are those that a search found, best first" if passages else ""
    more = []
    if passages:
        more += [
            "A passage is its title, a line break and its text, or its text alone; what a chat template",
            "would read as a command is defused.",
        ]
    if timed:
        more += ["`query_time` says when the question was asked."]
    if cited:
        more += ["Marks of passages that are not there are dropped."]
    if refuses:
        more += ["It is UNSURE, INVALID or what the model says; a reply that cannot be read is unsure."]
    else:
        more += ["Raises ReplyError when neither the reply nor the one after it can be read."]
    said = "\n    ".join(more)
    return f"The answer to `question`{read}.\n\n    {said}\n    "
