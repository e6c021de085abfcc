"""What a reply says in sentences: thoughts before it, the answer that prose ends with, verdicts, refusals.

Models that were asked for a form often answer in prose. `said` is the part of a reply that answers, without
thoughts and tokens of chat templates. `phrase` is the answer that sentences name, `verdict` the option that
they choose. `says_nothing` tells texts that stand where an answer should and are none.

This module is part of exported Python files too: it needs nothing but the standard library of Python 3.9.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ragc.programs.calls.meaning import FLAGS, NOTHING_MEANT, bare, choose, fold, is_text

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
    r"(?:<\|[a-z_]{2,30}\|>|</?s>|<(?:end|start)_of_turn>|<eos>|<bos>|\[/?INST\]|\[\[ ## completed ## \]\])",
    re.IGNORECASE,
)
_TURN_ENDS = re.compile(r"<\|(?:im_end|eot_id|end|endoftext|return|eom_id)\|>|<end_of_turn>|</s>|<eos>")
_LATEX = re.compile(
    r"\\(?:text|textbf|mathrm|mathbf|mathit|boxed|fbox)\s*\{|\$\$?(?=[^$\n]{1,200}\$)|\\[(\[]"
)
_WRAPPER = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mathit)\s*\{([^{}]*)\}")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*\{([^{}]*)\}")


def said(text: str, names: Sequence[str]) -> str:
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
    if "[[ ## completed" in answer or "<" in answer or "[" in answer:
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


def _without_tokens(text: str) -> str:
    """`text` without the tokens that stand at its ends, and the mark of its end on the line of a value."""
    changed = True
    while changed:
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
    r"\.\.\.|\u2026|[<\[{(]?\s*(?:your|insert|the|put|write)\s(?:\w+ ){0,4}(?:answer|query|text|question|value|here)\s*(?: here)?[>\]})]"
    r"|(?:your|insert|put|write) (?:\w+ ){1,3}here\.?",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"(?:(?:(?:i'?m|i am)\s+(?:really |very |truly |so )?(?:sorry|afraid)|sorry|apologies|i apologi[sz]e|unfortunately)\b"
    r"[^.\n]{0,60}?(?:but|,|that|\.|:|;|-|\u2014|as)?\s*)?"
    r"(?:as an? (?:ai|artificial|large language|language)[^,.\n]{0,40},?\s*)?"
    r"i(?:'m| am)?\s*(?:just |only |unfortunately )?"
    r"(?:(?:can(?:\s?not|'?t)|could not|couldn'?t|will not|won'?t|must not|may not|do not feel)\s+(?:\w+ ){0,2}"
    r"(?:help|assist|answer|respond|provide|comply|fulfil+|complete|do (?:that|this)|give|rank|discuss|comment|process|"
    r"access|browse|engage|improve|continue|offer|support|comfortable|see|share|open|read|search|determine|generate|create)\b"
    r"|(?:not able|unable|not allowed|not permitted|not in a position|programmed)\s+to\b|(?:just |only )?an? (?:ai|language model)\b"
    r"|(?:don'?t|do not) have (?:access|the ability|any passages|the passages)\b)",
    re.IGNORECASE,
)
_SORRY = re.compile(
    r"(?:(?:i'?m|i am)\s+(?:really |very |so )?sorry|sorry)\b.{0,80}\b(?:can(?:not|'t)|unable|not able|assist|help)\b"
    r"|as an ai\b|my (?:guidelines|programming|policy)|(?:this|that|your|the) (?:request|content|question|prompt) "
    r"(?:goes against|violates|is against|cannot be (?:answered|processed|completed)|was (?:blocked|flagged))",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"(?:please|kindly|(?:could|can|would|will) you(?: please| kindly)?|i(?:'d| would)? (?:need|like|want) you to)\s+"
    r"(?:provide|share|send|give|supply|paste|specify|clarify|include|upload|enter|tell me|let me know|rephrase|repeat)\b"
    r"|(?:what|which|where) (?:is|are) (?:the|your) (?:question|passages?|documents?|text)\b.{0,40}\?"
    r"|(?:how (?:can|may) i (?:help|assist)|what would you like)\b"
    r"|\b(?:you (?:have not|haven't|did not|didn't) (?:provided?|given?|included?|shared?|asked?))\b"
    r"|\bno (?:passages?|documents?|question|text|context) (?:was|were|has been|have been|is|are) (?:provided|given|included|attached)\b",
    re.IGNORECASE,
)
_BROKEN = re.compile(
    r"\s*(?:<!doctype|<html|\{?\"?error\"?\s*[:{]|(?:http )?(?:error )?[45]\d\d:? (?:bad|internal|service|gateway|too many|"
    r"forbidden|unauthori[sz]ed|not found)|(?:\w*error|exception)\s*:|traceback \(most|internal server error|rate limit exceeded"
    r"|(?:the )?(?:request|connection|model) (?:has )?timed out|service unavailable|upstream (?:connect|request) error)",
    re.IGNORECASE,
)
_LEAD = re.compile(
    r"(?:sure|certainly|of course|okay|ok|absolutely|alright|great|understood|here(?:'s| is| are)|below (?:is|are)|the following|"
    r"based on|according to|you (?:could|can|may) (?:try|use)|i (?:would|'d|suggest|propose|recommend)|let me|let's)\b",
    re.IGNORECASE,
)


_PREAMBLE = re.compile(
    r"let me\b|let's\b|(?:okay|ok|alright|hmm)[,.]?(?: so)?,? (?:i|let|we|the user)\b|first,? (?:i|we|let)\b|i (?:need|have|will|should|am going) "
    r"(?:to|start|begin)\b|we (?:need|have|must|should)\b|to (?:answer|find|determine|solve)\b[^\n]{0,80}\b(?:need|must|should|have to)\b|"
    r"(?:so |thus |therefore,? )?the (?:final |correct )?(?:answer|option|query)(?: to [^.\n]{0,60})? (?:is|are|would be)\W*\Z",
    re.IGNORECASE,
)
_UNDECIDED = re.compile(
    r"\b(?:not sure|unsure|uncertain|cannot (?:say|tell|decide)) (?:which|whether|if)\b|could be [^\n]{2,80}\bcould (?:also )?be\b|"
    r"\b(?:could|might|may) be (?:either )?[^\n]{2,60} or (?:perhaps |maybe |possibly )?|^either\b[^\n]{2,80}\bor\b[^\n]{2,80}\bsure\b",
    re.IGNORECASE,
)
ASIDES = frozenset(("reasoning", "reason", "thought", "analysis", "explanation", "improvement", "rationale"))
"""Outputs that are said beside the value of a call, where any sentence may stand."""


def lacks_answer(value: Any) -> bool:
    """Whether an answer, a query or a question of the object `value` is the empty text."""
    return isinstance(value, dict) and any(
        held == "" and str(name).rpartition("_")[2] in ("answer", "query", "question")
        for name, held in value.items()
    )


def says_nothing(text: str, name: str = "") -> bool:
    """Whether `text` stands where an answer should and is none: a refusal, a question back, an error, a blank.

    A blank may have the `name` of the output, as in "{answer}". A text that offers more than 400 characters is taken for an answer.
    """
    text = text.strip().replace("\u2019", "'")
    if name in ASIDES:
        return False
    if len(text) > 400:
        return _looped(text)
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
    return bool(lead and text.endswith(":") and "\n" not in text) or _looped(text)


def _looped(text: str) -> bool:
    """Whether `text` is a model in a loop: a few words over and over."""
    words = text.casefold().split()
    return len(words) >= 8 and all(map(str.isalpha, words)) and len(set(words)) <= max(2, len(words) // 20)


_CUE = re.compile(
    r"(?:\s*####\s+)|"
    r"(?:\b(?:so|therefore|thus|hence|consequently|finally|in conclusion|overall|and|then)\b[\s,:]*)?"
    r"(?:\b(?:the|my|our|a|this|that)\s+)?(?:\b(?:final|correct|best|right|short|short final|most likely|likely|probable|actual|"
    r"right final|direct|exact)\s+)*"
    r"\b(?:answer|option|choice|best guess|guess)\b"
    r"(?:\s+(?:to|for|of)\s+(?:the|this|that|your)\s+question|\s+here|\s+therefore|\s+then|\s+would)?"
    r"(?:[*_]{1,3}\s*)?\s*(?:(?:is|was|are|be|must be|should be|would be|has to be|=)\b\s*(?:then\s+|thus\s+|therefore\s+|likely\s+|"
    r"probably\s+|most likely\s+|simply\s+|that\s+)?:?|[:\uff1a])\s*",
    re.IGNORECASE,
)
_NO_PHRASE = re.compile(
    r"(?:not|no longer|unclear|unknown|undetermined|in the|in passage|found|given|provided|stated|contained|somewhere|there|as "
    r"follows|below|above|based|either|one of|the following|that it|it depends|wrong|complete|incorrect|correct|right)\b(?!\s+\w+ial)",
    re.IGNORECASE,
)
_TAKEN_BACK = re.compile(
    r"\b(?:wait|sorry|mistake|correction|corrected|actually|i was wrong|on second thoughts?|scratch that|let me (?:re|correct)|"
    r"rather|instead|no,|wrong|hmm|i meant|strike that|revised|oops)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(
    r"(?<!\bSt)(?<!\bMt)(?<!\bMr)(?<!\bDr)(?<!\bJr)(?<!\bSr)(?<!\bNo)(?<!\bFt)(?<!\bvs)(?<!\bMrs)(?<!\bProf)(?<=[^\s.][a-z0-9)\]\"'*%])[.!](?=\s+[A-Z\"(\[*]|\s*\Z)|\n"
)


_GOES_ON = re.compile(
    r"^\W*(?:next |new |another )?(?:question|observation|human|user|input|example|intermediate answer)\b[^\n:]{0,12}:",
    re.IGNORECASE | re.MULTILINE,
)


def goes_on(text: str) -> bool:
    """Whether `text`, which follows an answer, is another question or what a step brought."""
    return _GOES_ON.search(text) is not None


def takes_back(text: str) -> bool:
    """Whether `text` says that what was said before it is wrong."""
    return _TAKEN_BACK.search(text) is not None


def phrase(text: str) -> str:
    """The answer that the last sentence with "the answer is" names; "" where there is none."""
    return phrase_at(text)[0]


def phrase_at(text: str) -> tuple[str, int]:
    """The answer that the last "the answer is" of `text` names, and where that begins."""
    for cue in reversed(list(_CUE.finditer(text))[-20:]):
        rest = text[cue.end() :].lstrip()
        if not rest or (cue[0].rstrip()[-1:] not in (":", "\uff1a") and rest[:1] in "?,;"):
            continue
        end = _SENTENCE_END.search(rest)
        named = rest[: end.start()] if end else rest
        named = re.split(
            r"\s*(?:;|\s[\u2014\u2013-]\s|,?\s+(?:because|since|as (?:stated|mentioned|given|passage|it|the))\b)",
            named,
        )[0]
        named = named.strip().strip("*_`").strip().rstrip(".!,").strip()
        if named and len(named) <= 200 and not _NO_PHRASE.match(named) and re.search(r"\w", named):
            return named, cue.start()
    said_first = list(_NAMED_FIRST.finditer(text))
    return (said_first[-1][1].strip("*_` "), said_first[-1].start(1)) if said_first else ("", 0)


_NAMED_FIRST = re.compile(
    r"(?:\A|[.\n]\s*)(?:(?:so|therefore|thus|hence),?\s+)?([*_]{0,2}[A-Z0-9][^.,\n]{0,80}?) (?:is|must be|would be) "
    r"(?:therefore |thus )?the (?:final |correct |right )?(?:answer|option)\b"
)


_WORDS: Mapping[str, tuple[str, str]] = {
    "sufficient": (
        r"sufficient|enough|suffices?|adequate|(?:hold|contain|have|provide|cover|include|give)s? (?:everything|all)\b|complete",
        r"insufficient|inadequate|incomplete|(?:is|are) (?:still )?missing|lacks?\b|lacking|no mention|more (?:is|are) needed",
    ),
    "relevant": (
        r"relevant|helps?\b|helpful|useful|pertinent|of (?:use|help)|on[ -]topic",
        r"irrelevant|unrelated|useless|unhelpful|off[ -]topic|beside the point",
    ),
    "correct": (
        r"correct\b(?! \w+ is)|right\b(?! \w+ is)|accurate|match(?:es)?\b",
        r"incorrect|wrong|inaccurate|mismatch",
    ),
    "entailed": (
        r"entail(?:s|ed|ment)?\b|follows\b|supported\b|implied\b",
        r"contradict\w*|neutral|non-?entail\w*|unsupported",
    ),
    "need": (
        r"needs?\b|needed|requires?\b|required|necessary|must be looked up",
        r"unnecessary|unneeded|without (?:a |any )?(?:additional|more|further|search\w*|looking)|can (?:be )?answer(?:ed)?\b",
    ),
    "known": (
        r"(?:it|this|that|answer|claim|fact|query|question) (?:is|seems) (?:well |already |widely )?known\b|\Aknown\b|no (?:further )?search|search is (?:not|un)\s?(?:needed|necessary|required)|without (?:a )?search(?:ing)?",
        r"unknown|(?:is|was) not known|\Anot known|search is (?:needed|required|necessary)|(?:needs?|requires?) (?:a |to be )?search(?:ed)?|should be searched",
    ),
    "status": (
        r"(?:adds?|brings?|gives?|provides?|contains?) (?:\w+ ){0,3}(?:new|relevant)|new (?:fact|information)s? (?:is|are) (?:added|given)",
        r"(?:adds?|brings?) nothing|repeats? what|nothing new|off the point",
    ),
}
_NOT = re.compile(
    r"(?:\b(?:not|no|never|cannot|neither|nor|hardly|without|nothing)\b|n't)[^.,;:\n]{0,40}\Z", re.IGNORECASE
)
_HEDGE = re.compile(
    r"\?\s*\Z|\b(?:whether|if|unless|not clear|may or may not|depend(?:s|ing)|hard to (?:tell|say)|unclear|difficult to (?:tell|say)|cannot (?:tell|say|decide|be determined)|"
    r"not sure|unsure|either way|might|possibly|perhaps|maybe|partly|partially|in part|somewhat|to some extent)\b",
    re.IGNORECASE,
)
_CHOOSES = re.compile(
    r"\b(?:lean(?:ing)? (?:towards?|to)|verdict(?: is)?|conclu(?:sion|de)(?: is| that)?|judge?ment(?: is)?|i(?:'d| would)? (?:say|go with|"
    r"choose|pick|select|grade|rate|classify|label|judge|answer)|(?:graded?|rated?|labell?ed|classified|marked?|judged) (?:[\w ]{0,30}\bas\b)?|"
    r"the (?:answer|grade|action|verdict|choice|option|label|domain|category|best \w+|next \w+|right \w+) (?:is|would be|should be)|"
    r"i(?:'d| would| will|'ll)|is about|belongs to|falls under|concerns|so|therefore|thus|hence|should be|best (?:action|choice|option) is|final \w+:)[\s,:]*",
    re.IGNORECASE,
)


def verdict(name: str, options: Sequence[Any], text: str) -> Any:
    """The one of `options`, words or truth values, that `text` chooses for the output `name` in its own words.

    `NOTHING_MEANT` where it chooses none, hedges, or says both.
    """
    flags = {
        option: option if isinstance(option, bool) else FLAGS.get(str(option).casefold())
        for option in options
    }
    if len(options) == 2 and set(flags.values()) == {True, False}:
        flag = _holds(name, text)
        return next((option for option in options if flags[option] is flag), NOTHING_MEANT)
    return _chosen([option for option in options if isinstance(option, str)], text)


def _holds(name: str, text: str) -> bool | None:
    """Whether `text` says that `name` holds; None where it does not say."""
    plain = text.replace("\u2019", "'")
    ended = re.search(rf"\b{name}\W{{1,4}}(?:is\s+)?(true|false|yes|no)\W*\Z", plain, re.IGNORECASE)
    if ended:
        return FLAGS[ended[1].casefold()]
    if "##" in plain or "<" in plain or plain.count("\n") > 4:
        return None
    for cue in reversed(list(_CHOOSES.finditer(plain))[-20:]):
        word = re.match(r"\W*(?:an?\s+)?(\w+)(?!\s+\w+\s+(?:or|and)\b)", plain[cue.end() :])
        if word and word[1].casefold() in ("yes", "no", "true", "false"):
            return FLAGS[word[1].casefold()]
    stem = name if name in _WORDS else next((w for w in _WORDS if fold(name).endswith(w)), "")
    if not stem or len(plain) > 600:
        return None
    positive, negative = _WORDS[stem]
    found = set()
    for match in re.finditer(rf"\b(?:({negative})|({positive}))", plain, re.IGNORECASE):
        negated = _NOT.search(plain[: match.start()]) is not None
        found.add((match[1] is None) is not negated)
    if len(found) != 1 or _HEDGE.search(plain):
        return None
    return found.pop()


def _chosen(words: Sequence[str], text: str) -> Any:
    """The one of `words` that stands where `text` says what it chooses."""
    for cue in reversed(list(_CHOOSES.finditer(text))[-20:]):
        clause = re.split(r"[.;\n]", text[cue.end() :])[0]
        found = _named(words, clause)
        if (
            len(found) == 1
            and not _HEDGE.search(clause.lower().replace(found[0].lower(), ""))
            and not _NOT.search(clause[: clause.lower().find(found[0].lower()[:4])])
        ):
            return found[0]
        if found:
            return NOTHING_MEANT
    alone = _alone(words, text)
    if alone:
        return alone
    marked = {
        choose(one, words)
        for one in re.findall(r"(?:\*\*|[`\"'\u201c])([\w -]{2,30})(?:\*\*|[`\"'\u201d])", text)
    }
    marked.discard(NOTHING_MEANT)
    return marked.pop() if len(marked) == 1 else NOTHING_MEANT


_COMMON = frozenset(("answer", "finish", "search", "local", "open", "none", "web", "api"))


def _alone(words: Sequence[str], text: str) -> str:
    """The only one of `words` that stands in one sentence, and is no common verb; "" where there is none."""
    if len(text.split()) > 20 or re.search(r"[.!?;]\s+\S", text):
        return ""
    found = _named(words, text)
    if (
        not found
        and "none" in words
        and re.search(r"\bnot (?:be )?support|unsupported|no support|contradict", text, re.IGNORECASE)
    ):
        return "none"
    if len(found) != 1 or found[0].casefold() in _COMMON or len(found[0]) < 5:
        return ""
    plain = text.casefold().replace(found[0].casefold(), "")
    return (
        "" if _HEDGE.search(plain) or re.search(r"\b(?:not|no|never|nor|cannot)\b|n't", plain) else found[0]
    )


def _named(words: Sequence[str], clause: str) -> list[str]:
    """Those of `words` that stand in `clause`, without those that are a part of another one there."""
    found = []
    for word in sorted(words, key=len, reverse=True):
        pattern = r"[\W_]+".join(map(re.escape, re.split(r"[\W_]+", word)))
        matched = (
            re.search(rf"(?<![\w-]){pattern}(?![\w-])", clause, re.IGNORECASE) if len(word) > 1 else None
        )
        if matched:
            found.append(word)
            clause = clause[: matched.start()] + " " * len(matched[0]) + clause[matched.end() :]
    return found


_SCALE = re.compile(
    r"(?:(?:on|in) )?(?:a |the )?scale (?:from|of|:)?\s*-?\d+\s*(?:to|-|\u2013)\s*-?\d+|(?:from|between) -?\d+ (?:to|and|-) -?\d+|"
    r"\bout of \d+|(?<=\d)\s*/\s*\d+",
    re.IGNORECASE,
)
_RATES = re.compile(
    r"\b(?:rat(?:e|ed|ing)|scor(?:e|ed)|grade[ds]?|give|gave|assign(?:ed)?|confidence|confident|sure|certain|utility|points|percent|"
    r"likelihood|probability|chance|need)\b[^.\n\d]{0,60}?(-?\d+(?:\.\d+)?)(?![\d.]*\d|\s*(?:of the|passages?|documents?))",
    re.IGNORECASE,
)
_PERCENT = re.compile(r"(-?\d+(?:\.\d+)?)\s*(?:%|percent\b)")


_FIRST = re.compile(
    r"[\s*_`\"'(\[]*([-+]?\d{1,3}(?:\.\d+)?)(?:\s*(?:%|points?|/\s*(?:5|10|100)\b|out of (?:5|10|100)\b))?[*_`\"')\]]*"
    r"(?:\s+[-\u2013\u2014]\s|\s*[:,;(]\s*(?=\D)|\.?\s*\n)"
)
_NUMBERED_ONE = re.compile(
    r"\b(?:number|no\.?|candidate|statement|option|passage|document|closest is|answer is)\s*(?:is\s*)?[\[#(]*(\d{1,4})\b",
    re.IGNORECASE,
)


def rating(text: str) -> str:
    """The number that sentences give as a rating; "" where they give none, or several."""
    first = _FIRST.match(text)
    if first and not re.match(r"[\s*_`\"'(\[]*-?\d+\.\s", text):
        return first[1].lstrip("+")
    plain = _SCALE.sub("", text.replace("\u2212", "-"))
    for pattern in (_RATES, _PERCENT, _NUMBERED_ONE):
        found = {match[1] for match in pattern.finditer(plain)}
        if len(found) == 1:
            return found.pop()
        if found:
            return ""
    return ""


def without_lead(text: str) -> str:
    """`text` without a first paragraph that announces it: "Here is the query:"."""
    first, _, rest = text.strip().partition("\n")
    if rest.strip() and first.rstrip().rstrip("*").endswith(":") and _LEAD.match(first.strip("*# ")):
        return rest.strip()
    return text


_CHATTER = re.compile(
    r"\n\s*(?:let me know|i hope|hope this|feel free|if you (?:have|need|would|want)|please let me|is there anything|would you like|"
    r"do you want)\b[^\n]*\Z",
    re.IGNORECASE,
)


def without_chatter(text: str) -> str:
    """`text` without a last line that speaks to whoever asked."""
    return _CHATTER.sub("", text.rstrip()).rstrip()


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
    """Whether the output `name` is an answer, a query or a question: one value, with nothing said beside it."""
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
