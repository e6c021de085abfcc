"""Metrics of short answers: exact match, token F1 and containment of a gold answer.

A prediction of None scores 0 in all of them. So does a question without golds; data readers refuse such
questions. A prediction or gold that is not a text raises UsageError. Each is the best over the golds.

`em`, `f1` and `acc` are SQuAD's (Rajpurkar et al. 2016, arXiv:1606.05250; the rule for empty sides is that of
its version 2.0 script) for texts of any language: what looks alike is alike (`fold`). For ASCII texts they
are SQuAD's own. The others are those of their papers to the letter: HotpotQA's `hotpot_em` and `hotpot_f1`
(Yang et al. 2018, arXiv:1809.09600) and RQ-RAG's `rqrag_f1` (Chan et al. 2024, arXiv:2404.00610) by SQuAD's
normalisation. One function, `token_f1`, computes all F1; its flags select the variant.

The other metrics search for a gold in the prediction, by the rule of their paper. They differ from `acc`, and
from each other, in normalisation and in the treatment of an empty gold:

    prefrag_acc   nothing but case       an empty gold always hits
    bioasq_acc    case; whole words      an empty gold hits any prediction with a word in it
    popqa_match   case                   as prefrag_acc
    slim_em hit1  SQuAD normalisation    an empty gold always hits
    choice_acc    equality               never

Their papers are PrefRAG (Zhao et al. 2024, arXiv:2411.00689), RQ-RAG, and SlimPLM (Tan et al. 2024,
arXiv:2402.12052).
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

from ragc.errors import UsageError
from ragc.metrics.base import Metric, Outcome, library

TextScore = Callable[[str | None, Sequence[str]], float]

_DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_VERDICTS = frozenset({"yes", "no", "noanswer"})
_LETTERS = dict(zip("12345", "ABCDE", strict=True))
_SIGNS = str.maketrans("", "", "\u00b4\u02b9\u02bb\u02bc\u02bd\u2212")
"""Apostrophes and the minus sign, which Unicode does not call punctuation."""
_KEPT_APART = ("<super>", "<sub>", "<fraction>")
"""Compatibility forms that mean something else: 10\u00b2 is not 102."""
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff])"
)
"""Characters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana and Han."""


def normalise(text: str) -> str:
    """Lower-cases, deletes ASCII punctuation, drops a|an|the as words, collapses white space: in this order.

    The order matters: "a-b" becomes "ab" (the hyphen is deleted, not replaced by a space, so there is no
    article), and "a." becomes "". Typographic quotes, dashes and other Unicode punctuation stay: this is
    SQuAD's normalisation, on which the papers' metrics rest.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_DELETE_PUNCTUATION)).split())


def fold(text: str) -> str:
    """Normalises as `normalise` does, for texts of any language; the same for ASCII texts.

    Composed and decomposed letters, fullwidth and other forms of a character are alike (NFKC, without
    superscripts, subscripts and fractions), and so is case. Punctuation of Unicode is deleted, and what is
    invisible, such as soft hyphens. Characters of scripts without spaces between words are words of their
    own.
    """
    if text.isascii():
        return normalise(text)
    plain = "".join(
        char
        if unicodedata.decomposition(char).startswith(_KEPT_APART)
        else unicodedata.normalize("NFKC", char.translate(_SIGNS))
        for char in text
    )
    folded = unicodedata.normalize("NFC", plain.casefold()).replace("i\u0307", "i")  # Turkish capital I
    visible = "".join(
        char
        for char in folded
        if not unicodedata.category(char).startswith(("P", "Cf")) and not "\ufe00" <= char <= "\ufe0f"
    )
    return normalise(_UNSPACED.sub(r" \1 ", visible))


def token_f1(
    prediction: str,
    gold: str,
    *,
    yesno_rule: bool = False,
    empty_rule: bool = True,
    ftfy: bool = False,
    normal: Callable[[str], str] = normalise,
) -> float:
    """Returns F1 of the two bags of normalised tokens, 0..1.

    `yesno_rule`: yes, no and noanswer on either side score 0 unless both sides are equal. `empty_rule`: when
    a side has no tokens the score is 1 iff neither has any; without it, 0. `ftfy`: both sides are first
    repaired by that library, which also straightens typographic quotes; raises UsageError when it is not
    installed. `normal` is the normalisation.
    """
    if ftfy:
        prediction, gold = _repair_text(prediction), _repair_text(gold)
    mine, theirs = normal(prediction), normal(gold)
    if yesno_rule and mine != theirs and (mine in _VERDICTS or theirs in _VERDICTS):
        return 0.0
    if not mine or not theirs:
        return float(empty_rule and mine == theirs)
    tokens, gold_tokens = mine.split(), theirs.split()
    shared = (Counter(tokens) & Counter(gold_tokens)).total()
    return 2 * shared / (len(tokens) + len(gold_tokens))


def _best(prediction: str | None, golds: Sequence[str], score: Callable[[str, str], float]) -> float:
    """Returns the best `score` of the prediction and a gold; 0 without either."""
    if prediction is None:
        return 0.0
    return float(max((score(prediction, gold) for gold in golds), default=0.0))


def em(prediction: str | None, golds: Sequence[str]) -> float:
    """Returns 1 when the folded prediction equals a folded gold, else 0."""
    return _best(prediction, golds, lambda mine, gold: fold(mine) == fold(gold))


def f1(prediction: str | None, golds: Sequence[str]) -> float:
    """Returns the token F1 of folded texts: 1 if neither side has a token, 0 if one side has none."""
    return _best(prediction, golds, lambda mine, gold: token_f1(mine, gold, normal=fold))


def acc(prediction: str | None, golds: Sequence[str]) -> float:
    """Returns 1 when the folded prediction contains a folded gold as a substring, else 0.

    Characters are matched, not words: "known" contains "no". A gold that normalises to nothing never hits.
    """
    return _best(prediction, golds, lambda mine, gold: bool(fold(gold)) and fold(gold) in fold(mine))


def hotpot_em(prediction: str | None, golds: Sequence[str]) -> float:
    """Returns 1 when the prediction equals a gold after SQuAD's normalisation, else 0."""
    return _best(prediction, golds, lambda mine, gold: normalise(mine) == normalise(gold))


def hotpot_f1(prediction: str | None, golds: Sequence[str]) -> float:
    """Returns HotpotQA's token F1: yes, no and noanswer count only when equal, and empty sides score 0."""
    return _best(
        prediction, golds, lambda mine, gold: token_f1(mine, gold, yesno_rule=True, empty_rule=False)
    )


def rqrag_f1(prediction: str | None, golds: Sequence[str]) -> float:
    """Returns RQ-RAG's token F1: SQuAD's after ftfy, and a prediction of "" scores 0 against any gold."""
    return _best(prediction or None, golds, lambda mine, gold: token_f1(mine, gold, ftfy=True))


def _repair_text(text: str) -> str:
    fix_text = library("ftfy", "RQ-RAG's F1").fix_text
    plain = text.isascii() and text.isprintable() and "&" not in text  # ftfy leaves such a text unchanged
    return text if plain else str(fix_text(text))


def prefrag_acc(prediction: str | None, golds: Sequence[str]) -> float:
    """Returns PrefRAG's Acc: 1 when the prediction contains a gold, both in lower case and otherwise
    unchanged.
    """
    return _best(prediction, golds, lambda mine, gold: gold.lower() in mine.lower())


def popqa_match(prediction: str | None, golds: Sequence[str], *, cased: bool = False) -> float:
    """Returns RQ-RAG's match: 1 when the prediction contains a gold, in lower case.

    The authors' inference script compares with `cased`, the script for their table without.
    """
    return (
        _best(prediction, golds, lambda mine, gold: gold in mine) if cased else prefrag_acc(prediction, golds)
    )


def bioasq_acc(prediction: str | None, golds: Sequence[str]) -> float:
    """Returns PrefRAG's Acc on BioASQ: 1 when the prediction contains a gold as whole words, in lower case.

    So "no, although some say yes" hits both `yes` and `no`. Where the gold starts or ends in a mark, such as
    the bracket of "IL-2 (p40)", a letter or digit must precede or follow that mark: the word boundary of the
    authors' pattern requires it. Marks of the gold are matched literally.
    """
    return _best(
        prediction,
        golds,
        lambda mine, gold: bool(re.search(rf"\b{re.escape(gold.lower())}\b", mine.lower())),
    )


def choice_acc(prediction: str | None, golds: Sequence[str]) -> float:
    """Returns 1 when the prediction is exactly the letter of the right option, ignoring outer white space.

    "B." and "b" are wrong, as in RQ-RAG. A gold counted from 1 to 5 is also answered by its letter.
    """
    right = [gold.strip() for gold in golds if gold.strip()]
    return _best(prediction, right, lambda mine, gold: mine.strip() in (gold, _LETTERS.get(gold, gold)))


def slim_em(prediction: str | None, golds: Sequence[str]) -> float:
    """Returns SlimPLM's EM: the share of the golds whose normalised form is contained in the normalised
    prediction.

    Every alias is a gold of its own, so a question with many aliases can hardly score 1: on TriviaQA a right
    answer scores about .3.
    """
    if prediction is None or not golds:
        return 0.0
    mine = normalise(prediction)
    return sum(normalise(gold) in mine for gold in golds) / len(golds)


def hit1(prediction: str | None, golds: Sequence[str]) -> float:
    """Returns SlimPLM's Hit@1: 1 when `slim_em` is above 0."""
    return float(slim_em(prediction, golds) > 0)


def text_metric(id: str, about: str, score: TextScore, modules: tuple[str, ...] = ()) -> Metric:
    """Returns the metric with `score` of an outcome's prediction and answers: a share, higher is better.

    It raises UsageError when the prediction is neither a text nor None, or when a gold is not a text.
    """

    def of_outcome(outcome: Outcome) -> float:
        check_text(id, outcome)
        return score(outcome.prediction, outcome.answers)

    return Metric(id, about, "share", True, of_outcome, modules=modules, text=True)


def check_text(id: str, outcome: Outcome) -> None:
    """Raises UsageError, naming the metric `id`, when a prediction or a gold is not a text."""
    texts: tuple[object, ...] = outcome.answers
    for text in texts if outcome.prediction is None else (outcome.prediction, *texts):
        if not isinstance(text, str):
            received = f"{type(text).__name__} {text!r:.60}"
            raise UsageError(f"{id} compares texts, but got {received}. Pass each answer as a string.")


LENIENT = (
    text_metric("prefrag_acc", "PrefRAG Acc: the prediction contains a gold answer, case aside", prefrag_acc),
    text_metric(
        "bioasq_acc",
        "PrefRAG Acc on BioASQ: the prediction contains a gold answer as whole words",
        bioasq_acc,
    ),
    text_metric("choice_acc", "the prediction is exactly the letter of the right option", choice_acc),
    text_metric(
        "popqa_match", "RQ-RAG match: the prediction contains a gold answer, case aside", popqa_match
    ),
    text_metric("slim_em", "SlimPLM EM: share of the gold answers that the prediction contains", slim_em),
    text_metric("hit1", "SlimPLM Hit@1: the prediction contains a gold answer", hit1),
)
METRICS = (
    text_metric("em", "exact match after normalisation, best gold", em),
    text_metric("f1", "token F1 after normalisation, best gold", f1),
    text_metric("acc", "the normalised prediction contains a normalised gold answer", acc),
    text_metric("hotpot_em", "HotpotQA exact match", hotpot_em),
    text_metric("hotpot_f1", "HotpotQA token F1: yes and no count only when equal", hotpot_f1),
    text_metric(
        "rqrag_f1", "RQ-RAG token F1: as f1, after repairing both texts with ftfy", rqrag_f1, ("ftfy",)
    ),
    *LENIENT,
)
