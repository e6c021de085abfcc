"""Reports: what they say of studies, compiled directories and rows, and that every figure is in a row."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import re
import shutil
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import optuna
import pytest
from filelock import FileLock

import ragc
from ragc import reports, targets
from ragc.cli.main import main
from ragc.errors import ArtefactError, DataError, UsageError
from ragc.metrics import compare as compare_runs
from ragc.metrics import runs
from ragc.optimizers.search.storage import study_directory
from ragc.optimizers.status import open_study
from ragc.programs.trace import whole_json
from ragc.reports import build, compiled, dimensions, page, page_data, questions, values
from ragc.reports.events import read_events
from ragc.reports.report import Report, Trial, Verdict
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Killed, begun, dying, needs_demos, written
from tests.reports.rows import BREAKOUT, HOSTILE, hostile_rows, row, two_runs
from tests.support.rows import write_rows

NO_FIGURE = re.compile(r"95%|PED-ANOVA|ragc \d+\.\d+\.\d+|data-row|\.jsonl")


class Parts(HTMLParser):
    """The elements of a page: tags by name, and texts by the `data-row` that they stand in (0 for none)."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[int, str]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.h2: list[str] = []
        self._open: list[tuple[str, int]] = [("", 0)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("meta", "link", "input"):
            return
        line = dict(attrs).get("data-row")
        self._open.append((tag, int(line) if line else self._open[-1][1]))

    def handle_endtag(self, tag: str) -> None:
        while self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        tag, line = self._open[-1]
        if tag in self.raw:
            self.raw[tag].append(data)
        elif data.strip():
            self.texts.append((line, data.strip()))
            if tag == "h2":
                self.h2.append(data.strip())


def parts_of(html: str) -> Parts:
    parser = Parts()
    parser.feed(html)
    return parser


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished compile with two objectives, whose study is on this machine."""
    folder = written(tmp_path_factory.mktemp("study"))
    begun(folder)(sets=("search.trials=10", 'search.objectives=["em", "-tokens"]'))
    return folder / "out"


def written_page(path: Path, *about: Path) -> tuple[Parts, list[dict[str, Any]]]:
    ragc.report(about, out=path)
    lines = path.with_suffix(".jsonl").read_text("ascii").splitlines()
    return parts_of(path.read_text("utf-8")), [json.loads(line) for line in lines]


def figures(value: Any) -> Iterator[str]:
    """How the numbers and texts in `value` may be written on a page."""
    if isinstance(value, bool | None):
        return
    if isinstance(value, int | float):
        yield from (values.written_amount(value), values.money(value), f"{value:.4f}", f"{value:,}")
        for decimals in (None, 0, 1, 3):
            yield from (values.figure(value, decimals), values.signed(value, decimals))
    elif isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield str(name)
            yield from figures(inner)
    else:
        for inner in value:
            yield from figures(inner)


def check_figures(parts: Parts, lines: list[dict[str, Any]]) -> int:
    """Every number of the page is in the row that its element names; gives how many were checked."""
    checked = 0
    for line, text in parts.texts:
        numbers = re.findall(r"(?<![\w@.])[+\N{MINUS SIGN}]?\d[\d,]*(?:\.\d+)?", NO_FIGURE.sub("", text))
        if not numbers:
            continue
        assert line, f"{text!r} stands in no row"
        known = list(figures(lines[line - 1]))
        for number in numbers:
            assert any(number in one for one in known), f"{number} of {text!r} is not in {lines[line - 1]}"
            checked += 1
    return checked


def test_every_figure_of_a_study_stands_in_a_row_of_the_file_beside_it(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dimensions, "MIN_TRIALS", 2)  # few of its trials are complete
    parts, lines = written_page(tmp_path / "report.html", study)
    assert check_figures(parts, lines) > 150
    assert {line["row"] for line in lines} == {
        "report", "verdict", "setting", "changes", "score", "difference", "trial", "prompt", "importance",
        "cost", "budget", "group", "question", "fact",
    }  # fmt: skip
    shown = json.loads(parts.raw["script"][0])
    kinds = [one["row"] for one in shown["rows"]]
    first = shown["firstQuestion"] - 1
    kinds[first:first] = ["question"] * shown["questions"]
    assert kinds == [line["row"] for line in lines]


def test_a_compiled_directory_has_its_verdict_first_then_its_study_and_its_test_rows(
    study: Path, tmp_path: Path
) -> None:
    parts, lines = written_page(tmp_path / "report.html", study)
    provenance = json.loads((study / "provenance.json").read_text("utf-8"))
    about, verdict = lines[0], lines[1]
    assert verdict["headline"] == "Better than the baseline"
    assert verdict["sentences"][0].startswith("em on test: 0.280 before, 1.000 after, difference +0.720")
    scores = {(one["run"], one["split"], one["metric"]): one for one in lines if one["row"] == "score"}
    held = provenance["test"]["winner"]["f1"]
    assert (scores["compiled", "test", "f1"]["mean"], scores["compiled", "test", "f1"]["low"]) == (
        held["mean"],
        held["ci"][0],
    )
    assert len([one for one in lines if one["row"] == "trial"]) == 11
    assert about["objectives"] == {"em": True, "tokens": False}
    assert any(one["row"] == "trial" and one["front"] for one in lines)
    questions = [one for one in lines if one["row"] == "question"]
    assert len(questions) == 25
    assert {one["change"] for one in questions} == {"gained", "unchanged"}
    (search, call) = questions[0]["runs"]["compiled"]["trace"]
    assert search["hits"][0]["title"].startswith("Thing ")
    assert call["messages"][0]["role"] == "system"
    assert questions[0]["question"] in call["messages"][-1]["content"]
    headings = [text for tag, text in _headings(parts) if tag == "h2"]
    assert headings == [
        "Difference by metric", "What changed", "Scores", "Cost", "Questions",
        "Differences of prompts and settings", "Search", "Provenance",
    ]  # fmt: skip


def _headings(parts: Parts) -> Iterator[tuple[str, str]]:
    yield from (("h2", text) for text in parts.h2)


def test_of_the_chosen_trial_is_expected_what_its_provenance_says(study: Path, tmp_path: Path) -> None:
    _, lines = written_page(tmp_path / "report.html", study)
    (chosen,) = (line for line in lines if line.get("chosen"))
    provenance = json.loads((study / "provenance.json").read_text("utf-8"))
    assert chosen["expected"] == pytest.approx(provenance["search"]["expected"]["em"]["value"], abs=1e-6)


def test_a_compiled_directory_from_elsewhere_says_what_it_lacks(study: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(study, tmp_path / "elsewhere")
    parts, lines = written_page(tmp_path / "report.html", copy)
    assert lines[1]["headline"] == "Better than the baseline"
    assert not [one for one in lines if one["row"] in ("trial", "question")]
    (gap,) = lines[0]["gaps"]
    assert gap.startswith("A compiled directory holds scores, not answers")
    check_figures(parts, lines)


def test_rows_go_with_a_compiled_directory(study: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "mine.jsonl", [row(n, 1.0) for n in range(4)])
    _, lines = written_page(tmp_path / "report.html", study, rows)
    assert lines[0]["runs"] == ["mine"]
    assert len([one for one in lines if one["row"] == "question"]) == 4


def test_provenance_of_any_form_is_read_as_far_as_it_goes(study: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(study, tmp_path / "elsewhere")
    provenance = {
        "verdict": {"a": [1]},
        "test": {"baseline": {"em": {"mean": "x"}, "f1": 3}, "winner": [], "differences": {"em": None}},
        "dev": 7,
        "data": {HOSTILE: {"n": "many", "fingerprint": None}},
        "search": {"calibration": [3, {"points": [1, None, 2], "means": [0.1]}], "parts": "none"},
        "counters": [],
        "remarks": HOSTILE,
        "versions": {BREAKOUT: HOSTILE},
    }
    (copy / "provenance.json").write_text(json.dumps(provenance), "utf-8")
    (copy / "run.json").write_text(json.dumps({"look": {"number": "3"}, "sent": []}), "utf-8")
    parts, lines = written_page(tmp_path / "report.html", copy)
    assert not [one for one in lines if one["row"] in ("score", "difference")]
    assert len(parts.raw["script"]) == 3


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The --out of a compile that was killed after some trials."""
    folder = written(tmp_path_factory.mktemp("cut"))
    with pytest.raises(Killed):
        begun(folder)(target=dying(needs_demos, 70))
    return folder / "out"


def test_a_study_that_was_cut_off_shows_what_there_is_and_says_so(cut_off: Path, tmp_path: Path) -> None:
    directory = study_directory(cut_off)
    before = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    parts, lines = written_page(tmp_path / "report.html", cut_off)
    assert {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()} == before
    verdict = lines[1]
    assert re.match(r"Cut off: [1-5] of 6 trials$", verdict["headline"])
    assert verdict["sentences"][0].startswith("Nothing is proved before the end")
    assert verdict["sentences"][-1] == "Run the same `ragc compile` command with --resume to go on."
    questions = [one for one in lines if one["row"] == "question"]
    assert len(questions) == 20
    assert questions[0]["question"].startswith("What colour is thing")
    assert all(not answer["answered"] for one in questions for answer in one["runs"].values())
    assert lines[0]["split"] == "dev"
    check_figures(parts, lines)


def test_a_study_that_is_running_says_so(cut_off: Path, tmp_path: Path) -> None:
    with FileLock(f"{study_directory(cut_off)}.lock"):
        _, lines = written_page(tmp_path / "report.html", study_directory(cut_off))
    assert lines[1]["headline"].startswith("Still running: ")


def test_a_study_without_a_trial_has_a_report_too(tmp_path: Path) -> None:
    folder = written(tmp_path)
    with pytest.raises(Killed):
        begun(folder)(target=dying(needs_demos, 3))
    _, lines = written_page(tmp_path / "report.html", folder / "out")
    assert lines[1]["headline"] == "Cut off: 0 of 6 trials"
    assert "No trial has ended yet" in lines[1]["sentences"][1]
    assert lines[0]["gaps"]


def test_a_damaged_study_is_one_sentence(study: Path, tmp_path: Path) -> None:
    trials = json.loads((study_directory(study) / "trials.json").read_text("utf-8"))
    trials[2]["scores"][0]["em"] = "one"
    texts = json.dumps(trials).encode()
    trials[2]["scores"][0]["em"], trials[1]["values"] = 1.0, []
    for name, content in (
        ("trials.json", b"[3"),
        ("trials.json", texts),
        ("trials.json", json.dumps(trials).encode()),
        ("provenance.json", b"\xff"),
        ("test-winner.jsonl", b"{}\n"),
    ):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        copy = shutil.copytree(study_directory(study), tmp_path / "copy", symlinks=True)
        (copy / name).write_bytes(content)
        if name == "trials.json":
            (copy / "study.journal").unlink()
        with pytest.raises((ArtefactError, DataError)) as raised:
            ragc.report(copy, out=tmp_path / "report.html")
        assert "\n" not in str(raised.value).strip() or isinstance(raised.value, DataError)
    assert not (tmp_path / "report.html").exists()


def test_a_study_from_elsewhere_leads_nowhere_out(study: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(study_directory(study), tmp_path / "copy", symlinks=True)
    secret = tmp_path / "secret.jsonl"
    secret.write_text("{}\n", "utf-8")
    (copy / "dev.jsonl").unlink()
    (copy / "dev.jsonl").symlink_to(secret)
    with pytest.raises(ArtefactError, match="leads out of the study"):
        ragc.report(copy, out=tmp_path / "report.html")


def test_two_runs_are_compared_as_ragc_eval_compares_them(tmp_path: Path) -> None:
    before, after = two_runs(tmp_path)
    parts, lines = written_page(tmp_path / "report.html", before, after)
    compared = compare_runs.compare(runs.read(before), runs.read(after), seed=0)
    for mine in (line for line in lines if line["row"] == "difference"):
        theirs = next(one for one in compared.rows if one.metric == mine["metric"])
        assert theirs.judged is not None
        result = theirs.judged
        assert (mine["mean"], mine["low"], mine["high"], mine["p"]) == (
            result.result.diff, result.low, result.high, result.adjusted,
        )  # fmt: skip
        assert mine["verdict"] == theirs.verdict
    changes = [line["change"] for line in lines if line["row"] == "question"]
    assert (changes.count("gained"), changes.count("lost")) == (8, 1)
    assert lines[1]["headline"] == "after is better than before"
    assert lines[1]["sentences"][0].startswith(
        "f1 on 12 common questions: 0.333 for before, 0.938 for after, difference +0.604"
    )
    (counted,) = (line for line in lines if line["row"] == "changes")
    assert (counted["gained"], counted["lost"], counted["unchanged"], counted["only_once"]) == (8, 1, 3, 0)
    links = [tag["href"] for name, tag in parts.tags if name == "a" and "=" in (tag["href"] or "")]
    assert links == ["#change=gained", "#change=lost", "#change=unchanged"]
    assert lines[0]["gaps"] == []
    groups = {(line["run"], line["group"]): line["n"] for line in lines if line["row"] == "group"}
    assert groups == {
        ("before", "right"): 4, ("after", "right"): 11, ("before", "not_used"): 8, ("after", "not_used"): 0,
        ("before", "unreadable"): 0, ("after", "unreadable"): 1,
    }  # fmt: skip
    assert check_figures(parts, lines) > 40


def test_less_is_better_where_it_is(tmp_path: Path) -> None:
    for name, tokens in (("a", 50.0), ("b", 30.0)):
        write_rows(tmp_path / f"{name}.jsonl", [row(n, 1.0, scores={"tokens": tokens + n}) for n in range(9)])
    _, lines = written_page(tmp_path / "report.html", tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert lines[1]["headline"] == "b is better than a"
    assert {line["change"] for line in lines if line["row"] == "question"} == {"gained"}


def test_one_run_has_no_verdict_and_three_have_a_column_each(tmp_path: Path) -> None:
    before, after = two_runs(tmp_path)
    _, lines = written_page(tmp_path / "one.html", after)
    assert lines[1]["headline"] == "f1 0.938 on 12 questions"
    assert lines[1]["tone"] == "none"
    again = write_rows(tmp_path / "sub.jsonl", [row(n, 0.5) for n in range(5)])
    (tmp_path / "other").mkdir()
    same = shutil.copy(before, tmp_path / "other" / "before.jsonl")
    _, lines = written_page(tmp_path / "three.html", before, again, Path(same))
    assert lines[0]["runs"] == ["before", "sub", "before (2)"]
    assert lines[1]["headline"] == "before (2) is not shown to be better than before"
    assert lines[1]["sentences"][1].startswith("Not shown to be better does not mean equal")
    (gap,) = lines[0]["gaps"]
    assert gap.startswith("before (2), named last, is tested against before, named first.")


def test_rows_without_texts_say_what_is_missing(tmp_path: Path) -> None:
    bare = [{"id": f"q{n}", "prediction": "blue", "scores": {"f1": 1.0}} for n in range(3)]
    _, lines = written_page(tmp_path / "report.html", write_rows(tmp_path / "bare.jsonl", bare))
    assert [gap.split(",")[0] for gap in lines[0]["gaps"]] == [
        "The rows hold no questions",
        "The rows hold no gold answers",
    ]


def test_the_first_look_at_test_questions_is_said_in_plain_words() -> None:
    first = {"look": {"number": 1, "questions": 40, "seen": 0}}
    assert compiled.look_in(first) == "Nobody had used these test questions before."
    third = {"look": {"number": 3, "questions": 40, "seen": 40}}
    assert (
        compiled.look_in(third) == "Test use 3 of these questions; p is multiplied by 5 for the uses before."
    )
    assert compiled.look_in({}) == ""


def test_hostile_rows_are_data(tmp_path: Path) -> None:
    passage = f"{HOSTILE} {BREAKOUT} " * 8000
    path = write_rows(tmp_path / "rows.jsonl", hostile_rows(passage))
    parts, lines = written_page(tmp_path / "report.html", path)
    assert len(parts.raw["script"]) == sum(tag == "script" for tag, _ in parts.tags) == 6
    assert not any(name.startswith("on") for _, attributes in parts.tags for name in attributes)
    assert not any(tag in ("img", "iframe", "object", "base") for tag, _ in parts.tags)
    assert all(
        "://" not in str(value) for tag, a in parts.tags for n, value in a.items() if n in ("href", "src")
    )
    assert not any(re.search("[<>&\u2028\u2029]", text) for text in parts.raw["script"][:3])
    assert (
        passage.replace("\ud800", "\N{REPLACEMENT CHARACTER}") in json.loads(parts.raw["script"][2])["texts"]
    )
    question = next(line for line in lines if line["row"] == "question")
    assert question["runs"]["rows"]["trace"][3]["messages"][0]["content"] == passage
    kinds = [event["kind"] for event in question["runs"]["rows"]["trace"]]
    assert kinds[4:] == ["other"] * 4 + ["call", "search", "gate", "note", "other"]
    assert "49" not in {text for _, text in parts.texts}


def test_only_the_scripts_of_the_page_may_run_and_nothing_is_fetched(tmp_path: Path) -> None:
    parts, _ = written_page(tmp_path / "report.html", two_runs(tmp_path)[0])
    policy = next(
        str(a["content"]) for _, a in parts.tags if a.get("http-equiv") == "Content-Security-Policy"
    )
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    digests = [
        base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in parts.raw["script"][-2:]
    ]
    assert rules.pop("script-src").split() == [f"'sha256-{one}'" for one in digests]
    assert rules == {
        "default-src": "'none'", "style-src": "'unsafe-inline'", "img-src": "data:", "base-uri": "'none'",
        "form-action": "'none'",
    }  # fmt: skip


def test_long_texts_are_cut_where_a_page_would_be_too_large_and_whole_in_the_rows(tmp_path: Path) -> None:
    rows = [row(n, 1.0, random.Random(n).randbytes(40_000).hex()) for n in range(10)]
    report = build.build([write_rows(tmp_path / "rows.jsonl", rows)])
    lines: list[str] = []
    whole = page.render(report, rows_file="report.jsonl", put=lines.append)
    assert (whole.cut, whole.indexed, whole.detailed) == (None, 10, 10)
    again: list[str] = []
    small = page.render(report, rows_file="report.jsonl", put=again.append, limit=60_000)
    assert small.cut == 4000
    assert again == lines
    lines_of_questions = [line for line in lines if line.startswith('{"row": "question"')]
    assert str(rows[3]["prediction"]) in lines_of_questions[3]
    _, index, part, *_ = parts_of(small.html).raw["script"]
    assert len(index) + len(part) < 60_000
    texts = json.loads(zlib.decompress(base64.b64decode(part)))["texts"]
    assert [4000, len(rows[3]["prediction"])] in [[len(t[0]), t[1]] for t in texts if isinstance(t, list)]
    assert "Texts longer than 4,000 characters are shown up to there" in small.html


def test_of_too_many_questions_the_first_have_traces_and_the_page_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (page_data, page, questions):
        monkeypatch.setattr(module, "MAX_DETAILED", 5)
    path = write_rows(tmp_path / "rows.jsonl", [row(n, float(n % 2)) for n in range(12)])
    parts, lines = written_page(tmp_path / "report.html", path)
    lines_of_questions = [line for line in lines if line["row"] == "question"]
    assert [bool(one["runs"]["rows"]["trace"]) for one in lines_of_questions] == [True] * 5 + [False] * 7
    assert [one["runs"]["rows"]["group"] for one in lines_of_questions[-2:]] == ["wording", "right"]
    assert "Traces stand in this page for the first 5 questions" in " ".join(text for _, text in parts.texts)


def test_a_limit_that_holds_neither_texts_nor_traces_still_gives_a_page(tmp_path: Path) -> None:
    rows = [row(n, 1.0, random.Random(n).randbytes(2_000).hex()) for n in range(200)]
    report = build.build([write_rows(tmp_path / "rows.jsonl", rows)])
    tiny = page.render(report, rows_file="report.jsonl", limit=20_000)
    assert 0 < tiny.detailed < tiny.indexed < 200
    _, index, *held, _, _ = parts_of(tiny.html).raw["script"]
    assert len(index) + sum(map(len, held)) <= 20_000
    assert f"The table of this page has the first {tiny.indexed} of 200 questions" in re.sub(
        "<[^>]+>", "", tiny.html
    )


def test_of_many_metrics_the_first_are_compared_and_the_page_says_so(tmp_path: Path) -> None:
    names = [f"own_{n}" for n in range(60)]
    for file, shift in (("a", 0.0), ("b", 0.5)):
        rows = [row(n, 1.0, scores=dict.fromkeys(names, n % 2 * 0.5 + shift)) for n in range(6)]
        write_rows(tmp_path / f"{file}.jsonl", rows)
    _, lines = written_page(tmp_path / "report.html", tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert lines[0]["metrics"] == names[:40]
    assert len([line for line in lines if line["row"] == "difference"]) == 40
    assert lines[0]["gaps"][0].startswith("The rows have 60 metrics. The first 40 are shown and compared")
    question = next(line for line in lines if line["row"] == "question")
    assert list(question["runs"]["a"]["scores"]) == names


def test_rows_of_dev_say_that_they_flatter(tmp_path: Path) -> None:
    for name, score in (("a", 0.0), ("b", 1.0)):
        write_rows(tmp_path / f"{name}.jsonl", [row(n, score, split="dev") for n in range(9)])
    _, lines = written_page(tmp_path / "report.html", tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert any(sentence.startswith("These are dev questions") for sentence in lines[1]["sentences"])
    assert lines[0]["remarks"][0].startswith("These are dev questions")


def test_a_recommendation_says_what_to_do(study: Path, tmp_path: Path) -> None:
    _, lines = written_page(tmp_path / "study.html", study)
    assert re.fullmatch(
        r"Use the compiled program: em rises by 0.504 to 0.876; "
        r"tokens rises by \d+\.\d to \d+\.\d, which is worse\.",
        lines[1]["recommendation"],
    )
    before, after = two_runs(tmp_path)
    for paths, sentence in (
        ((before, after), "Use after: f1 rises by "),
        ((after, before), "Keep after: with before f1 falls by "),
        (
            (before, shutil.copy(before, tmp_path / "same.jsonl")),
            "Keep before: these questions show no gain by f1.",
        ),
    ):
        _, lines = written_page(tmp_path / "two.html", *map(Path, paths))
        assert lines[1]["recommendation"].startswith(sentence)
    few = [write_rows(tmp_path / f"few_{name}.jsonl", [row(n, s) for n, s in enumerate(scores)])
           for name, scores in (("a", (0.0, 0.5, 1.0, 0.0)), ("b", (1.0, 0.5, 0.5, 0.5)))]  # fmt: skip
    _, lines = written_page(tmp_path / "few.html", *few)
    assert re.match(
        r"These questions cannot tell; keep few_a until about [\d,]+ more", lines[1]["recommendation"]
    )


def test_what_changed_stands_beside_model_date_and_cost(study: Path, tmp_path: Path) -> None:
    _, lines = written_page(tmp_path / "report.html", study)
    changed = {line["name"]: (line["before"], line["after"]) for line in lines if line["row"] == "setting"}
    program = json.loads((study / "program.json").read_text("utf-8"))
    shown = len(program["predictors"]["answer"]["demos"])
    assert changed["demonstrations"] == ("0", str(shown))
    assert all(
        str(program["knobs"][name]) == after
        for name, (_, after) in changed.items()
        if name in program["knobs"]
    )
    facts = {line["name"]: line["value"] for line in lines if line.get("section") == "summary"}
    assert facts["model"] == "scripted"
    assert facts["questions"] == "25 test, 20 dev, 15 train"
    assert facts["dollars"] == "$0.00"
    assert {"date", "LM calls", "tokens", "seconds"} <= facts.keys()
    _, elsewhere = written_page(tmp_path / "copy.html", shutil.copytree(study, tmp_path / "elsewhere"))
    assert {
        line["name"]: (line["before"], line["after"]) for line in elsewhere if line["row"] == "setting"
    } == changed


def test_prompts_of_both_programs_are_for_the_same_question(study: Path, tmp_path: Path) -> None:
    _, lines = written_page(tmp_path / "report.html", study)
    one, other = (line for line in lines if line["row"] == "prompt")
    assert (one["run"], other["run"], one["predictor"], other["predictor"]) == (
        "baseline",
        "compiled",
        "answer",
        "answer",
    )
    assert one["question"] == other["question"]
    assert len(one["messages"]) < len(other["messages"])


def test_trials_have_intervals_where_they_saw_enough(study: Path, tmp_path: Path) -> None:
    _, lines = written_page(tmp_path / "report.html", study)
    for trial in (line for line in lines if line["row"] == "trial"):
        assert (trial["low"] is None) == (trial["seen"] < 5)
        assert trial["low"] is None or trial["low"] <= trial["values"]["em"] <= trial["high"]


def test_of_too_many_trials_the_baseline_the_front_and_the_latest_are_shown(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, whole = written_page(tmp_path / "whole.html", study)
    marked = {
        line["number"] for line in whole if line["row"] == "trial" and (line["chosen"] or line["front"])
    }
    most = len(marked | {0}) + 2
    monkeypatch.setattr(build, "MAX_TRIALS", most)
    _, lines = written_page(tmp_path / "report.html", study)
    numbers = [line["number"] for line in lines if line["row"] == "trial"]
    assert numbers == sorted(numbers)
    assert len(numbers) == most
    assert marked | {0} <= set(numbers)
    assert lines[0]["gaps"] == []
    assert lines[0]["search_gaps"] == [
        f"Of 11 trials the baseline, the front and the latest are shown, {most} in all."
    ]


def test_what_the_search_lacks_is_said_where_the_search_is_shown(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dimensions, "MIN_TRIALS", 99)
    report = ragc.report([study], out=tmp_path / "report.html")
    assert any(line.startswith("Importances need 99 complete trials") for line in report.text())
    before, _, after = report.page.read_text("utf-8").partition('<section id="search"')
    assert "Importances need 99" not in before.partition("<main")[2]
    assert "Importances need 99" in after.partition("<section")[0]


@pytest.mark.parametrize(
    ("held", "written"),
    [
        ((0.5, -0.25), ("0.500", "\N{MINUS SIGN}0.250")),
        ((419.7, 36.583), ("419.7", "+36.6")),
        ((123456.0, -3.2), ("123,456", "\N{MINUS SIGN}3")),
        ((0.00042, -0.0000012), ("0.000420", "\N{MINUS SIGN}0.000001")),
        ((0.5, -0.0001), ("0.500", "0.000")),
    ],
)
def test_all_figures_of_a_metric_have_the_same_decimals(
    held: tuple[float, float], written: tuple[str, str]
) -> None:
    decimals = values.decimals_of(held)
    assert (values.figure(held[0], decimals), values.signed(held[1], decimals)) == written


def test_dollars_have_significant_digits() -> None:
    shown = [values.money(usd) for usd in (0, 0.00004213, 0.0123, 0.5, 12.345, 1234.5)]
    assert shown == ["$0.00", "$0.000042", "$0.012", "$0.50", "$12.35", "$1,234.50"]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "no question in it"),
        (b"{", "not a JSON object"),
        (b'{"id": "a", "scores": {"f1": NaN}}', "finite number"),
        (b'{"id": "a", "scores": {}}\n' * 2, "used twice"),
        (b"[" * 100_000, "not a JSON object"),
        (b"\xff\xfe", "cannot be read as UTF-8"),
    ],
)
def test_damaged_rows_are_named(content: bytes, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=problem):
        ragc.report(path, out=tmp_path / "report.html")
    assert sorted(tmp_path.iterdir()) == [path]


def test_runs_over_other_questions_are_refused(tmp_path: Path) -> None:
    one = write_rows(tmp_path / "a.jsonl", [row(1, 1.0)])
    other = write_rows(tmp_path / "b.jsonl", [row(1, 1.0, question="Another?")])
    with pytest.raises(UsageError, match="not over the same data"):
        ragc.report([one, other], out=tmp_path / "report.html")


def test_runs_without_a_common_question_stand_beside_each_other(tmp_path: Path) -> None:
    one = write_rows(tmp_path / "a.jsonl", [row(1, 1.0)])
    other = write_rows(tmp_path / "b.jsonl", [row(2, 1.0)])
    _, lines = written_page(tmp_path / "report.html", one, other)
    assert lines[1]["headline"] == "Not compared"
    assert {line["change"] for line in lines if line["row"] == "question"} == {"only once"}


def test_only_a_report_is_replaced(study: Path, tmp_path: Path) -> None:
    rows = two_runs(tmp_path)[0]
    out = tmp_path / "report.html"
    for _ in range(2):
        ragc.report(rows, out=out)
    (tmp_path / "letter.html").write_text("Dear reader", "utf-8")
    (tmp_path / "notes.jsonl").write_text('{"a": 1}\n', "utf-8")
    for taken in ("letter.html", "notes.html", "before.html", "rows.jsonl", ".", "after.jsonl/x.html"):
        with pytest.raises(UsageError):
            ragc.report(rows, out=tmp_path / taken)
    assert (tmp_path / "letter.html").read_text("utf-8") == "Dear reader"
    assert (tmp_path / "notes.jsonl").read_text("utf-8") == '{"a": 1}\n'
    with pytest.raises(UsageError, match="found 2 directories"):
        ragc.report([study, study], out=out)
    with pytest.raises(ArtefactError, match="No study is known"):
        ragc.report(tmp_path / "nothing", out=out)
    with pytest.raises(UsageError, match="rows end in"):
        ragc.report(tmp_path / "letter.html", out=out)


def test_the_command_says_the_verdict_and_where_the_report_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = two_runs(tmp_path)
    out = tmp_path / "report.html"
    assert main(["report", str(before), str(after), "--out", str(out)]) == 0
    shown = capsys.readouterr().out.split("\n")
    assert shown[0] == "after is better than before."
    assert any(str(out) in line for line in shown)
    assert main(["report", str(before), "--json", "--out", str(out)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["questions"] == 12
    assert result["bytes"] == out.stat().st_size
    assert main(["report", str(tmp_path / "none"), "--out", str(out)]) == 2
    assert capsys.readouterr().err.startswith("ragc: No study is known at ")


def test_importances_name_what_decides_and_keep_silent_on_few_trials() -> None:
    trials = [
        Trial(
            number=n,
            choices="",
            values={"em": float(n % 2) + n / 1000},
            seen=9,
            of=9,
            complete=True,
            params={"deciding": n % 2 == 1, "idle": "same", "noise": n % 3},
        )
        for n in range(24)
    ]
    from ragc.reports.dimensions import importances, slices

    ranked = importances(trials, "em", more_is_better=True)
    assert ranked[0].dimension == "deciding"
    assert {one.dimension for one in ranked} == {"deciding", "noise"}
    assert sum(one.share for one in ranked) == pytest.approx(1)
    assert importances(trials[:7], "em", more_is_better=True) == ()
    by_value = {
        one.value: one for one in slices(trials, "em", more_is_better=True) if one.dimension == "deciding"
    }
    assert by_value["True"].trials == 12
    assert by_value["True"].best == pytest.approx(1.023)
    assert list(slices(trials[:4], "em", more_is_better=True)) == []


def test_a_report_of_nothing_but_a_verdict_is_a_page() -> None:
    empty = Report("none", "rows", Verdict("Nothing"), questions.QuestionTable())
    assert "<h1" in page.render(empty, rows_file="none.jsonl").html


def test_the_chart_library_is_the_one_that_its_record_names() -> None:
    folder = Path(reports.__file__).parent / "templates/vendor"
    record = tomllib.loads((folder / "plot.toml").read_text("utf-8"))
    assert hashlib.sha256((folder / record["file"]).read_bytes()).hexdigest() == record["sha256"]
    licences = (folder / record["licences"]).read_text("utf-8")
    assert all(f"{name} {held['version']}" in licences for name, held in record["packages"].items())


def test_rows_hold_prompts_and_replies_as_they_were_sent() -> None:
    target = ScriptedTarget(["{} {}", {"answer": "blue"}, "{} {}", "{}"])
    source = ragc.source("bm25", corpus=[{"id": "d", "text": "Thing number1 is blue."}], store=False)
    program = ragc.program("vanilla", main=target, local=source, store=False)
    prediction = program(question="What colour is thing number1?")
    sent = prediction.trace[-1].sent
    assert [list(message) for message in target.requests[0].messages] == [list(one) for one in sent.messages]
    assert sent.replies == ("{} {}", '{"answer": "blue"}')
    with pytest.raises(ragc.ParseFailure) as raised:
        program(question="What colour is thing number2?")
    unread = raised.value.events[-1].sent
    assert unread is not None
    assert unread.replies == ("{} {}", "{}")
    assert list(unread.messages[-1]) == list(target.requests[2].messages[-1])


def test_the_study_of_a_script_of_ones_own_shows_its_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = written(tmp_path)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    record = replace(targets.TARGETS.get("embedded"), build=lambda spec: ScriptedTarget(needs_demos))
    monkeypatch.setattr("ragc.targets.embedded.target.KIND", record)
    scripted = ragc.study("recipe.toml", name="mine")
    scripted.optimize(ragc.objective("recipe.toml", name="mine"), n_trials=3)
    _, lines = written_page(tmp_path / "report.html", Path("mine"))
    trials = [line for line in lines if line["row"] == "trial"]
    assert [trial["values"]["em"] for trial in trials] == [trial.value for trial in scripted.trials]
    assert trials[0]["best"] == trials[0]["values"]["em"]
    assert any("script of your own" in gap for gap in lines[0]["gaps"])


@pytest.mark.parametrize("fewest", [8, 11])
def test_importances_are_those_of_optuna_and_withheld_below_a_number_of_complete_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fewest: int
) -> None:
    monkeypatch.setattr(dimensions, "MIN_TRIALS", fewest)
    folder = written(tmp_path)
    sets = ("search.trials=9", 'search.knobs=["top_k", "query_pos"]', "search.demos=0")
    begun(folder)(sets=sets, target=ScriptedTarget(needs_demos))
    own = open_study(study_directory(folder / "out"))
    assert own is not None
    report = build.build([folder / "out"])
    complete = sum(trial.complete for trial in report.trials)
    assert complete == 10
    if fewest == 8:
        expected = optuna.importance.get_param_importances(own)
        assert {f"knob.{one.dimension}": one.share for one in report.importances} == pytest.approx(expected)
    else:
        assert report.importances == ()
        assert report.search_gaps == ("Importances need 11 complete trials or more, and there are 10.",)
        assert report.gaps == ()


def test_thoughts_stand_in_rows_and_in_the_report() -> None:
    target = ScriptedTarget(['<think>Let me see.</think>{"answer": "blue"}'])
    source = ragc.source("bm25", corpus=[{"id": "d", "text": "Thing number1 is blue."}], store=False)
    prediction = ragc.program("vanilla", main=target, local=source, store=False)(question="What colour?")
    written = [whole_json(event) for event in prediction.trace]
    assert written[-1]["sent"]["thoughts"] == ["Let me see."]
    shown = read_events(written)[-1]
    assert (shown["thoughts"], shown["replies"]) == (["Let me see."], ['{"answer": "blue"}'])
    assert prediction.counters["thinking_tokens"] == 3
