"""`reproduce` on scripted targets: figures, what differs, resumption, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ragc.errors import DataError, RecipeError, TargetUnavailable, UnknownName, UsageError
from ragc.optimizers.grids.tables.listing import listing, needs
from ragc.optimizers.grids.tables.result import TOO_FEW, _relation
from ragc.optimizers.grids.tables.run import estimate
from ragc.targets.base import ChatRequest, Reply
from ragc.testing import ScriptedTarget
from tests.optimizers.grids.tables.common import Run, answer
from tests.support.rows import read_rows

MAIN: dict[str, Any] = {"rows": ["vanilla_local"], "data_sets": ["hotpotqa"]}


class Failing(ScriptedTarget):
    """Answers some requests, then is not there any more."""

    def __init__(self, replies: int) -> None:
        super().__init__(answer, concurrency=1)
        self._left = replies

    async def complete(self, request: ChatRequest) -> Reply:
        self._left -= 1
        if self._left < 0:
            raise TargetUnavailable("the server is gone", endpoint="scripted")
        return await super().complete(request)


def test_our_figures_stand_beside_the_papers_with_intervals(run: Run) -> None:
    result = run("prefrag-main", **MAIN)
    (cell,) = result.cells
    shown = {figure["metric"]: figure for figure in result.figures(cell)}
    assert (shown["em"]["paper"], shown["em"]["ours"], shown["em"]["n"]) == (45.8, 50.0, 10)
    low, high = shown["em"]["ci"]
    assert 0 < low < 50 < high < 100
    assert result.grid()[1][:4] == ("hotpotqa", "vanilla_local", "prefrag_acc", "46.4")
    assert result.grid()[1][5] == TOO_FEW
    assert f"Below 30 questions an interval holds nearly any figure: {TOO_FEW}." in result.lines()
    assert [_relation(46.4, (40, 50), n) for n in (29, 30)] == [TOO_FEW, "inside"]
    assert "Inside: the paper's figure is in our interval; below or above: it is outside." in result.lines()
    assert result.to_json()["rows"][0]["data"]["hotpotqa"]["questions"] == 10


def test_what_differs_is_said_in_words(run: Run) -> None:
    result = run("prefrag-main", limit=4, **MAIN)
    text = "\n".join(result.differs)
    assert "Model: scripted here, GLM4-Plus in the paper's figures." in text
    assert "Sample of hotpotqa: 4 of 10 questions in questions_dev.jsonl; 500 in the paper." in text
    assert re.search(
        r"Corpus of hotpotqa: \d passages here; 5,233,329 Wikipedia abstracts in the paper.", text
    )
    assert "Source local: bm25 here; BM25 in Elasticsearch in the paper." in text
    assert "So few questions bear no claim" in text
    assert "Set here" not in text
    assert "No answer" not in text
    other = run("prefrag-main", beside="Llama3.1-8B-Instruct", limit=4, **MAIN)
    assert other.figures(other.cells[0])[0]["paper"] == 36.4


def test_rows_are_those_of_ragc_eval_and_a_second_run_sends_nothing(run: Run, tmp_path: Path) -> None:
    import ragc

    run("prefrag-main", **MAIN)
    path = tmp_path / "out/vanilla_local.hotpotqa.jsonl"
    first = path.read_bytes()
    target = ScriptedTarget([])
    again = run("prefrag-main", target=target, **MAIN)
    assert (path.read_bytes(), target.requests, again.counters["sent"]) == (first, [], 0)
    assert again.cells[0].means["em"].mean == 0.5
    assert not ragc.compare(path, path).rows[0].verdict.startswith("worse")


def test_a_larger_limit_asks_only_what_is_new(run: Run) -> None:
    run("prefrag-main", limit=3, **MAIN)
    target = ScriptedTarget(answer)
    assert run("prefrag-main", limit=5, target=target, **MAIN).cells[0].n == 5
    assert len(target.requests) == 2
    assert run("prefrag-main", limit=3, target=ScriptedTarget([]), **MAIN).cells[0].n == 3


def test_a_run_that_was_cut_off_goes_on_and_leaves_the_same_bytes(run: Run, tmp_path: Path) -> None:
    whole = run("prefrag-main", out=tmp_path / "whole", **MAIN)
    with pytest.raises(TargetUnavailable):
        run("prefrag-main", target=Failing(4), **MAIN)
    path = tmp_path / "out/vanilla_local.hotpotqa.jsonl"
    assert sum(not row["failure"] for row in read_rows(path)) == 4
    with path.open("ab") as file:  # a kill cuts a line off
        file.write(b'{"id": "q1", "question": "Whi')
    target = ScriptedTarget(answer)
    cut = run("prefrag-main", target=target, **MAIN)
    assert len(target.requests) == 6
    assert path.read_bytes() == whole.cells[0].path.read_bytes()
    assert cut.cells[0].means == whole.cells[0].means


def test_rows_of_another_model_or_setting_are_not_mixed(run: Run) -> None:
    run("prefrag-main", **MAIN)
    with pytest.raises(UsageError, match="rows of other models, data or settings"):
        run("prefrag-main", target=ScriptedTarget(answer, identity="another"), **MAIN)
    with pytest.raises(UsageError, match="rows of other models, data or settings"):
        run("prefrag-main", sets=["knobs.wording=brief"], **MAIN)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        *(
            ("vanilla_local.hotpotqa.jsonl", content, "is no row of this table")
            for content in ("no row\n", "{}\n", '{"id": 3, "scores": {}}\n', "[1]\n")
        ),
        *(
            ("result.json", content, "choose another --out or move it away")
            for content in ("{}", "[", '{"table": "ragx-main"}', '"a"')
        ),
    ],
)
def test_a_file_of_something_else_is_one_sentence_and_stays(
    run: Run, tmp_path: Path, name: str, content: str, sentence: str
) -> None:
    path = tmp_path / "out" / name
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(UsageError, match=sentence):
        run("prefrag-main", **MAIN)
    assert path.read_text() == content


def test_absent_data_says_which_file_from_where_under_which_licence(run: Run, tmp_path: Path) -> None:
    with pytest.raises(DataError) as error:
        run("ggatrieval-nq")
    text = str(error.value)
    assert "nq is not in" in text
    assert "NQ-open.dev.jsonl" in text
    assert "https://github.com/google-research-datasets/natural-questions" in text
    assert "CC BY-SA 3.0" in text
    assert "--data" in text


def test_what_is_there_runs_and_the_rest_is_named(run: Run) -> None:
    result = run("prefrag-main", rows=["no_retrieval"], limit=2)
    assert [cell.data for cell in result.cells] == ["hotpotqa"]
    assert len(result.left_out) == 3
    assert "bioasq is not in" in result.left_out[2]


def test_a_row_that_needs_more_is_left_out_or_refused_by_name(run: Run) -> None:
    result = run("ragx-sources", limit=1)
    assert {cell.row for cell in result.cells} == {"llm", "web", "llm_web", "predefined_web"}
    assert any(text.startswith("api on crag: ") and "mock API of CRAG" in text for text in result.left_out)
    with pytest.raises(UsageError, match="needs the source kg"):
        run("ragx-sources", rows=["api"])


def test_roles_that_nobody_configures_are_played_by_the_main_target(run: Run) -> None:
    result = run("ragx-main", rows=["ragx_web"], limit=2)
    assert dict(result.targets) == {"main": "scripted", "judge": "scripted"}
    assert any(text.startswith("Judge: scripted here, GPT-3.5 Turbo in the paper") for text in result.differs)
    assert any("10 example questions of CRAG" in text for text in result.differs)


@pytest.mark.parametrize(
    ("row", "shown"), [("shots_0", 0), ("shots_1", 1), ("shots_3", 3), ("cross_domain_2", 2)]
)
def test_a_row_of_examples_shows_as_many_as_it_says(run: Run, row: str, shown: int) -> None:
    target = ScriptedTarget(answer)
    result = run("ragx-few-shot", rows=[row], limit=2, target=target)
    examples = [
        [one.content for one in request.messages if one.role == "assistant"] for request in target.requests
    ]
    assert max(map(len, examples)) == shown
    assert all("invalid question" in text for texts in examples for text in texts)
    assert result.cells[0].n == 2
    sentence = f"Demonstrations on crag, worded by us: {row} 15."
    assert (sentence in result.differs) == bool(shown)


def test_knobs_of_the_user_reach_the_programs_that_have_them(run: Run) -> None:
    target = ScriptedTarget(answer)
    both = {**MAIN, "rows": ["no_retrieval", "vanilla_local"]}
    run("prefrag-main", limit=1, target=target, sets=["knobs.k_local=1"], **both)
    assert len(target.requests) == 2
    with pytest.raises(UnknownName, match="Did you mean 'k_local'"):
        run("prefrag-main", sets=["knobs.k_locale=1"], **MAIN)
    with pytest.raises(RecipeError, match="concurency"):
        run("prefrag-main", sets=["concurency=1"], **MAIN)


def test_prompts_of_the_user_are_refused_and_not_left_out_in_silence(run: Run, folder: Path) -> None:
    (folder / "mine.json").write_text('[{"role": "user", "content": "{{ question }}"}]', "utf-8")
    target = ScriptedTarget(answer)
    with pytest.raises(
        UsageError, match=r"sent with the prompts of their programs, found --set prompts\.answer"
    ):
        run("prefrag-main", limit=1, target=target, sets=[f"prompts.answer={folder / 'mine.json'}"], **MAIN)
    assert not target.requests


def test_an_unknown_model_names_the_nearest(run: Run) -> None:
    with pytest.raises(UnknownName, match="Did you mean 'GPT-4o-mini'"):
        run("prefrag-main", beside="GPT-4o-min", **MAIN)


def test_a_dry_run_estimates_what_is_missing_and_sends_nothing(run: Run, tmp_path: Path) -> None:
    run("prefrag-main", limit=4, **MAIN)
    target = ScriptedTarget([])
    how: dict[str, Any] = {"data": tmp_path / "data", "out": tmp_path / "out", "targets": {"main": target}}
    planned = estimate("prefrag-main", rows=["vanilla_local", "prefrag"], data_sets=["hotpotqa"], **how)
    vanilla, prefrag = planned["cells"]
    assert (vanilla["questions"], vanilla["answered"], vanilla["lm_calls_about"]) == (10, 4, 6)
    assert prefrag["lm_calls_about"] >= 10 * 4
    assert planned["lm_calls_about"] == vanilla["lm_calls_about"] + prefrag["lm_calls_about"]
    assert target.requests == []
    sent = ScriptedTarget(answer)
    run("prefrag-main", rows=["prefrag"], data_sets=["hotpotqa"], target=sent)
    assert len(sent.requests) <= prefrag["lm_calls_about"]


def test_the_list_says_what_is_there(run: Run, tmp_path: Path) -> None:
    listed = listing(tmp_path / "data")
    by_id = {entry["id"]: entry for entry in listed["tables"]}
    main = by_id["prefrag-main"]
    assert (main["available"], main["complete"]) == (True, False)
    assert (by_id["ragx-main"]["complete"], by_id["slimplm-main"]["available"]) == (True, False)
    assert main["rows"][0]["expected"]["hotpotqa"] == {"prefrag_acc": 30.2, "f1": 38.3, "em": 29.8}
    hotpot = main["data"][0]
    assert (hotpot["id"], hotpot["available"], hotpot["licence"]) == ("hotpotqa", True, "CC BY-SA 4.0")
    assert set(hotpot["files"]) == {"questions", "corpus", "train"}
    assert any(text.startswith("bioasq: ") and "bioasq.org" in text for text in needs(listed))
    json.dumps(listed, allow_nan=False)


def test_official_files_are_read_as_they_are(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "official"
    context = [["Plum", ["A plum ", "is blue."]], ["Fern", ["A fern is green."]]]
    row: dict[str, Any] = {"_id": "a", "question": "Which colour?", "answer": "blue", "context": context}
    facts: list[Any] = [["Plum", 0]]
    row |= {"supporting_facts": facts, "type": "bridge", "level": "easy"}
    (folder / "hotpotqa").mkdir(parents=True)
    (folder / "hotpotqa/hotpot_dev_distractor_v1.json").write_text(json.dumps([row]))
    result = run("prefrag-main", data=folder, sets=["sources.web.kind=bm25"], **MAIN)
    assert result.cells[0].questions == "hotpot_dev_distractor_v1.json"
    assert result.cells[0].passages == 2
    assert result.cells[0].means["em"].mean == 1.0


def test_a_dry_run_changes_no_rows_that_another_run_may_be_writing(run: Run, tmp_path: Path) -> None:
    run("prefrag-main", limit=4, **MAIN)
    path = tmp_path / "out/vanilla_local.hotpotqa.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"id": "half')
    how: dict[str, Any] = {"data": tmp_path / "data", "out": tmp_path / "out"}
    planned = estimate("prefrag-main", targets={"main": ScriptedTarget([])}, **how, **MAIN)
    assert planned["answered"] == 4
    assert path.read_bytes() == whole + b'{"id": "half'
    run("prefrag-main", limit=5, **MAIN)
    assert path.read_bytes().startswith(whole[: whole.index(b"\n")])
    assert len(read_rows(path)) == 5
