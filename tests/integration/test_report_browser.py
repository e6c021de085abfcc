"""The page of a report in a headless Chromium: what it shows, by mouse and keyboard, and what it never runs.

`axe.min.js` is that of the npm package axe-core 4.14.1 (Mozilla Public License 2.0). It checks accessibility.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ragc
from tests.integration.browser import MISSING, Browser, browser, is_there
from tests.optimizers.colours import Killed, begun, dying, needs_demos, written
from tests.reports.rows import BREAKOUT, HOSTILE, hostile_rows, row, two_runs
from tests.support.rows import read_rows, write_rows

pytestmark = [pytest.mark.integration, pytest.mark.skipif(not is_there(), reason=MISSING)]

AXE = Path(__file__).with_name("axe.min.js")
AXE_SHA256 = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
WINDOWS = (("light", 1280), ("dark", 400))
THING = "What colour is thing number{}?"
COUNT, TITLE, WHERE = "count", "trace-title", "where"
OPEN, CLOSED = "document.getElementById('trace').open", "!document.getElementById('trace').open"
CHOOSE = (
    "const field = document.getElementById(arguments[0]); field.value = arguments[1];"
    "field.dispatchEvent(new Event('change'))"
)


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports on a study of 30 trials, one that was cut off, one with thresholds, runs, and hostile rows."""
    folder = tmp_path_factory.mktemp("pages")
    data, cut = written(tmp_path_factory.mktemp("study")), written(tmp_path_factory.mktemp("cut"))
    begun(data)(sets=("search.trials=30", 'search.objectives=["em", "-tokens"]'))
    with pytest.raises(Killed):
        begun(cut)(target=dying(needs_demos, 90))
    fitted = shutil.copytree(data / "out", tmp_path_factory.mktemp("elsewhere") / "fitted")
    give_thresholds(fitted / "provenance.json")
    runs = two_runs(folder)
    few = [write_rows(folder / f"five_{path.stem}.jsonl", read_rows(path)[:5]) for path in runs]
    hostile = hostile_rows(f"{HOSTILE} {BREAKOUT} ".ljust(1000, "x") * 1050)
    about = {
        "study": [data / "out"],
        "cut": [cut / "out"],
        "fitted": [fitted],
        "runs": runs,
        "five": few,
        "hostile": [write_rows(folder / "hostile.jsonl", hostile)],
    }
    return {name: ragc.report(paths, out=folder / f"page_{name}.html").page for name, paths in about.items()}


def give_thresholds(path: Path) -> None:
    """Adds two fitted thresholds to a provenance, one of which was left alone."""
    provenance = json.loads(path.read_text("utf-8"))
    fit = {
        "program": "ggatrieval", "knob": "tau", "metric": "em", "present": 0.3, "threshold": 0.6,
        "before": 0.5, "in_sample": 0.7, "validated": 0.66, "n": 20, "reached": 18,
    }  # fmt: skip
    left = {"program": "ggatrieval", "knob": "tau_2", "metric": "em", "left_out": "no question reached it"}
    provenance["search"]["calibration"] = [fit, left]
    path.write_text(json.dumps(provenance), "utf-8")


def see(tab: Browser, page: Path, link: str = "", **window: Any) -> None:
    """Opens a page in a window."""
    tab.see(**window)
    tab.open(page, link)


def get(tab: Browser, expression: str) -> Any:
    """Returns the value of `expression` in the page."""
    return tab.run(f"return {expression}")


def text(tab: Browser, id: str) -> str:
    """Returns the text of the element with that id."""
    return str(get(tab, f"document.getElementById('{id}').textContent"))


def texts(tab: Browser, selector: str) -> list[str]:
    """Returns the texts of all elements that `selector` names."""
    found: list[str] = get(
        tab, f"[...document.querySelectorAll({json.dumps(selector)})].map((element) => element.textContent)"
    )
    return found


def focused(tab: Browser) -> str:
    """Returns the id of the element with the focus, else its text."""
    return str(get(tab, "document.activeElement.id || document.activeElement.textContent"))


def violations(tab: Browser) -> list[str]:
    """Returns what axe says is wrong with what is shown."""
    tab.run(AXE.read_text("utf-8"))
    result = tab.run_async("const done = arguments[0]; axe.run().then(done)")
    assert result["passes"], "axe checked nothing"
    return [f"{one['id']}: {node['html'][:200]}" for one in result["violations"] for node in one["nodes"][:2]]


def draw_all(tab: Browser) -> None:
    """Scrolls through the page, so that every chart is drawn."""
    tab.run("for (const place of document.querySelectorAll('[data-chart]')) place.scrollIntoView()")
    tab.run("dispatchEvent(new Event('beforeprint'))")


def test_axe_is_the_one_that_is_meant() -> None:
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() == AXE_SHA256


@pytest.mark.parametrize("name", ["study", "cut", "fitted", "runs", "five", "hostile"])
def test_a_page_opens_without_an_error_a_request_or_a_violation(
    name: str, tab: Browser, pages: dict[str, Path]
) -> None:
    tab.console(), tab.requests()
    for theme, width in WINDOWS:
        see(tab, pages[name], theme=theme, width=width)
        draw_all(tab)
        assert "cannot be drawn" not in text(tab, "main")
        assert get(tab, "document.documentElement.scrollWidth - innerWidth") <= 0
        assert violations(tab) == []
        # A megabyte of text takes axe minutes; it is shown in the same elements as other texts.
        if name != "hostile" and get(tab, "document.querySelector('button.open') !== null"):
            tab.run("document.querySelector('button.open').click()")
            tab.wait(OPEN)
            tab.run(
                "document.querySelectorAll('dialog details').forEach((element) => { element.open = true })"
            )
            assert violations(tab) == []
    assert tab.console() == []
    assert set(tab.requests()) == {pages[name].as_uri()}


def test_charts_of_a_study_are_there_with_a_table_each(tab: Browser, pages: dict[str, Path]) -> None:
    see(tab, pages["study"])
    draw_all(tab)
    drawn = get(
        tab,
        "[...document.querySelectorAll('[data-chart]:has(svg[role][aria-label])')]"
        ".map((chart) => chart.dataset.chart)",
    )
    assert {"scores-test", "scores-dev", "history", "front", "importance", "slice"} <= set(drawn)
    assert get(tab, "document.querySelector('#search figure:not(:has([data-chart=front], table))')") is None
    assert len(texts(tab, "#chart-history circle")) >= 31
    see(tab, pages["fitted"])
    thresholds = text(tab, "thresholds")
    assert "0.500 at 0.300, 0.700 at 0.600, 0.660 cross-validated; 18 of 20 questions" in thresholds
    assert "no question reached it" in thresholds


def test_a_study_that_was_cut_off_shows_scores_without_answers(tab: Browser, pages: dict[str, Path]) -> None:
    see(tab, pages["cut"])
    assert texts(tab, "h1")[0].startswith("Cut off: ")
    tab.click("button.open")
    assert "not their answers" in text(tab, "trace-body")


def test_rows_are_sorted_by_the_heads_of_their_columns(tab: Browser, pages: dict[str, Path]) -> None:
    see(tab, pages["runs"])
    for order in ("ascending", "descending"):
        tab.click("#heads [data-sort=after]")
        sorts = get(tab, "[...document.querySelectorAll('#heads th')].map((head) => head.ariaSort)")
        assert sorts.count("none") == len(sorts) - 1
        assert get(tab, "document.querySelector('th:has([data-sort=after])').ariaSort") == order
        scores = [float(score) for score in texts(tab, "#body td.c-run:not(.c-before) .score")]
        assert scores == sorted(scores, reverse=order == "descending")
        assert len(scores) == 12
    tab.click("#heads [data-sort=question]")
    questions = texts(tab, "#body .c-q")
    assert questions == sorted(questions)


def test_trials_are_sorted_by_keyboard(tab: Browser, pages: dict[str, Path]) -> None:
    see(tab, pages["study"])
    tab.run("document.getElementById('trials').open = true")
    tab.run("document.querySelectorAll('#trials thead th')[2].querySelector('button').focus()")
    for order in ("ascending", "descending"):
        tab.press("Enter")
        assert get(tab, "document.querySelectorAll('#trials thead th')[2].ariaSort") == order
        rows = "[...document.querySelectorAll('#trials tbody tr')]"
        column = get(tab, f"{rows}.map((row) => +row.cells[2].dataset.value)")
        assert column == sorted(column, reverse=order == "descending")


def test_rows_are_filtered_by_change_outcome_and_words(tab: Browser, pages: dict[str, Path]) -> None:
    see(tab, pages["runs"])
    assert text(tab, COUNT) == "12 questions"
    chips = ["all 12", "▲ gained 8", "▼ lost 1", "unchanged 3", "answers differ 9"]
    assert texts(tab, "#changes button") == chips
    for change, n in (("gained", 8), ("lost", 1), ("unchanged", 3)):
        tab.click(f"#changes [data-change={change}]")
        assert text(tab, COUNT) == f"{n} of 12 questions"
        assert {shown.split()[-1] for shown in texts(tab, "#body .c-change")} == {change}
        assert get(tab, "document.querySelector('#changes [aria-pressed=true]').dataset.change") == change
    tab.click("#changes [data-change='']")
    tab.run(CHOOSE, "score", "part")
    assert texts(tab, "#body .c-q") == [THING.format(0)]
    tab.click("#reset")
    assert focused(tab) == "find"
    tab.click("button[data-group=not_used][data-run=before]")
    assert text(tab, COUNT) == "8 of 12 questions"
    tab.run(CHOOSE, "group", "")
    tab.run("document.getElementById('find').focus()")
    tab.press(*"NUMBER11")
    tab.wait("document.getElementById('count').textContent === '1 of 12 questions'")
    assert texts(tab, "#body .open mark") == ["number11"]
    tab.run(CHOOSE, "group", "unreadable")
    assert text(tab, COUNT) == "No question fits all of these filters"


def test_a_trace_shows_hits_prompts_replies_and_scores_against_thresholds(
    tab: Browser, pages: dict[str, Path]
) -> None:
    see(tab, pages["runs"])
    tab.click("#body tr.row:nth-of-type(2) button.open")
    body = text(tab, "trace-body")
    for part in (
        f"search local: {THING.format(1)}", "2 hits", "Thing 1", "gold", "d0#1",
        "threshold tau: 0.400 against 0.500, does not pass", "choice: the first", "90 tokens in, 2 out",
        "gold passage", "holds the answer",
        "Answer the question from the passages.", f"It is blue. {THING.format(1)}",
        '{"answer": "blue"}', "retrieved and not used", "right",
    ):  # fmt: skip
        assert part in body, part
    tab.click("#next")
    assert (text(tab, TITLE), text(tab, WHERE), focused(tab)) == (THING.format(2), "3 of 12", "next")
    tab.press("Right", "Right", "Left", "Left")
    tab.click("#close")
    tab.wait(f"document.activeElement.textContent === '{THING.format(2)}'")


def test_a_link_opens_the_question_with_its_filters(tab: Browser, pages: dict[str, Path]) -> None:
    see(tab, pages["runs"])
    tab.click("header a[href='#change=gained']")
    tab.run("document.getElementById('find').focus()")
    tab.press(*"number1")
    tab.wait("document.getElementById('count').textContent === '3 of 12 questions'")
    tab.click("#heads [data-sort=question]")
    tab.click("#body tr.row button.open")
    tab.press("Right")
    assert text(tab, TITLE) == THING.format(11)
    link = get(tab, "location.hash")
    assert link == "#find=number1&change=gained&sort=question&q=q11"
    tab.click("#link")
    assert text(tab, "link") != "Copy link"
    see(tab, pages["five"])
    see(tab, pages["runs"], link)
    tab.wait(OPEN)
    assert (text(tab, TITLE), text(tab, WHERE)) == (THING.format(11), "2 of 3, as filtered")
    closed = f"{CLOSED} && location.hash === '#find=number1&change=gained&sort=question'"
    tab.press("Escape")
    tab.wait(closed)
    tab.press("Enter")
    tab.wait(OPEN)
    tab.run("history.back()")
    tab.wait(closed)


def test_a_link_that_does_not_fit_the_report_shows_what_it_can(tab: Browser, pages: dict[str, Path]) -> None:
    for name, link, count, missing in (
        ("runs", "#q=q99", "12 questions", True),
        ("runs", "#metric=nothing&change=no&sort=x&after=<b>&down=1&__proto__=1", "12 questions", False),
        ("runs", "#%E0%A4%A&q=%00", "12 questions", True),
        ("hostile", "#change=lost&row=2", "No question fits all of these filters", True),
    ):
        see(tab, pages["five"])
        see(tab, pages[name], link)
        assert text(tab, COUNT) == count
        assert get(tab, "document.getElementById('missing').hidden") is not missing, link
        assert get(tab, CLOSED)
    # A filter that hides the question of the link gives way.
    see(tab, pages["runs"], "#change=lost&q=q4")
    tab.wait(OPEN)
    assert text(tab, WHERE) == "5 of 12"
    tab.run("location.hash = '#cost'")
    tab.wait(CLOSED)
    assert tab.console() == []


def test_all_programs_have_a_column_and_any_of_their_traces(tab: Browser, tmp_path: Path) -> None:
    paths = [
        write_rows(tmp_path / f"program{m}.jsonl", [row(n, float(n < m), f"blue {m}") for n in range(6)])
        for m in range(5)
    ]
    page = ragc.report(paths, out=tmp_path / "page.html").page
    for theme, width in reversed(WINDOWS):
        see(tab, page, theme=theme, width=width)
        assert texts(tab, "#heads th.c-run") == [f"program{m}" for m in range(5)]
        assert violations(tab) == []
        tab.click("#body button.open")
        assert violations(tab) == []
    names = "[...document.querySelectorAll('#trace-body .side')].map((side) => side.ariaLabel)"
    assert get(tab, names) == ["Trace of program0", "Trace of program4"]
    assert texts(tab, ".card .answer") == [f"blue {m}" for m in range(5)]
    tab.click(".card:nth-of-type(3) button")
    assert get(tab, names) == ["Trace of program0", "Trace of program2", "Trace of program4"]
    assert get(tab, "document.activeElement.ariaPressed") == "true"
    tab.press("Escape")
    tab.run(CHOOSE, "columns", "two")
    assert texts(tab, "#heads th.c-run") == ["program0", "program4"]


def test_words_that_two_answers_do_not_share_are_marked(tab: Browser, tmp_path: Path) -> None:
    pairs: tuple[tuple[str, str, list[str], list[str]], ...] = (
        ("The sky is blue today.", "The sky was blue today.", ["is"], ["was"]),
        ("The sky is blue.", "No idea", [], []),
        ("one two three " * 200, "one two four " * 200, ["three"] * 200, ["four"] * 200),
        ("word " * 5000, "other word " * 5000, [], []),
    )
    paths = [
        write_rows(tmp_path / f"{name}.jsonl", [row(n, 1.0, answer) for n, answer in enumerate(answers)])
        for name, answers in (("a", [pair[0] for pair in pairs]), ("b", [pair[1] for pair in pairs]))
    ]
    see(tab, ragc.report(paths, out=tmp_path / "page.html").page)
    tab.click("#body button.open")
    for _, _, removed, added in pairs:
        assert (texts(tab, ".card del"), texts(tab, ".card ins")) == (removed, added)
        tab.press("Right")


def test_the_gold_answer_is_marked_where_it_stands_as_words(tab: Browser, tmp_path: Path) -> None:
    filler = "A sentence that says nothing of it. " * 40
    hits = {
        "Niels Bohr": f"{filler}It was NIELS  the Bohr, the Niels Bohrs knew. {filler}",
        "no": "no, no and no",
        "C++ (2011)": "Since c++, 2011 or so.",
    }
    rows = [row(n, 0.0, "x", answers=[gold]) for n, gold in enumerate(hits)]
    for answered, hit in zip(rows, hits.values(), strict=True):
        answered["trace"][0]["hits"] = [{"id": "d", "title": "Hit", "text": hit}]
    see(tab, ragc.report(write_rows(tmp_path / "rows.jsonl", rows), out=tmp_path / "page.html").page)
    tab.click("#body button.open")
    assert len(texts(tab, ".hits p")[0]) < 500
    tab.click(".hits p button")
    assert len(texts(tab, ".hits p")[0]) > 2000
    assert get(tab, "document.activeElement.ariaExpanded") == "true"
    for marks in (["NIELS  the Bohr"], [], ["c++, 2011"]):
        assert texts(tab, ".hits mark") == marks
        assert len(texts(tab, ".hits .holds")) == len(marks)
        tab.press("Right")


def test_a_prompt_is_copied(tab: Browser, pages: dict[str, Path]) -> None:
    see(tab, pages["runs"])
    tab.run(
        "document.execCommand = () => { window.copied = document.activeElement.value; return true };"
        "const writeText = (text) => { window.copied = text };"
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText}})"
    )
    tab.click("#body button.open")
    tab.click(".call details > .copy")
    messages = json.loads(tab.wait("window.copied"))
    assert [message["role"] for message in messages] == ["system", "user"]


def test_everything_is_reached_by_keyboard(tab: Browser, pages: dict[str, Path]) -> None:
    see(tab, pages["runs"])
    tab.press("Tab")
    assert focused(tab) == "Skip to the report"
    presses = 0
    while focused(tab) != THING.format(0):
        tab.press("Tab")
        presses += 1
        assert presses < 60
    for keys, number in (
        (("Down", "Down"), 2),
        (("End",), 11),
        (("Home", "Up"), 0),
        (("PageDown", "PageUp"), 0),
    ):
        tab.press(*keys)
        assert focused(tab) == THING.format(number)
    tab.press("Down", "Enter")
    tab.wait(OPEN)
    reached = {focused(tab)}
    for _ in range(30):
        tab.press("Tab")
        reached.add(get(tab, "document.activeElement.id || document.activeElement.tagName"))
    assert {"trace-title", "next", "close", "SUMMARY"} <= reached
    tab.press("Escape")
    tab.wait(f"{CLOSED} && document.activeElement.textContent === '{THING.format(1)}'")
    tab.run("document.querySelector('#heads [data-sort=change]').focus()")
    tab.press("Enter")
    assert get(tab, "document.activeElement.dataset.sort") == "change"
    assert texts(tab, "#body .c-change")[0] == "▼ lost"
    tab.press("/")
    assert focused(tab) == "find"


def test_hostile_texts_are_shown_as_they_are_and_run_nothing(tab: Browser, pages: dict[str, Path]) -> None:
    tab.console(), tab.requests()
    see(tab, pages["hostile"])
    question = f"{BREAKOUT} {HOSTILE}".replace("\ud800", "\N{REPLACEMENT CHARACTER}")
    assert texts(tab, "#body .c-q")[0] == question
    assert HOSTILE in texts(tab, "#body .c-run")[0]
    tab.click("button.open")
    assert text(tab, "trace-body").count(HOSTILE) > 1000
    assert max(len(shown) for shown in texts(tab, "dialog pre")) > 1e6
    for _ in range(2):
        tab.click("#next")
    assert texts(tab, "img, iframe, dialog script, main script") == []
    assert get(tab, "[typeof window.pwned, typeof Object.prototype.x]") == ["undefined"] * 2
    assert tab.console() == []
    assert set(tab.requests()) == {pages["hostile"].as_uri()}


def test_a_page_has_2000_questions_and_says_where_the_rest_is(tab: Browser, tmp_path: Path) -> None:
    filler = "Passages of some length stand in prompts as they are sent. " * 30
    paths = []
    for name, divisor in (("a", 3), ("b", 2)):
        rows = [row(n, float(n % divisor == 0)) for n in range(2100)]
        for answered in rows:
            answered["trace"][3]["sent"]["messages"][1]["content"] += f" {answered['id']} {filler}"
        paths.append(write_rows(tmp_path / f"{name}.jsonl", rows))
    report = ragc.report(paths, out=tmp_path / "page.html")
    assert (report.questions, report.shown) == (2100, 2000)
    see(tab, report.page)
    assert "This page has 2,000 of 2,100 questions" in texts(tab, ".gaps")[0]
    assert (text(tab, COUNT), len(texts(tab, "#body tr.row"))) == ("2,000 questions", 2000)
    assert "unchanged 950" in texts(tab, "#changes button")
    tab.click("#heads [data-sort=change]")
    assert texts(tab, "#body .c-change")[0] == "▼ lost"
    tab.click("#body tr.row button.open")
    tab.press("Right")
    assert filler.strip() in text(tab, "trace-body")
    assert tab.console() == []


def test_settings_and_prompts_of_any_two_programs_are_compared(tab: Browser, pages: dict[str, Path]) -> None:
    see(tab, pages["study"])
    sides = [get(tab, f"document.getElementById('{side}').value") for side in ("left", "right")]
    assert sides == ["run baseline", "run compiled"]
    assert "demonstrations" in text(tab, "differences")
    assert "Both for the question q" in text(tab, "differences")
    assert "[assistant]" in "".join(texts(tab, "#differences ins"))
    assert texts(tab, "#differences .equal button")[0].endswith(" equal lines")
    tab.click("#differences .equal button")
    assert "Answer the question from the passages" in text(tab, "differences")
    tab.run(CHOOSE, "right", "run baseline")
    assert "are the same." in text(tab, "differences")
    assert "Both sent the same." in text(tab, "differences")
    see(tab, pages["runs"])
    assert "The settings of both are not known here" in text(tab, "differences")
    assert "Prompt of answer" in text(tab, "differences")


def test_paper_has_everything_unfolded_and_a_question_in_a_block(
    tab: Browser, pages: dict[str, Path]
) -> None:
    see(tab, pages["study"], width=720)
    folded = len(texts(tab, "main details:not([open])"))
    assert folded > 3
    tab.run("dispatchEvent(new Event('beforeprint'))")
    tab.devtools("Emulation.setEmulatedMedia", media="print")
    assert texts(tab, "main details:not([open])") == []
    assert get(tab, "document.documentElement.scrollWidth - innerWidth") <= 0
    cells = "[...document.querySelectorAll('#body tr.row .c-run')]"
    widths = get(tab, f"{cells}.map((cell) => cell.getBoundingClientRect().width)")
    assert (len(widths), min(widths) > 600) == (50, True)
    facts = "[...document.querySelectorAll('#provenance dd')]"
    assert get(tab, f"{facts}.filter((fact) => fact.checkVisibility()).length") > 20
    tab.devtools("Emulation.setEmulatedMedia", media="")
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert len(texts(tab, "main details:not([open])")) == folded
