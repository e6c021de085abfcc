"""What a reply says in sentences: thoughts before it, the answer that prose ends with, refusals.

Models that were asked for a form often answer in prose. `answering_part` is a reply without thoughts and
tokens of chat templates. `phrase_at` finds the answer that sentences name. `says_nothing` tells texts that
stand where an answer should and are none.

This module is part of exported Python files too: it needs nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragc.programs.calls.meaning import bare, fold, is_text

_THOUGHTS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reflection>", "</reflection>"),
    ("<scratchpad>", "</scratchpad>"),
    ("[think]", "[/think]"),
    ("[thinking]", "[/thinking]"),
    ("<|channel|>analysis", "<|channel|>final<|message|>"),
    ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
)
_BARE_ENDS = ("</think>", "</thinking>", "[/think]", "\u25c1/think\u25b7")
_TOKENS = re.compile(
    r"(?:<\|[a-z_]{2,30}\|>|</?s>|<(?:end|start)_of_turn>|<eos>|<bos>|\[/?INST\]|"
    r"[*_`]{0,3}\[{0,2} ?#{1,3} ?completed ?#{1,3} ?\]{0,2}[*_`]{0,3})",
    re.IGNORECASE,
)
_TURN_ENDS = re.compile(r"<\|(?:im_end|eot_id|end|endoftext|return|eom_id)\|>|<end_of_turn>|</s>|<eos>")
_LATEX = re.compile(
    r"\\(?:text|textbf|mathrm|mathbf|mathit|boxed|fbox)\s*\{|\$\$?(?=[^$\n]{1,200}\$)|\\[(\[]"
)
_WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mathit)\s*\{([^{}]*)\}")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{([^{}]*)\}")


def answering_part(text: str, names: Sequence[str]) -> str:
    """`text` without thoughts, tokens of chat templates and marks of formulas.

    `names` are the outputs: a tag of such a name holds no thoughts. Of thoughts that do not end nothing is
    left.
    """
    answer = _without_thoughts(text, names)
    if "&lt;" in answer and any(f"&lt;{name}&gt;" in answer for name in names):
        answer = answer.replace("&lt;", "<").replace("&gt;", ">")
    end = _TURN_ENDS.search(answer)
    if end and answer[: end.start()].strip():
        answer = answer[: end.start()]
    if "completed" in answer or "<" in answer or "[" in answer:
        answer = _without_tokens(answer)
    return _without_formulas(answer) if "\\" in answer or "$" in answer else answer


def _without_thoughts(text: str, names: Sequence[str]) -> str:
    start, lower = text.lstrip(), text.lower()
    for opening, closing in _THOUGHTS:
        if start[: len(opening)].lower() != opening or opening.strip("<>[]") in names:
            continue
        at = lower.rfind(closing) if closing.startswith("<|") else lower.find(closing)
        return _without_thoughts(text[at + len(closing) :], names) if at >= 0 else ""
    if not start.startswith(("{", "[[ ##", *(f"<{name}>" for name in names))):
        for closing in _BARE_ENDS:
            at = lower.rfind(closing)
            if at >= 0:
                return text[at + len(closing) :]
    return text


MOST_TOKENS = 20
"""Tokens at the ends of a reply that are taken off."""


def _without_tokens(text: str) -> str:
    """`text` without the tokens that stand at its ends, and the mark of its end on the line of a value."""
    changed = True
    for _ in range(MOST_TOKENS):
        if not changed:
            break
        changed = False
        stripped = text.strip()
        for match in _TOKENS.finditer(stripped):
            if match.end() == len(stripped) and stripped[: match.start()].strip():
                text, changed = stripped[: match.start()], True
            elif match.start() == 0 and match[0] not in ("<s>", "</s>") and "completed" not in match[0]:
                text, changed = stripped[match.end() :], True
                break
    return text


def _without_formulas(text: str) -> str:
    if not _LATEX.search(text) and "\\boxed" not in text:
        return text
    while _WRAPPER.search(text):
        text = _WRAPPER.sub(r"\1", text)
    if _BOXED.search(text):
        text = _BOXED.sub(lambda boxed: f"The answer is: {boxed[1].strip()}", text)
    if re.search(r"\$[^$\n]*[\\_^A-Za-z][^$\n]*\$", text):
        text = re.sub(r"\$\$?([^$\n]{1,200})\$\$?", lambda at: re.sub(r"[_^]\{?(\w+)\}?", r"\1", at[1]), text)
    return re.sub(r"\\[()\[\]]", "", text)


_UNSAID = re.compile(
    r"\.\.\.|\u2026|[<\[{(]?\s*(?:your|insert|the|put|write)\s(?:\w+ ){0,4}(?:answer|query|text|question|"
    r"value|here)\s*(?: here)?[>\]})]"
    r"|(?:your|insert|put|write) (?:\w+ ){1,3}here\.?",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"(?:(?:(?:i'?m|i am)\s+(?:really |very |truly |so )?(?:sorry|afraid)|sorry|apologies|i apologi[sz]e|"
    r"unfortunately)\b"
    r"[^.\n]{0,60}?(?:but|,|that|\.|:|;|-|\u2014|as)?\s*)?"
    r"(?:as an? (?:ai|artificial|large language|language)[^,.\n]{0,40},?\s*)?"
    r"i(?:'m| am)?\s*(?:just |only |unfortunately )?"
    r"(?:(?:can(?:\s?not|'?t)|could not|couldn'?t|will not|won'?t|must not|may not|"
    r"do not feel)\s+(?:\w+ ){0,2}"
    r"(?:help|assist|answer|respond|provide|comply|fulfil+|complete|do (?:that|this)|give|rank|discuss|"
    r"comment|process|"
    r"access|browse|engage|improve|continue|offer|support|comfortable|see|share|open|read|search|determine|"
    r"generate|create)\b"
    r"|(?:not able|unable|not allowed|not permitted|not in a position|programmed)\s+to\b|(?:just |"
    r"only )?an? (?:ai|language model)\b"
    r"|(?:don'?t|do not) have (?:access|the ability|any passages|the passages)\b)",
    re.IGNORECASE,
)
_SORRY = re.compile(
    r"(?:(?:i'?m|i am)\s+(?:really |very |so )?sorry|sorry)\b.{0,80}\b(?:can(?:not|'t)|unable|not able|"
    r"assist|help)\b"
    r"|as an ai\b|my (?:guidelines|programming|policy)|(?:this|that|your|the) (?:request|content|question|"
    r"prompt) "
    r"(?:goes against|violates|is against|cannot be (?:answered|processed|completed)|was (?:blocked|"
    r"flagged))",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"(?:please|kindly|(?:could|can|would|will) you(?: please| kindly)?|i(?:'d| would)? (?:need|like|"
    r"want) you to)\s+"
    r"(?:provide|share|send|give|supply|paste|specify|clarify|include|upload|enter|tell me|let me know|"
    r"rephrase|repeat)\b"
    r"|(?:what|which|where) (?:is|are) (?:the|your) (?:question|passages?|documents?|text)\b.{0,40}\?"
    r"|(?:how (?:can|may) i (?:help|assist)|what would you like)\b"
    r"|\b(?:you (?:have not|haven't|did not|didn't) (?:provided?|given?|included?|shared?|asked?))\b"
    r"|\bno (?:passages?|documents?|question|text|context) (?:was|were|has been|have been|is|"
    r"are) (?:provided|given|included|attached)\b",
    re.IGNORECASE,
)
_BROKEN = re.compile(
    r"\s*(?:<!doctype|<html|\{?\"?error\"?\s*[:{]|(?:http )?(?:error )?[45]\d\d:? (?:bad|internal|service|"
    r"gateway|too many|"
    r"forbidden|unauthori[sz]ed|not found)|(?:\w*error|exception)\s*:|traceback \(most|"
    r"internal server error|rate limit exceeded"
    r"|(?:the )?(?:request|connection|model) (?:has )?timed out|service unavailable|upstream (?:connect|"
    r"request) error)",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"(?:sure|certainly|of course|okay|ok|absolutely|alright|great|understood|here(?:'s| is| are)|"
    r"below (?:is|are)|the following|"
    r"based on|according to|you (?:could|can|may) (?:try|use)|i (?:would|'d|suggest|propose|recommend)|"
    r"let me|let's)\b",
    re.IGNORECASE,
)


_PREAMBLE = re.compile(
    r"let me\b|let's\b|(?:okay|ok|alright|hmm)[,.]?(?: so)?,? (?:i|let|we|the user)\b|first,? (?:i|we|"
    r"let)\b|i (?:need|have|will|should|am going) "
    r"(?:to|start|begin)\b|we (?:need|have|must|should)\b|to (?:answer|find|determine|"
    r"solve)\b[^\n]{0,80}\b(?:need|must|should|have to)\b|"
    r"(?:so |thus |therefore,? )?the (?:final |correct )?(?:answer|option|"
    r"query)(?: to [^.\n]{0,60})? (?:is|are|would be)\W*\Z",
    re.IGNORECASE,
)
_UNDECIDED = re.compile(
    r"\b(?:not sure|unsure|uncertain|cannot (?:say|tell|decide)) (?:which|whether|if)\b|"
    r"could be [^\n]{2,80}\bcould (?:also )?be\b|"
    r"\b(?:could|might|may) be (?:either )?[^\n]{2,60} or (?:perhaps |maybe |possibly )?|"
    r"^either\b[^\n]{2,80}\bor\b[^\n]{2,80}\bsure\b",
    re.IGNORECASE,
)
ASIDES = frozenset(("reasoning", "reason", "thought", "analysis", "explanation", "improvement", "rationale"))
"""Outputs that are said beside the value of a call, where any sentence may stand."""


def says_nothing(text: str, name: str = "") -> bool:
    """Whether `text` stands where an answer should and is none: a refusal, a question back, a blank.

    A blank may have the `name` of the output, as in "{answer}". A text of
    more than 400 characters is taken for an answer.
    """
    text = text.strip().replace("\u2019", "'")
    if name in ASIDES:
        return False
    if len(text) > 400:
        return False
    if not text or (name and text[0] in "{<[" and fold(text) == fold(name)):
        return bool(text)
    if _UNSAID.fullmatch(text) or _BROKEN.match(text) or _REFUSES.match(text) or _SORRY.match(text):
        return True
    if _ASKS.match(text) or (
        _ASKS.search(text) and re.search(r"\b(?:i|me|your?|provided|empty|missing)\b", text, re.IGNORECASE)
    ):
        return True
    if is_answer(name) and (_PREAMBLE.match(text) or _UNDECIDED.search(text)):
        return True
    lead = _LEAD.match(text)
    return bool(lead and text.endswith(":") and "\n" not in text)


def is_looped(text: str) -> bool:
    """Whether `text` is a model in a loop: a few words over and over."""
    words = text.casefold().split()
    return len(words) >= 8 and all(map(str.isalpha, words)) and len(set(words)) <= max(2, len(words) // 20)


_CUE = re.compile(
    r"(?:\s*####\s+)|"
    r"(?:\b(?:so|therefore|thus|hence|consequently|finally|in conclusion|overall|and|then)\b[\s,:]*)?"
    r"(?:\b(?:the|my|our|a|this|that)\s+)?(?:\b(?:final|correct|best|right|short|short final|most likely|"
    r"likely|probable|actual|"
    r"right final|direct|exact)\s+)*"
    r"\b(?:answer|option|choice|best guess|guess)\b"
    r"(?:\s+(?:to|for|of)\s+(?:the|this|that|your)\s+question|\s+here|\s+therefore|\s+then|\s+would)?"
    r"(?:[*_]{1,3}\s*)?\s*(?:(?:is|was|are|be|must be|should be|would be|has to be|=)\b\s*(?:then\s+|"
    r"thus\s+|therefore\s+|likely\s+|"
    r"probably\s+|most likely\s+|simply\s+|that\s+)?:?|[:\uff1a])\s*",
    re.IGNORECASE,
)
_NO_PHRASE = re.compile(
    r"(?:not|no longer|unclear|unknown|undetermined|in the|in passage|found|given|provided|stated|"
    r"contained|somewhere|there|as "
    r"follows|below|above|based|either|one of|the following|that it|it depends|wrong|complete|incorrect|"
    r"correct|right)\b(?!\s+\w+ial)",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"\b(?:wait|sorry|mistake|correction|corrected|actually|i was wrong|on second thoughts?|scratch that|"
    r"let me (?:re|correct)|"
    r"rather|instead|no,|wrong|hmm|i meant|strike that|revised|oops)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(
    r"(?<!\bSt)(?<!\bMt)(?<!\bMr)(?<!\bDr)(?<!\bJr)(?<!\bSr)(?<!\bNo)(?<!\bFt)(?<!\bvs)(?<!\bMrs)(?<!\bProf)(?<=[^\s.][a-z0-9)\]\"'*%])[.!](?=\s+[A-Z\"(\[*]|\s*\Z)|\n"
)


_GOES_ON = re.compile(
    r"^[^\w\n]{0,8}(?:next |new |another )?(?:question|observation|human|user|input|example|"
    r"intermediate answer)\b[^\n:]{0,12}:",
    re.IGNORECASE | re.MULTILINE,
)


def goes_on(text: str) -> bool:
    """Whether `text`, which follows an answer, is another question or what a step brought."""
    return _GOES_ON.search(text) is not None


def takes_back(text: str) -> bool:
    """Whether `text` says that what was said before it is wrong."""
    return _TAKEN_BACK.search(text) is not None


def phrase_at(text: str) -> tuple[str, int]:
    """The answer that the last "the answer is" of `text` names, and where that begins."""
    if len(text) > 8000:
        named, at = phrase_at(text[-8000:])
        return named, at + len(text) - 8000
    for cue in reversed(list(_CUE.finditer(text))[-20:]):
        rest = text[cue.end() :].lstrip()
        if not rest or (cue[0].rstrip()[-1:] not in (":", "\uff1a") and rest[:1] in "?,;"):
            continue
        end = _SENTENCE_END.search(rest)
        named = rest[: end.start()] if end else rest
        named = re.split(
            r"\s*(?:;|\s[\u2014\u2013-]\s|,?\s+(?:because|since|as (?:stated|mentioned|given|passage|it|"
            r"the))\b)",
            named,
        )[0]
        named = named.strip().strip("*_`").strip().rstrip(".!,").strip()
        if named and len(named) <= 200 and not _NO_PHRASE.match(named) and re.search(r"\w", named):
            return named, cue.start()
    said_first = list(_NAMED_FIRST.finditer(text))
    return (said_first[-1][1].strip("*_` "), said_first[-1].start(1)) if said_first else ("", 0)


_NAMED_FIRST = re.compile(
    r"(?:\A|[.\n][ \t]{0,8})(?:(?:so|therefore|thus|hence),?\s+)?([*_]{0,2}[A-Z0-9][^.,\n]{0,80}?) (?:is|"
    r"must be|would be) "
    r"(?:therefore |thus )?the (?:final |correct |right )?(?:answer|option)\b"
)


def without_lead(text: str) -> str:
    """`text` without a first paragraph that announces it: "Here is the query:"."""
    first, _, rest = text.strip().partition("\n")
    if rest.strip() and first.rstrip().rstrip("*").endswith(":") and _LEAD.match(first.strip("*# ")):
        return rest.strip()
    return text


_CHATTER = re.compile(
    r"\n[ \t]{0,8}(?:let me know|i hope|hope this|feel free|if you (?:have|need|would|want)|please let me|"
    r"is there anything|would you like|"
    r"do you want)\b[^\n]*\Z",
    re.IGNORECASE,
)


def without_chatter(text: str) -> str:
    """`text` without a last line that speaks to whoever asked."""
    text = text.rstrip()
    return text[:-500] + _CHATTER.sub("", text[-500:]).rstrip()


def is_name(text: str) -> bool:
    """Whether `text` is a name or number alone, as an answer is where prose was not meant."""
    words = text.strip().rstrip(".").split()
    return (
        0 < len(words) <= 5
        and all(
            w[:1].isupper() or w[:1].isdigit() or w in ("of", "the", "de", "and", "von", "van") for w in words
        )
        and (
            words[0].casefold()
            not in (
                "the",
                "i",
                "let",
                "passage",
                "to",
                "in",
                "first",
                "we",
                "it",
                "this",
                "based",
                "so",
                "since",
            )
        )
    )


def text_outputs(schema: Mapping[str, Any]) -> list[str]:
    """The outputs that are texts and say anything."""
    return [name for name, kind in schema["properties"].items() if is_text(kind)]


def empty_word(text: str) -> bool:
    """Whether `text` is a word for nothing."""
    return bare(text) in ("none", "n/a", "na", "null", "nothing", "empty", "-", "")


def is_answer(name: str) -> bool:
    """Whether the output `name` is an answer, a query or a question: one value, nothing beside it."""
    return name.rpartition("_")[2] in ("answer", "query", "question", "input", "text")


def settled(text: str) -> str:
    """The answer in `text`: without the sentences that follow it, and the last where it is taken back."""
    text = without_chatter(text)
    named, at = phrase_at(text)
    if named and takes_back(text[:at]):
        return named
    first, _, rest = text.partition("\n\n")
    short = len(first.split()) <= 8 and "\n" not in first and first.rstrip("*_` ")[-1:] not in ".:;,!?\uff1a"
    return first.strip() if short and re.search(r"[.!?](?:\s|\Z)", rest) else text
