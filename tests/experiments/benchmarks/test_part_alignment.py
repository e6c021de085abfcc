"""The labelled pairs of question and passage, and how an aligning call is measured on them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from experiments.benchmarks.scoring import part_alignment
from experiments.benchmarks.scoring.part_alignment import (
    Aligned,
    Pair,
    align_all,
    knob_of,
    main,
    read_pairs,
    report,
    says_part,
)
from ragc.core import event_loop
from ragc.errors import UnknownName, UsageError
from ragc.programs.base import format_passage
from ragc.programs.ggatrieval.copying import is_copied, is_part
from ragc.store.call_store import CallStore
from ragc.targets.base import ChatRequest
from ragc.testing import ScriptedTarget

PAIRS = read_pairs()


def test_forty_pairs_are_labelled_with_all_three_labels() -> None:
    assert len(PAIRS) == len({pair.id for pair in PAIRS}) == len({pair.question for pair in PAIRS}) == 40
    assert min(Counter(pair.label for pair in PAIRS).values()) >= 8
    absent = sum(not pieces for pair in PAIRS for pieces in pair.pieces)
    present = sum(bool(pieces) for pair in PAIRS for pieces in pair.pieces)
    assert min(absent, present) >= 60


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.id)
def test_parts_stand_in_the_question_and_pieces_in_the_passage(pair: Pair) -> None:
    text = format_passage(pair.passage)
    assert len(pair.parts) == len(pair.pieces) <= 8
    for part, pieces in zip(pair.parts, pair.pieces, strict=True):
        assert is_part(part, pair.question)
        for piece in pieces:
            assert piece in text
            assert is_copied(piece, text)


def target(matches: Callable[[Pair], list[dict[str, Any]]]) -> ScriptedTarget:
    """A target that aligns what `matches` says of a pair."""

    def reply(request: ChatRequest) -> str:
        pair = next(pair for pair in PAIRS if pair.question in request.messages[-1].content)
        return json.dumps({"aligned": matches(pair), "synonyms": []})

    return ScriptedTarget(reply)


def labelled(pair: Pair) -> list[dict[str, Any]]:
    """What a model should say."""
    return [
        {"component": number, "segment": pieces[0], "same": True}
        for number, pieces in enumerate(pair.pieces, 1)
        if pieces
    ]


def copying(pair: Pair) -> list[dict[str, Any]]:
    """What a model says that copies the parts."""
    return [{"component": number, "segment": part, "same": True} for number, part in enumerate(pair.parts, 1)]


def measure(model: ScriptedTarget, out: Path, **more: Any) -> list[Aligned]:
    options: dict[str, Any] = {"forms": ("",), "wordings": ("full", "brief"), **more}
    return event_loop.run(align_all(model, PAIRS, out, store=CallStore(None), **options))


def figures(aligned: list[Aligned]) -> dict[str, str]:
    """The counted figures by name, of the wording that comes first."""
    lines = list(report(aligned, PAIRS))[1:5]
    return {line.split()[0]: line.rpartition("]  ")[2].strip() for line in lines}


def test_a_model_that_aligns_as_labelled_gets_every_figure(tmp_path: Path) -> None:
    aligned = measure(target(labelled), tmp_path / "aligned.jsonl")
    assert len(aligned) == 2 * 40
    assert figures(aligned) == {
        "absent": "68 of 68", "present": "78 of 78", "label": "40 of 40", "copies": "0 of 78"
    }  # fmt: skip


def test_a_model_that_copies_the_parts_is_found_out(tmp_path: Path) -> None:
    counted = figures(measure(target(copying), tmp_path / "aligned.jsonl"))
    copies, segments = map(int, counted["copies"].split(" of "))
    assert segments == 146
    assert copies > 80
    assert int(counted["present"].split(" of ")[0]) < 60
    nothing = figures(measure(target(lambda pair: []), tmp_path / "none.jsonl", wordings=("brief",)))
    assert (nothing["absent"], nothing["present"]) == ("68 of 68", "0 of 78")
    assert "none" in nothing["copies"]


def test_a_piece_of_another_matter_does_not_say_the_part(tmp_path: Path) -> None:
    def elsewhere(pair: Pair) -> list[dict[str, Any]]:
        words = pair.passage.text.split()
        return [
            {"component": number, "segment": " ".join(words[-2:]), "same": True}
            for number in range(1, len(pair.parts) + 1)
        ]

    counted = figures(measure(target(elsewhere), tmp_path / "aligned.jsonl"))
    assert int(counted["absent"].split(" of ")[0]) <= 1  # two last words that a copy may not begin with
    assert int(counted["present"].split(" of ")[0]) < 10
    assert says_part(["the two small moons"], ["two"])
    assert not says_part(["second tallest"], ["5,199 metres"])


def test_an_ended_measurement_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "aligned.jsonl"
    aligned = measure(target(labelled), out)
    lines = out.read_text("utf-8").splitlines(keepends=True)
    out.write_text("".join(lines[:70]) + lines[70][:9], "utf-8")  # as a kill leaves it
    again = target(labelled)
    assert measure(again, out) == aligned
    assert len(again.requests) == 10
    idle = target(labelled)
    assert measure(idle, out) == aligned
    assert not idle.requests


def test_knobs_are_varied_and_replies_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    plain = ScriptedTarget(lambda request: "no alignment")
    aligned = measure(
        plain, tmp_path / "aligned.jsonl", forms=("fga_reflect=true", "fga_reflect=false"), wordings=("full",)
    )
    text = "\n".join(report(aligned, PAIRS))
    assert "full, fga_reflect=true: 40 pairs, 40 replies not readable" in text
    assert "full, fga_reflect=false: 40 pairs, 40 replies not readable" in text
    assert len({request.messages[0].content for request in plain.requests}) >= 2


def test_knobs_to_vary_are_read_and_checked() -> None:
    assert knob_of("") == {}
    assert knob_of("fga_reflect=false") == {"fga_reflect": False}
    assert knob_of("rounds=2") == {"rounds": 2}
    assert knob_of("layout=xml") == {"layout": "xml"}
    with pytest.raises(UsageError, match="--vary takes KNOB=VALUE, found 'layout'"):
        knob_of("layout")
    with pytest.raises(UsageError, match="must be an integer, found 'two'"):
        knob_of("rounds=two")
    with pytest.raises(UnknownName):
        knob_of("lay=xml")


def test_one_command_measures_the_target_of_a_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(part_alignment, "build_target", lambda spec: target(labelled))
    (tmp_path / "questions.jsonl").write_text('{"id": "a", "question": "a", "answers": ["a"]}\n', "utf-8")
    (tmp_path / "corpus.jsonl").write_text('{"id": "a", "text": "a"}\n', "utf-8")
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'program = "ggatrieval"\n[data]\nquestions = "questions.jsonl"\ncorpus = "corpus.jsonl"\n'
        '[sources.local]\nkind = "bm25"\n[targets.main]\nkind = "embedded"\n',
        "utf-8",
    )
    out = tmp_path / "aligned.jsonl"
    vary = ["--vary", "layout=minimal", "layout=json"]
    main([str(recipe), "--limit", "3", "--wording", "brief", *vary, "--out", str(out)])
    printed = capsys.readouterr().out
    assert "brief, layout=json: 3 pairs, 0 replies not readable" in printed
    assert len(out.read_text("utf-8").splitlines()) == 6
