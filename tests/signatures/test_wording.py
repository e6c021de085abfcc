"""Two texts of one signature: both stay with its fields until one of them is left."""

from __future__ import annotations

from typing import Any, Literal

import dspy
import pytest

from ragc.programs import method
from ragc.programs.knobs import WORDINGS
from ragc.programs.runtime import Runtime
from ragc.signatures.answer import (
    ShortAnswer,
    limit_options,
    with_knowledge,
)
from ragc.signatures.query import AnswerPath
from ragc.signatures.wording import brief, change_texts, describe, description, output_field, worded
from ragc.testing import ListSource, SchemaReplies, ScriptedTarget


@brief("Name it.", hue="a word")
class Hue(dspy.Signature):
    """Name the colour of the thing.

    Look closely.
    """

    thing: str = dspy.InputField(desc="what is looked at")
    hue: str = dspy.OutputField(desc="the usual name of the colour")


class Plain(dspy.Signature):
    """Say it."""

    thing: str = dspy.InputField(desc="what it is")
    word: str = dspy.OutputField()


def texts(signature: Any, wording: str) -> tuple[str, dict[str, str]]:
    one = worded(signature, wording)
    return one.instructions, {name: description(name, info) for name, info in one.fields.items()}


def test_the_docstring_is_the_full_text_and_the_decorator_gives_the_brief_one() -> None:
    full = ("Name the colour of the thing.\n\nLook closely.", {
        "thing": "what is looked at", "hue": "the usual name of the colour"
    })  # fmt: skip
    assert texts(Hue, "full") == full
    assert texts(Hue, "brief") == ("Name it.", {"thing": "", "hue": "a word"})
    assert (Hue.instructions, description("thing", Hue.fields["thing"])) == (full[0], "what is looked at")


@pytest.mark.parametrize("wording", WORDINGS)
def test_a_signature_of_ones_own_has_one_text(wording: str) -> None:
    plain: Any = Plain
    assert worded(plain, wording) is Plain


def test_both_texts_survive_what_is_done_to_the_fields() -> None:
    note = output_field("all that is seen", brief="what is seen")
    changed = Hue.prepend("note", note, str).delete("thing").with_instructions("Say which.")
    changed = describe(changed, "hue", "one of two names", brief="one of two", kind=Literal["red", "blue"])
    assert texts(changed, "full") == ("Say which.", {"note": "all that is seen", "hue": "one of two names"})
    assert texts(changed, "brief") == ("Name it.", {"note": "what is seen", "hue": "one of two"})
    assert worded(changed, "brief").output_fields["hue"].annotation == Literal["red", "blue"]
    bounded = limit_options(Hue, "hue", ("red", "blue"))
    assert texts(bounded, "brief") == texts(Hue, "brief")


def test_a_change_of_words_reaches_both_texts_and_more_only_the_full_one() -> None:
    changed = change_texts(
        Hue, lambda text: text.replace("Name", "Tell").replace("word", "sign"), more="Now."
    )
    assert texts(changed, "full")[0] == "Tell the colour of the thing.\n\nLook closely.\n\nNow."
    assert texts(changed, "brief") == ("Tell it.", {"thing": "", "hue": "a sign"})
    assert change_texts(Plain, str, more="Now.").instructions == "Say it."
    assert texts(Hue, "brief")[0] == "Name it."  # the first one is as it was


def test_a_brief_text_of_a_field_that_is_not_there_is_refused() -> None:
    with pytest.raises(TypeError, match="no field shade"):
        brief("x", shade="y")(Hue)


@pytest.mark.parametrize("wording", WORDINGS)
def test_each_value_of_own_knowledge_has_a_text_of_its_own(wording: str) -> None:
    strict: Any = with_knowledge(ShortAnswer, own=False)
    knowing: Any = with_knowledge(AnswerPath, own=True)
    assert (strict, knowing) == (ShortAnswer, AnswerPath)
    for signature, own in ((ShortAnswer, True), (AnswerPath, False)):
        other = with_knowledge(signature, own=own)
        assert texts(other, wording)[0] != texts(signature, wording)[0]
        assert texts(other, wording)[1] == texts(signature, wording)[1]
        assert texts(with_knowledge(other, own=not own), wording) == texts(signature, wording)
        assert with_knowledge(other, own=own) is other


def test_a_signature_without_a_text_for_own_knowledge_is_named() -> None:
    with pytest.raises(TypeError, match="Hue does not say how it is worded for own knowledge"):
        with_knowledge(Hue, own=True)


@pytest.mark.parametrize("wording", WORDINGS)
def test_dspy_saves_and_loads_the_text_in_force(wording: str) -> None:
    target = ScriptedTarget(SchemaReplies())
    ground = Runtime({"main": target}, {"local": ListSource([])})
    program, other = (method("vanilla").build(ground, {"wording": wording}) for _ in range(2))
    program.answer.signature = program.answer.signature.with_instructions("Say so.")
    other.load_state(program.dump_state())
    inputs = {"question": "Q?", "passages": ["a"]}
    assert other.answer.messages(**inputs) == program.answer.messages(**inputs)
