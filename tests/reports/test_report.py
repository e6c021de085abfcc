"""Reports: what they say of studies, compiled directories and rows, and that every figure is in a row."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import tomllib
from collections.abc import Iterator
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
from ragc.core.display import dollars
from ragc.errors import ArtefactError, DataError, UsageError
from ragc.metrics import compare as compare_runs
from ragc.metrics import runs
from ragc.optimizers.search.storage import study_directory
from ragc.reports import build, page, report, study, verdicts
from ragc.reports.compiled import Measured
from ragc.testing import ScriptedTarget
from tests.optimizers.colours import Killed, begun, dying, needs_demos, written
from tests.reports.rows import BREAKOUT, HOSTILE, hostile_rows, row, two_runs
from tests.support.rows import write_rows

Lines = list[dict[str, Any]]

NO_FIGURE = re.compile(r"95%|PED-ANOVA|ragc \d+\.\d+\.\d+|data-row|\.jsonl")


class Parts(HTMLParser):
    """The elements of a page: tags by name, and texts by the `data-row` that they stand in (0 for none)."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, int, str]] = []
        self._open: list[tuple[str, int]] = [("", 0)]
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link", "input"):
            line = dict(attrs).get("data-row")
            self._open.append((tag, int(line) if line else self._open[-1][1]))

    def handle_endtag(self, tag: str) -> None:
        while self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.texts.append((*self._open[-1], data.strip()))

    def of(self, tag: str) -> list[str]:
        """The texts in the elements `tag`."""
        return [text for name, _, text in self.texts if name == tag and text]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished compile with two objectives, whose study is on this machine."""
    folder = written(tmp_path_factory.mktemp("study"))
    begun(folder)(sets=("search.trials=10", 'search.objectives=["em", "-tokens"]'))
    return folder / "out"


@pytest.fixture(scope="module")
def cut_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The --out of a compile that was killed after some trials."""
    folder = written(tmp_path_factory.mktemp("cut"))
    with pytest.raises(Killed):
        begun(folder)(target=dying(needs_demos, 70))
    return folder / "out"


def report_on(path: Path, *about: Path) -> tuple[Parts, Lines]:
    """Writes the report on `about` and returns its page and its rows."""
    ragc.report(about, out=path)
    lines = path.with_suffix(".jsonl").read_text("ascii").splitlines()
    return Parts(path.read_text("utf-8")), [json.loads(line) for line in lines]


def of_kind(lines: Lines, kind: str) -> Lines:
    return [line for line in lines if line["row"] == kind]


def figures(value: Any) -> Iterator[str]:
    """Yields how the numbers and texts in `value` may be written on a page."""
    if isinstance(value, dict | list):
        for inner in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from figures(inner)
    elif isinstance(value, int | float):
        yield from (report.amount(value), dollars(value), f"{value:.4f}", f"{value:,}")
        yield from (write(value, n) for write in (report.figure, report.signed) for n in (None, 0, 1, 3))
    else:
        yield str(value)


def check_figures(parts: Parts, lines: Lines) -> int:
    """Checks that every number of the page is in the row that its element names; returns their count."""
    shown = [
        (line, NO_FIGURE.sub("", text)) for tag, line, text in parts.texts if tag not in ("script", "style")
    ]
    pattern = re.compile(r"(?<![\w@.])[+\N{MINUS SIGN}]?\d[\d,]*(?:\.\d+)?")
    numbers = [(line, number) for line, text in shown for number in pattern.findall(text)]
    for line, number in numbers:
        assert line, f"{number} stands in no row"
        assert any(number in text for text in figures(lines[line - 1])), (number, lines[line - 1])
    return len(numbers)


def test_every_figure_of_a_study_stands_in_a_row_of_the_file(
    compiled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "MIN_TRIALS", 2)  # few of its trials are complete
    parts, lines = report_on(tmp_path / "report.html", compiled)
    assert check_figures(parts, lines) > 150
    kinds = [line["row"] for line in lines]
    assert set(kinds) == set(report.KINDS) - {"slice", "threshold", "front"}
    shown = json.loads(parts.of("script")[0])
    in_page = {one["line"]: one["row"] for one in (*shown["rows"], *shown["questions"])}
    assert [in_page[number] for number in range(1, len(lines) + 1)] == kinds
    assert parts.of("h2") == [
        "Difference by metric", "What changed", "Scores", "Cost", "Questions",
        "Differences of prompts and settings", "Search", "Provenance",
    ]  # fmt: skip


def test_a_compiled_directory_has_its_verdict_its_study_and_its_test_rows(
    compiled: Path, tmp_path: Path
) -> None:
    _, lines = report_on(tmp_path / "report.html", compiled)
    provenance = json.loads((compiled / "provenance.json").read_text("utf-8"))
    assert lines[0]["objectives"] == {"em": True, "tokens": False}
    assert lines[1]["headline"] == "Better than the baseline"
    assert lines[1]["sentences"][0].startswith("em on test: 0.280 before, 1.000 after, difference +0.720")
    stored = provenance["test"]["winner"]["f1"]
    score = {
        "run": "compiled",
        "split": "test",
        "metric": "f1",
        "mean": stored["mean"],
        "low": stored["ci"][0],
    }
    assert any(score.items() <= one.items() for one in of_kind(lines, "score"))
    trials, questions = of_kind(lines, "trial"), of_kind(lines, "question")
    assert (len(trials), len(questions)) == (11, 25)
    assert all((trial["low"] is None) == (trial["seen"] < 5) for trial in trials)
    (chosen,) = (trial for trial in trials if trial["chosen"])
    expected = provenance["search"]["expected"]["em"]["value"]
    assert chosen["expected"] == pytest.approx(expected, abs=1e-6)
    assert {one["change"] for one in questions} == {"gained", "unchanged"}
    search, call = questions[0]["runs"]["compiled"]["trace"]
    assert search["hits"][0]["title"].startswith("Thing ")
    assert questions[0]["question"] in call["sent"]["messages"][-1]["content"]


def test_a_compiled_directory_from_elsewhere_says_what_it_lacks(compiled: Path, tmp_path: Path) -> None:
    _, here = report_on(tmp_path / "here.html", compiled)
    parts, lines = report_on(tmp_path / "report.html", shutil.copytree(compiled, tmp_path / "elsewhere"))
    assert lines[1] == here[1]
    assert of_kind(lines, "setting") == of_kind(here, "setting")
    assert not of_kind(lines, "trial") + of_kind(lines, "question")
    (gap,) = lines[0]["gaps"]
    assert gap.startswith("A compiled directory holds scores, not answers")
    check_figures(parts, lines)


@pytest.mark.parametrize(
    ("file", "keys", "value", "place"),
    [
        ("provenance.json", ("test", "winner", "em", "mean"), "x", "test.winner.em.mean"),
        ("provenance.json", ("verdict",), {"a": [1]}, "verdict"),
        ("provenance.json", ("data", "test", "n"), -1, "data.test.n"),
        ("provenance.json", ("search", "candidate"), [HOSTILE], "search.candidate"),
        ("run.json", ("look", "number"), "many", "look.number"),
        ("run.json", ("sent",), [], "sent"),
    ],
)
def test_damaged_provenance_is_refused_in_a_sentence(
    file: str, keys: tuple[str, ...], value: Any, place: str, compiled: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(compiled, tmp_path / "elsewhere")
    table = content = json.loads((copy / file).read_text("utf-8"))
    for key in keys[:-1]:
        table = table[key]
    table[keys[-1]] = value
    (copy / file).write_text(json.dumps(content), "utf-8")
    with pytest.raises(ArtefactError, match=rf"elsewhere/{file} is damaged \({re.escape(place)}: ") as raised:
        ragc.report(copy, out=tmp_path / "report.html")
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "report.html").exists()


def test_a_study_that_was_cut_off_shows_what_there_is_and_says_so(cut_off: Path, tmp_path: Path) -> None:
    directory = study_directory(cut_off)
    before = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    parts, lines = report_on(tmp_path / "report.html", cut_off)
    assert {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()} == before
    questions = of_kind(lines, "question")
    assert re.match(r"Cut off: [1-5] of 6 trials$", lines[1]["headline"])
    assert lines[1]["sentences"][0].startswith("Nothing is proved before the end")
    assert lines[1]["sentences"][-1] == "Run the same `ragc compile` command with --resume to go on."
    assert (lines[0]["split"], len(questions)) == ("dev", 20)
    assert not any(answer["answered"] for one in questions for answer in one["runs"].values())
    check_figures(parts, lines)
    with FileLock(f"{directory}.lock"):
        _, lines = report_on(tmp_path / "report.html", directory)
    assert lines[1]["headline"].startswith("Still running: ")


def test_a_damaged_study_is_one_sentence(compiled: Path, tmp_path: Path) -> None:
    trials = json.loads((study_directory(compiled) / "trials.json").read_text("utf-8"))
    trials[2]["scores"][0]["em"] = "one"
    for name, content in (
        ("trials.json", b"[3"),
        ("trials.json", json.dumps(trials).encode()),
        ("provenance.json", b"\xff"),
        ("provenance.json", b'{"verdict": 3}'),
        ("test-winner.jsonl", b"{}\n"),
    ):
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        copy = shutil.copytree(study_directory(compiled), tmp_path / "copy", symlinks=True)
        (copy / name).write_bytes(content)
        if name == "trials.json":
            (copy / "study.journal").unlink()
        with pytest.raises((ArtefactError, DataError)) as raised:
            ragc.report(copy, out=tmp_path / "report.html")
        assert "\n" not in str(raised.value).strip() or isinstance(raised.value, DataError)
    assert not (tmp_path / "report.html").exists()


def test_a_study_from_elsewhere_leads_nowhere_out(compiled: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(study_directory(compiled), tmp_path / "copy", symlinks=True)
    (copy / "dev.jsonl").unlink()
    (copy / "dev.jsonl").symlink_to(write_rows(tmp_path / "secret.jsonl", [{}]))
    with pytest.raises(ArtefactError, match="leads out of the study"):
        ragc.report(copy, out=tmp_path / "report.html")


def test_two_runs_are_compared_as_ragc_eval_compares_them(tmp_path: Path) -> None:
    before, after = two_runs(tmp_path)
    parts, lines = report_on(tmp_path / "report.html", before, after)
    compared = compare_runs.compare(runs.read(before), runs.read(after), seed=0)
    theirs = {
        one.metric: (
            one.judged.result.diff,
            one.judged.low,
            one.judged.high,
            one.judged.adjusted,
            one.verdict,
        )
        for one in compared.rows
        if one.judged
    }
    names = ("mean", "low", "high", "p", "verdict")
    mine = {one["metric"]: tuple(one[name] for name in names) for one in of_kind(lines, "difference")}
    assert mine == theirs
    assert lines[0]["gaps"] == []
    assert lines[1]["headline"] == "after is better than before"
    assert lines[1]["sentences"][0].startswith(
        "f1 on 12 common questions: 0.333 for before, 0.938 for after, difference +0.604"
    )
    (counted,) = of_kind(lines, "changes")
    assert [counted[kind] for kind in ("gained", "lost", "unchanged", "only_once")] == [8, 1, 3, 0]
    groups = {(line["run"], line["group"]): line["n"] for line in of_kind(lines, "group")}
    assert groups == {
        ("before", "right"): 4, ("after", "right"): 11, ("before", "not_used"): 8, ("after", "not_used"): 0,
        ("before", "unreadable"): 0, ("after", "unreadable"): 1,
    }  # fmt: skip
    assert check_figures(parts, lines) > 40


def test_a_lower_score_is_better_where_the_metric_says_so(tmp_path: Path) -> None:
    for name, tokens in (("a", 50.0), ("b", 30.0)):
        write_rows(tmp_path / f"{name}.jsonl", [row(n, 1.0, scores={"tokens": tokens + n}) for n in range(9)])
    _, lines = report_on(tmp_path / "report.html", tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert lines[1]["headline"] == "b is better than a"
    assert {line["change"] for line in of_kind(lines, "question")} == {"gained"}


def test_one_run_has_no_verdict_and_three_have_a_column_each(tmp_path: Path) -> None:
    before, after = two_runs(tmp_path)
    _, lines = report_on(tmp_path / "one.html", after)
    assert (lines[1]["headline"], lines[1]["tone"]) == ("f1 0.938 on 12 questions", "none")
    some = write_rows(tmp_path / "sub.jsonl", [row(n, 0.5) for n in range(5)])
    _, lines = report_on(tmp_path / "three.html", before, some, before)
    assert lines[0]["runs"] == ["before", "sub", "before (2)"]
    assert lines[1]["headline"] == "before (2) is not shown to be better than before"
    assert lines[1]["sentences"][1].startswith("Not shown to be better does not mean equal")
    (gap,) = lines[0]["gaps"]
    assert gap.startswith("before (2), named last, is tested against before, named first.")


def test_rows_without_texts_say_what_is_missing(tmp_path: Path) -> None:
    bare = [{"id": f"q{n}", "prediction": "blue", "scores": {"f1": 1.0}} for n in range(3)]
    _, lines = report_on(tmp_path / "report.html", write_rows(tmp_path / "bare.jsonl", bare))
    assert [gap.split(",")[0] for gap in lines[0]["gaps"]] == [
        "The rows hold no questions",
        "The rows hold no gold answers",
    ]


@pytest.mark.parametrize(
    ("number", "seen", "sentence"),
    [
        (1, 0, "Nobody had used these test questions before."),
        (3, 40, "Test use 3 of these questions; p is multiplied by 5 for the uses before."),
    ],
)
def test_a_use_of_test_questions_is_told_in_plain_words(number: int, seen: int, sentence: str) -> None:
    run = {"look": {"number": number, "questions": 40, "seen": seen}}
    measured = Measured.of({"verdict": "better"}, run, "here")
    assert verdicts.compiled_verdict(measured, "em", [], []).sentences[-1] == sentence


def test_hostile_rows_are_data(tmp_path: Path) -> None:
    passage = f"{HOSTILE} {BREAKOUT} " * 8000
    path = write_rows(tmp_path / "rows.jsonl", hostile_rows(passage))
    parts, lines = report_on(tmp_path / "report.html", path)
    tags, attributes = [tag for tag, _ in parts.tags], [dict(attributes) for _, attributes in parts.tags]
    assert len(parts.of("script")) == tags.count("script") == 3
    assert not {"img", "iframe", "object", "base"} & set(tags)
    assert not any(name.startswith("on") for held in attributes for name in held)
    assert not any("://" in str(held.get(name)) for held in attributes for name in ("href", "src"))
    data = parts.of("script")[0]
    assert not re.search("[<>&\u2028\u2029]", data)
    repaired = passage.replace("\ud800", "\N{REPLACEMENT CHARACTER}")
    in_page, in_rows = json.loads(data)["questions"][0], of_kind(lines, "question")[0]
    for question, content in ((in_page, repaired), (in_rows, passage)):
        assert question["runs"]["rows"]["trace"][3]["sent"]["messages"][0]["content"] == content
    assert "49" not in {text for tag, _, text in parts.texts if tag != "script"}


def test_only_the_scripts_of_the_page_may_run_and_nothing_is_fetched(tmp_path: Path) -> None:
    parts, _ = report_on(tmp_path / "report.html", two_runs(tmp_path)[0])
    name = "Content-Security-Policy"
    policy = next(str(a["content"]) for _, a in parts.tags if a.get("http-equiv") == name)
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    scripts = [hashlib.sha256(script.encode()).digest() for script in parts.of("script")[1:]]
    digests = [base64.b64encode(digest).decode() for digest in scripts]
    assert rules.pop("script-src").split() == [f"'sha256-{digest}'" for digest in digests]
    assert rules == {
        "default-src": "'none'", "style-src": "'unsafe-inline'", "img-src": "data:", "base-uri": "'none'",
        "form-action": "'none'",
    }  # fmt: skip


@pytest.mark.parametrize(("limit", "size"), [("MAX_QUESTIONS", 9), ("MAX_CHARACTERS", 18_500)])
def test_of_too_many_questions_the_page_has_those_that_changed_and_says_where_all_are(
    limit: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, limit, size)
    parts, lines = report_on(tmp_path / "report.html", *two_runs(tmp_path))
    questions, shown = of_kind(lines, "question"), json.loads(parts.of("script")[0])["questions"]
    assert len(questions) == 12
    assert {one["id"] for one in shown} == {one["id"] for one in questions if one["change"] != "unchanged"}
    assert all(lines[one["line"] - 1]["id"] == one["id"] for one in shown)
    text = " ".join(parts.of("p"))
    assert "This page has 9 of 12 questions, those that changed first; has all." in re.sub(r"\s+", " ", text)


def test_a_report_that_fails_leaves_the_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [row(n, 1.0) for n in range(5)])
    ragc.report(path, out=tmp_path / "report.html")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    monkeypatch.setattr(page, "_policy", lambda scripts: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        ragc.report(path, out=tmp_path / "report.html")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_rows_of_dev_say_that_they_flatter(tmp_path: Path) -> None:
    for name, score in (("a", 0.0), ("b", 1.0)):
        write_rows(tmp_path / f"{name}.jsonl", [row(n, score, split="dev") for n in range(9)])
    _, lines = report_on(tmp_path / "report.html", tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    assert lines[0]["remarks"][0] in lines[1]["sentences"]
    assert lines[0]["remarks"][0].startswith("These are dev questions")


def test_a_recommendation_says_what_to_do(compiled: Path, tmp_path: Path) -> None:
    before, after = two_runs(tmp_path)
    same = Path(shutil.copy(before, tmp_path / "same.jsonl"))
    few = [
        write_rows(tmp_path / f"few_{name}.jsonl", [row(n, s) for n, s in enumerate(scores)])
        for name, scores in (("a", (0.0, 0.5, 1.0, 0.0)), ("b", (1.0, 0.5, 0.5, 0.5)))
    ]
    for paths, sentence in (
        (
            (compiled,),
            r"Use the compiled program: em rises by 0\.504 to 0\.876; tokens rises by [\d.]+ to [\d.]+, ",
        ),
        ((before, after), "Use after: f1 rises by "),
        ((after, before), "Keep after: with before f1 falls by "),
        ((before, same), r"Keep before: these questions show no gain by f1\.$"),
        (few, r"These questions cannot tell; keep few_a until about [\d,]+ more"),
    ):
        _, lines = report_on(tmp_path / "report.html", *paths)
        assert re.match(sentence, lines[1]["recommendation"])


def test_what_changed_stands_next_to_model_date_and_cost(compiled: Path, tmp_path: Path) -> None:
    _, lines = report_on(tmp_path / "report.html", compiled)
    changed = {line["name"]: (line["before"], line["after"]) for line in of_kind(lines, "setting")}
    program = json.loads((compiled / "program.json").read_text("utf-8"))
    assert changed["demonstrations"] == ("0", str(len(program["predictors"]["answer"]["demos"])))
    assert all(str(program["knobs"].get(name, after)) == after for name, (_, after) in changed.items())
    facts = {line["name"]: line["value"] for line in lines if line.get("section") == "summary"}
    shown = {"model": "scripted", "questions": "25 test, 20 dev, 15 train", "dollars": "$0.00"}
    assert shown.items() <= facts.items()
    assert {"date", "LM calls", "tokens", "seconds"} <= facts.keys()


def test_runs_over_other_questions_are_refused(tmp_path: Path) -> None:
    first = write_rows(tmp_path / "a.jsonl", [row(1, 1.0)])
    second = write_rows(tmp_path / "b.jsonl", [row(1, 1.0, question="Another?")])
    with pytest.raises(UsageError, match="not over the same data"):
        ragc.report([first, second], out=tmp_path / "report.html")
    write_rows(second, [row(2, 1.0)])
    _, lines = report_on(tmp_path / "report.html", first, second)
    assert lines[1]["headline"] == "Not compared"
    assert {line["change"] for line in of_kind(lines, "question")} == {"only once"}


def test_only_a_report_is_replaced(compiled: Path, tmp_path: Path) -> None:
    rows, out = two_runs(tmp_path)[0], tmp_path / "report.html"
    for _ in range(2):
        ragc.report(rows, out=out)
    (tmp_path / "letter.html").write_text("Dear reader", "utf-8")
    (tmp_path / "notes.jsonl").write_text('{"a": 1}\n', "utf-8")
    for taken in ("letter.html", "notes.html", "before.html", "rows.jsonl", ".", "after.jsonl/x.html"):
        with pytest.raises(UsageError):
            ragc.report(rows, out=tmp_path / taken)
    assert (tmp_path / "letter.html").read_text("utf-8") == "Dear reader"
    assert (tmp_path / "notes.jsonl").read_text("utf-8") == '{"a": 1}\n'
    for paths, problem in (
        ([compiled, compiled], "found 2 directories"),
        ([tmp_path / "nothing"], "No study is known"),
        ([tmp_path / "letter.html"], "rows end in"),
    ):
        with pytest.raises((UsageError, ArtefactError), match=problem):
            ragc.report(paths, out=out)


def test_the_command_says_the_verdict_and_where_the_report_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (before, after), out = two_runs(tmp_path), tmp_path / "report.html"
    assert main(["report", str(before), str(after), "--out", str(out)]) == 0
    assert re.match(rf"after is better than before\.\nReport: {out} ", capsys.readouterr().out)
    assert main(["report", str(before), "--json", "--out", str(out)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["questions"], result["shown"], result["bytes"]) == (12, 12, out.stat().st_size)
    assert main(["report", str(tmp_path / "none"), "--out", str(out)]) == 2
    assert capsys.readouterr().err.startswith("ragc: No study is known at ")


def test_the_chart_library_is_the_one_that_its_record_names() -> None:
    folder = Path(reports.__file__).parent / "templates/vendor"
    record = tomllib.loads((folder / "plot.toml").read_text("utf-8"))
    assert hashlib.sha256((folder / record["file"]).read_bytes()).hexdigest() == record["sha256"]
    licences = (folder / record["licences"]).read_text("utf-8")
    assert all(f"{name} {package['version']}" in licences for name, package in record["packages"].items())


def test_the_study_of_a_script_shows_its_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("RAGC_HOME", str(tmp_path / "home"))
    record = replace(targets.TARGETS.get("embedded"), build=lambda spec: ScriptedTarget(needs_demos))
    monkeypatch.setattr("ragc.targets.embedded.target.KIND", record)
    scripted: optuna.Study = ragc.study("recipe.toml", name="mine")
    scripted.optimize(ragc.objective("recipe.toml", name="mine"), n_trials=3)
    shown = build.build(["mine"])
    trials = shown.records["trial"]
    assert [trial.values["em"] for trial in trials] == [trial.value for trial in scripted.trials]
    assert trials[0].best == trials[0].values["em"]
    assert any("script of your own" in gap for gap in shown.gaps)
    assert shown.verdict.headline == "At rest: 2 of 2 trials"  # the first is the baseline
