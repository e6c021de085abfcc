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
ROWS = "document.querySelectorAll('#body tr.row')"
CHOOSE = (
    "const one = document.getElementById(arguments[0]); one.value = arguments[1];"
    "one.dispatchEvent(new Event('change'))"
)
MB = 1_000_000


@pytest.fixture(scope="module")
def tab() -> Iterator[Browser]:
    with browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports on a study of 30 trials, one that was cut off, one with thresholds, runs, and hostile rows."""
    folder = tmp_path_factory.mktemp("pages")
    data = written(tmp_path_factory.mktemp("study"))
    begun(data)(sets=("search.trials=30", 'search.objectives=["em", "-tokens"]'))
    study = data / "out"
    cut = written(tmp_path_factory.mktemp("cut"))
    with pytest.raises(Killed):
        begun(cut)(target=dying(needs_demos, 90))
    fitted = shutil.copytree(study, tmp_path_factory.mktemp("elsewhere") / "fitted")
    give_threshold(fitted / "provenance.json")
    before, after = two_runs(folder)
    few = [
        write_rows(folder / f"five_{name}.jsonl", read_rows(path)[:5])
        for name, path in (("a", before), ("b", after))
    ]
    passage = f"{HOSTILE} {BREAKOUT} ".ljust(1000, "x") * 1050
    hostile = write_rows(folder / "hostile.jsonl", hostile_rows(passage))
    thinking = write_rows(folder / "thinking.jsonl", [thoughtful(row(n, 1.0)) for n in (1, 2)])
    about = {
        "study": [study],
        "cut": [cut / "out"],
        "fitted": [fitted],
        "runs": [before, after],
        "five": few,
        "hostile": [hostile],
        "thinking": [thinking],
    }
    return {name: ragc.report(paths, out=folder / f"page_{name}.html").page for name, paths in about.items()}


def thoughtful(answered: dict[str, Any]) -> dict[str, Any]:
    """The row of a model that thinks: its first reply ran out of tokens, and its thoughts are hostile."""
    call = next(event for event in answered["trace"] if "call" in event)
    call |= {"repaired": True, "raised_limit": 2072}
    call["sent"] |= {"replies": ["", *call["sent"]["replies"]], "thoughts": [f"Hm. {HOSTILE}", ""]}
    return answered


def give_threshold(path: Path) -> None:
    """Adds two fitted thresholds to a provenance, one of which was left alone."""
    provenance = json.loads(path.read_text("utf-8"))
    fit = {
        "program": "ggatrieval", "knob": "tau", "metric": "em", "present": 0.3, "threshold": 0.6,
        "before": 0.5, "in_sample": 0.7, "validated": 0.66, "n": 20, "reached": 18,
    }  # fmt: skip
    left = {"program": "ggatrieval", "knob": "tau_2", "metric": "em", "left_out": "no question reached it"}
    provenance["search"]["calibration"] = [fit, left]
    path.write_text(json.dumps(provenance), "utf-8")


def violations(tab: Browser) -> list[str]:
    """What axe says is wrong with what is shown."""
    tab.run(AXE.read_text("utf-8"))
    result = tab.run_async("const done = arguments[0]; axe.run().then(done)")
    assert result["passes"], "axe checked nothing"
    return [f"{one['id']}: {node['html'][:200]}" for one in result["violations"] for node in one["nodes"][:2]]


def shown(tab: Browser, column: str) -> list[str]:
    """The texts of a column of the rows in view, by its class."""
    texts: list[str] = tab.run(f"return [...{ROWS}].map((row) => row.querySelector('.{column}').textContent)")
    return texts


def draw_all(tab: Browser) -> None:
    """Scroll through the page, so that every chart is drawn."""
    tab.run("for (const place of document.querySelectorAll('[data-chart]')) place.scrollIntoView()")
    tab.run("dispatchEvent(new Event('beforeprint'))")


def test_axe_is_the_one_that_is_meant() -> None:
    assert hashlib.sha256(AXE.read_bytes()).hexdigest() == AXE_SHA256


@pytest.mark.parametrize("name", ["study", "cut", "fitted", "runs", "five", "hostile"])
def test_a_page_opens_without_an_error_a_request_or_a_violation(
    name: str, tab: Browser, pages: dict[str, Path], tmp_path: Path
) -> None:
    tab.console(), tab.requests()
    for theme, width in WINDOWS:
        tab.see(theme=theme, width=width)
        tab.open(pages[name])
        draw_all(tab)
        assert tab.run("return document.querySelector('main').textContent").count("cannot be drawn") == 0
        assert tab.run("return document.documentElement.scrollWidth - innerWidth") <= 0
        assert violations(tab) == []
        # A megabyte of text takes axe minutes; it is shown in the same elements as other texts.
        if name != "hostile" and tab.run("return document.querySelector('button.open') !== null"):
            tab.run("document.querySelector('button.open').click()")
            tab.wait("document.getElementById('trace').open")
            tab.run("document.querySelectorAll('dialog details').forEach((one) => { one.open = true })")
            assert violations(tab) == []
    assert tab.console() == []
    assert set(tab.requests()) == {pages[name].as_uri()}


def test_charts_of_a_study_are_there_with_a_table_each(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see()
    tab.open(pages["study"])
    draw_all(tab)
    drawn = tab.run(
        "return [...document.querySelectorAll('[data-chart]:has(svg[role][aria-label])')]"
        ".map((one) => one.dataset.chart)"
    )
    assert {"scores-test", "scores-dev", "history", "front", "importance", "slice"} <= set(drawn)
    assert tab.run(
        "return [...document.querySelectorAll('#search figure:not(:has([data-chart=front]))')]"
        ".every((one) => one.querySelector('table'))"
    )
    dots = tab.run("return document.querySelectorAll('#chart-history circle').length")
    assert dots >= 31
    tab.open(pages["fitted"])
    thresholds = tab.run("return document.getElementById('thresholds').textContent")
    assert (
        "0.500 at 0.300, 0.700 at 0.600, 0.660 cross-validated; 18 of 20 questions reached it" in thresholds
    )
    assert "no question reached it" in thresholds


def test_a_study_that_was_cut_off_shows_scores_without_answers(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see()
    tab.open(pages["cut"])
    assert tab.run("return document.querySelector('h1').textContent").startswith("Cut off: ")
    tab.click("button.open")
    assert "not their answers" in tab.wait("document.getElementById('trace-body').textContent")


def test_rows_are_sorted_by_the_heads_of_their_columns(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see(height=1400)
    tab.open(pages["runs"])
    sorts = "return [...document.querySelectorAll('#heads th')].map((one) => one.getAttribute('aria-sort'))"
    assert tab.run(sorts)[0] == "ascending"
    for order in ("ascending", "descending"):
        tab.click("#heads [data-sort=after]")
        column = tab.run(
            "return [...document.querySelectorAll('#heads th')]"
            ".findIndex((th) => th.querySelector('[data-sort=after]'))"
        )
        assert tab.run(sorts)[column] == order
        assert tab.run(sorts).count("none") == len(tab.run(sorts)) - 1
        scores = tab.run(
            "return [...document.querySelectorAll('#body td.c-run:not(.c-before) .score')]"
            ".map((one) => +one.textContent)"
        )
        assert scores == sorted(scores, reverse=order == "descending")
        assert len(scores) == 12
    tab.click("#heads [data-sort=question]")
    questions = [text.lower() for text in shown(tab, "c-q")]
    assert questions == sorted(questions)


def test_rows_are_filtered_by_change_outcome_and_words(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see(height=1400)
    tab.open(pages["runs"])
    count = "document.getElementById('count').textContent"
    assert tab.run(f"return {count}") == "12 questions"
    chips = "return [...document.querySelectorAll('#changes button')].map((one) => one.textContent)"
    assert tab.run(chips) == ["all 12", "▲ gained 8", "▼ lost 1", "unchanged 3", "answers differ 9"]
    for change, n in (("gained", 8), ("lost", 1), ("unchanged", 3)):
        tab.click(f"#changes [data-change={change}]")
        assert tab.run(f"return {count}") == f"{n} of 12 questions"
        assert {text.split()[-1] for text in shown(tab, "c-change")} == {change}
        pressed = "return document.querySelector('#changes [aria-pressed=true]').dataset.change"
        assert tab.run(pressed) == tab.run("return document.activeElement.dataset.change") == change
    tab.click("#changes [data-change='']")
    tab.run(CHOOSE, "score", "part")
    assert shown(tab, "c-q") == ["What colour is thing number0?"]
    tab.click("#reset")
    assert tab.run("return document.activeElement.id") == "find"
    tab.click("button[data-group=not_used][data-run=before]")
    assert tab.run(f"return {count}") == "8 of 12 questions"
    tab.run(CHOOSE, "group", "")
    tab.run("document.getElementById('find').focus()")
    tab.press(*"NUMBER11")
    tab.wait(f"{count} === '1 of 12 questions'")
    assert shown(tab, "c-q") == ["What colour is thing number11?"]
    assert tab.run("return document.querySelector('.open mark').textContent") == "number11"
    tab.run(CHOOSE, "group", "unreadable")
    assert tab.run(f"return {count}") == "No question fits all of these filters"
    tab.click("#reset")
    assert tab.run(f"return {count}") == "12 questions"
    assert tab.run("return document.getElementById('reset').hidden")


def test_a_trace_shows_hits_prompts_replies_and_scores_against_thresholds(
    tab: Browser, pages: dict[str, Path]
) -> None:
    tab.see()
    tab.open(pages["runs"])
    tab.click("#body tr.row:nth-of-type(2) button.open")
    text = tab.wait(
        "document.getElementById('trace').open && document.getElementById('trace-body').textContent"
    )
    for part in (
        "search local: What colour is thing number1?", "2 hits", "Thing 1", "gold", "d0#1",
        "threshold tau: 0.400 against 0.500, does not pass", "choice: the first", "90 tokens in, 2 out",
        "gold passage", "holds the answer",
        "Answer the question from the passages.", "It is blue. What colour is thing number1?",
        '{"answer": "blue"}', "retrieved and not used", "right",
    ):  # fmt: skip
        assert part in text, part
    tab.click("#next")
    title = "return document.getElementById('trace-title').textContent"
    assert tab.run(title) == "What colour is thing number2?"
    assert tab.run("return document.getElementById('where').textContent") == "3 of 12"
    assert tab.run("return document.activeElement.id") == "next"
    tab.press("Right", "Right", "Left")
    assert tab.run(title) == "What colour is thing number3?"
    tab.press("Left")
    tab.click("#close")
    tab.wait("document.activeElement.textContent === 'What colour is thing number2?'")


def test_a_trace_shows_thoughts_folded(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see()
    tab.open(pages["thinking"])
    tab.click("button.open")
    text = tab.wait(
        "document.getElementById('trace').open && document.getElementById('trace-body').textContent"
    )
    assert "asked again with room for 2,072 tokens" in text
    folded = (
        "[...document.querySelectorAll('#trace-body details')]"
        ".filter(d => d.querySelector(':scope > summary').textContent.startsWith('thoughts'))"
    )
    assert tab.run(f"return {folded}.map(d => [d.open, d.querySelector('pre').textContent])") == [
        [False, f"Hm. {HOSTILE}"]
    ]
    assert tab.run("return window.pwned ?? null") is None


def test_a_link_opens_the_question_with_its_filters(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see()
    tab.open(pages["runs"])
    title, hash_ = "document.getElementById('trace-title').textContent", "return location.hash"
    tab.click("header a[href='#change=gained']")
    tab.wait("document.getElementById('count').textContent === '8 of 12 questions'")
    tab.run("document.getElementById('find').focus()")
    tab.press(*"number1")
    tab.wait("document.getElementById('count').textContent === '3 of 12 questions'")
    tab.click("#heads [data-sort=question]")
    tab.click("#body tr.row button.open")
    assert tab.wait(title) == "What colour is thing number10?"
    tab.press("Right")
    assert tab.run(f"return {title}") == "What colour is thing number11?"
    link = tab.run(hash_)
    assert link == "#find=number1&change=gained&sort=question&q=q11"
    tab.click("#link")
    assert tab.wait("document.getElementById('link').textContent !== 'Copy link'")

    tab.open(pages["five"])
    tab.open(pages["runs"], link)
    assert tab.wait(f"document.getElementById('trace').open && {title}") == "What colour is thing number11?"
    assert tab.run("return document.getElementById('where').textContent") == "2 of 3, as filtered"
    assert tab.run("return document.getElementById('find').value") == "number1"
    closed = "location.hash === '#find=number1&change=gained&sort=question'"  # written in a task of its own
    tab.press("Escape")
    tab.wait(f"!document.getElementById('trace').open && {closed}")
    tab.press("Enter")
    tab.wait("document.getElementById('trace').open")
    tab.run("history.back()")
    tab.wait(f"!document.getElementById('trace').open && {closed}")


def test_a_link_that_does_not_fit_the_report_shows_what_it_can(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see()
    for opened, link, count, missing in (
        ("runs", "#q=q99", "12 questions", True),
        ("runs", "#metric=nothing&change=no&sort=x&after=<b>&down=1&__proto__=1", "12 questions", False),
        ("runs", "#%E0%A4%A&q=%00", "12 questions", True),
        ("hostile", "#change=lost&row=2", "No question fits all of these filters", True),
    ):
        tab.open(pages["five"])
        tab.open(pages[opened], link)
        assert tab.wait("document.getElementById('count').textContent") == count
        assert tab.run("return document.getElementById('missing').hidden") is not missing, link
        assert not tab.run("return document.getElementById('trace').open")
    # A filter that hides the question of the link gives way.
    tab.open(pages["runs"], "#change=lost&q=q4")
    assert tab.wait("document.getElementById('trace').open")
    assert tab.run("return document.getElementById('where').textContent") == "5 of 12"
    tab.press("Escape")
    tab.run("location.hash = '#cost'")
    tab.wait("!document.getElementById('trace').open")
    assert tab.console() == []


def test_all_programs_stand_side_by_side_and_any_of_their_traces(tab: Browser, tmp_path: Path) -> None:
    paths = [
        write_rows(tmp_path / f"program{m}.jsonl", [row(n, float(n < m), f"blue {m}") for n in range(6)])
        for m in range(5)
    ]
    written_page = ragc.report(paths, out=tmp_path / "page.html").page
    heads = "return [...document.querySelectorAll('#heads th.c-run')].map((one) => one.textContent)"
    for theme, width in WINDOWS:
        tab.see(theme=theme, width=width)
        tab.open(written_page)
        assert tab.run(heads) == [f"program{m}" for m in range(5)]
        assert violations(tab) == []
        tab.click("#body button.open")
        assert violations(tab) == []
        tab.click("#close")
    tab.see()
    tab.run("document.getElementById('questions').scrollIntoView()")
    tab.click("#heads [data-sort=run-2]")
    tab.click("#heads [data-sort=run-2]")
    assert (
        tab.run("return document.querySelector('#body .c-run:nth-of-type(5) .score').textContent") == "1.000"
    )
    tab.click("#body button.open")
    names = "return [...document.querySelectorAll('#trace-body .side')].map((one) => one.ariaLabel)"
    assert tab.run(names) == ["Trace of program0", "Trace of program4"]
    answers = "return [...document.querySelectorAll('.card .answer')].map((one) => one.textContent)"
    assert tab.run(answers) == [f"blue {m}" for m in range(5)]
    tab.click(".card:nth-of-type(3) button")
    assert tab.run(names) == ["Trace of program0", "Trace of program2", "Trace of program4"]
    assert tab.run("return document.activeElement.getAttribute('aria-pressed')") == "true"
    tab.press("Right")
    assert len(tab.run(names)) == 3
    tab.click("#close")
    tab.run(CHOOSE, "columns", "two")
    assert tab.run(heads) == ["program0", "program4"]


def test_words_that_two_answers_do_not_share_are_marked(tab: Browser, tmp_path: Path) -> None:
    pairs: tuple[tuple[str, str, list[str], list[str]], ...] = (
        ("The sky is blue today.", "The sky was blue today.", ["is"], ["was"]),
        ("The sky is blue.", "No idea", [], []),
        ("one two three " * 200, "one two four " * 200, ["three"] * 200, ["four"] * 200),
        ("word " * 5000, "other word " * 5000, [], []),
    )
    paths = [
        write_rows(tmp_path / f"{name}.jsonl", [row(n, 1.0, text) for n, text in enumerate(texts)])
        for name, texts in (("before", [pair[0] for pair in pairs]), ("after", [pair[1] for pair in pairs]))
    ]
    tab.see()
    tab.open(ragc.report(paths, out=tmp_path / "page.html").page)
    tab.click("#body button.open")
    words = "return [...document.querySelectorAll(`.card ${arguments[0]}`)].map((one) => one.textContent)"
    for _, _, removed, added in pairs:
        assert (tab.run(words, "del"), tab.run(words, "ins")) == (removed, added)
        tab.press("Right")


def test_the_gold_answer_is_marked_where_it_stands_as_words(tab: Browser, tmp_path: Path) -> None:
    filler = "A sentence that says nothing of it. " * 40
    texts = {
        "Niels Bohr": f"{filler}It was NIELS  the Bohr, the Niels Bohrs knew. {filler}",
        "no": "no, no and no",
        "C++ (2011)": "Since c++, 2011 or so.",
    }
    rows = [row(n, 0.0, "x", answers=[gold]) for n, gold in enumerate(texts)]
    for one, text in zip(rows, texts.values(), strict=True):
        one["trace"][0]["hits"] = [{"id": "d", "title": "Hit", "text": text}]
    tab.see()
    tab.open(ragc.report(write_rows(tmp_path / "rows.jsonl", rows), out=tmp_path / "page.html").page)
    tab.click("#body button.open")
    marks = "return [...document.querySelectorAll('.hits mark')].map((one) => one.textContent)"
    holds = "return document.querySelectorAll('.hits .holds').length"
    hit = "return document.querySelector('.hits p').textContent.length"
    assert (tab.run(marks), tab.run(holds)) == (["NIELS  the Bohr"], 1)
    assert tab.run(hit) < 500
    tab.click(".hits p button")
    assert tab.run(hit) > 2000
    assert tab.run("return document.activeElement.getAttribute('aria-expanded')") == "true"
    tab.press("Right")
    assert (tab.run(marks), tab.run(holds)) == ([], 0)
    tab.press("Right")
    assert (tab.run(marks), tab.run(holds)) == (["c++, 2011"], 1)


def test_a_prompt_is_copied(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see()
    tab.open(pages["runs"])
    tab.run("document.execCommand = () => { window.copied = document.activeElement.value; return true }")
    tab.run(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: (t) => { window.copied = t }}})"
    )
    tab.click("#body button.open")
    tab.click(".call .head .copy")
    assert tab.wait("window.copied") == "Answer the question from the passages."
    assert tab.run("return document.querySelector('.call .head .copy').textContent") == "Copied"
    tab.click(".call details > .copy")
    messages = json.loads(tab.run("return window.copied"))
    assert [message["role"] for message in messages] == ["system", "user"]
    tab.run("navigator.clipboard.writeText = () => { throw new Error('not allowed') }; window.copied = ''")
    tab.click(".call .head .copy")
    assert tab.wait("window.copied") == "Answer the question from the passages."
    assert tab.run("return document.querySelectorAll('textarea').length") == 0


def test_all_rows_are_printed_or_the_trace_that_is_open(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see(theme="dark")
    tab.open(pages["runs"])
    assert tab.run(f"return {ROWS}.length") == 12
    tab.click("#body button.open")
    tab.run("dispatchEvent(new Event('beforeprint'))")
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    tab.devtools("Emulation.setEmulatedMedia", media="print", features=dark)
    visible = "return document.querySelector(arguments[0]).checkVisibility()"
    assert [tab.run(visible, one) for one in ("main", "dialog", "#printed-trace pre")] == [False, False, True]
    assert tab.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab.devtools("Emulation.setEmulatedMedia", media="")
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert tab.run("return document.getElementById('printed-trace')") is None


def test_everything_is_reached_by_keyboard(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see()
    tab.open(pages["runs"])
    focused = "return document.activeElement.textContent"
    tab.press("Tab")
    assert tab.run(focused) == "Skip to the report"
    for _ in range(60):
        tab.press("Tab")
        if tab.run("return document.activeElement.classList.contains('open')"):
            break
    assert tab.run(focused) == "What colour is thing number0?"
    tab.press("Down", "Down")
    assert tab.run(focused) == "What colour is thing number2?"
    tab.press("End")
    assert tab.run(focused) == "What colour is thing number11?"
    tab.press("Home", "Up")
    assert tab.run(focused) == "What colour is thing number0?"
    tab.press("PageDown", "PageUp", "Down", "Enter")
    tab.wait("document.getElementById('trace').open")
    assert tab.run("return document.activeElement.id") == "trace-title"
    reached = set()
    for _ in range(30):
        tab.press("Tab")
        reached.add(tab.run("return document.activeElement.id || document.activeElement.tagName"))
    assert {"next", "close", "SUMMARY"} <= reached
    tab.press("Escape")
    tab.wait("!document.getElementById('trace').open")
    tab.wait("document.activeElement.textContent === 'What colour is thing number1?'")
    tab.run("document.querySelector('#heads [data-sort=change]').focus()")
    tab.press("Enter")
    assert tab.run("return document.activeElement.dataset.sort") == "change"
    assert shown(tab, "c-change")[0] == "▼ lost"
    tab.press("/")
    assert tab.run("return document.activeElement.id") == "find"
    tab.run("document.querySelector('#body tr.row td.c-change').click()")
    tab.wait("document.getElementById('trace').open")


def test_hostile_texts_are_shown_as_they_are_and_run_nothing(tab: Browser, pages: dict[str, Path]) -> None:
    tab.console(), tab.requests()
    tab.see()
    tab.open(pages["hostile"])
    question = f"{BREAKOUT} {HOSTILE}".replace("\ud800", "\N{REPLACEMENT CHARACTER}")
    assert shown(tab, "c-q")[0] == question
    assert HOSTILE in shown(tab, "c-run")[0]
    tab.click("button.open")
    tab.wait("document.getElementById('trace').open")
    body = tab.run("return document.getElementById('trace-body').textContent")
    assert body.count(HOSTILE) > 1000
    assert tab.run(
        "return [...document.querySelectorAll('dialog pre')].some((one) => one.textContent.length > 1e6)"
    )
    for _ in range(2):
        tab.click("#next")
    assert tab.run("return document.querySelectorAll('img, iframe, dialog script, main script').length") == 0
    assert tab.run("return [typeof window.pwned, typeof Object.prototype.x]") == ["undefined"] * 2
    assert tab.console() == []
    assert set(tab.requests()) <= {page.as_uri() for page in pages.values()}


def test_a_study_of_30_trials_takes_less_than_3_mb(pages: dict[str, Path]) -> None:
    assert pages["study"].stat().st_size < 3 * MB
    lines = read_rows(pages["study"].with_suffix(".jsonl"))
    assert len([line for line in lines if line["row"] == "trial"]) == 31


def test_a_page_has_2000_questions_and_says_where_the_rest_is(tab: Browser, tmp_path: Path) -> None:
    filler = "Passages of some length stand in prompts as they are sent. " * 30
    paths = []
    for name, divisor in (("a", 3), ("b", 2)):
        rows = [row(n, float(n % divisor == 0)) for n in range(2100)]
        for one in rows:
            one["trace"][3]["sent"]["messages"][1]["content"] += f" {one['id']} {filler}"
        paths.append(write_rows(tmp_path / f"{name}.jsonl", rows))
    written_report = ragc.report(paths, out=tmp_path / "page.html")
    assert (written_report.questions, written_report.shown) == (2100, 2000)
    tab.see()
    tab.open(written_report.page)
    assert tab.run(f"return {ROWS}.length") == 2000
    gaps = tab.run("return document.querySelector('.gaps').textContent")
    assert "This page has 2,000 of 2,100 questions" in gaps
    assert tab.run("return document.querySelectorAll('#body td.unchanged').length") == 950
    focused = "return document.activeElement.textContent"
    tab.run("document.querySelector('button.open').focus({preventScroll: true})")
    for key in ("End", "Up", "Home", "PageDown"):
        tab.press(key)
        box = tab.run(
            "const place = (element) => element.getBoundingClientRect(), box = place(document.activeElement);"
            "const [head, rows] = ['heads', 'rows'].map((id) => place(document.getElementById(id)));"
            "return [head.bottom, box.top, box.bottom, rows.bottom]"
        )
        assert box == sorted(box), key
    assert tab.run(focused) != "What colour is thing number0?"
    tab.click("#heads [data-sort=change]")
    assert set(shown(tab, "c-change")[:3]) == {"▼ lost"}
    tab.click("#body tr.row button.open")
    trace = "document.getElementById('trace-body').textContent"
    for _ in range(3):
        tab.wait(f"{trace}.includes('Passages of some length stand in prompts')")
        tab.press("Right")
    assert tab.console() == []


DOTS = "[...document.querySelectorAll('#chart-history .dot')]"


def test_a_dot_says_what_its_trial_is_and_opens_its_row(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see()
    tab.open(pages["study"])
    draw_all(tab)
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert tab.run(f"return {DOTS}.length") == 31
    assert tab.run(f"return {DOTS}.filter((one) => one.tabIndex === 0).length") == 1
    tab.run("document.querySelector('#chart-history .dot[tabindex=\"0\"]').focus()")
    tip = "return document.getElementById('tip').textContent"
    assert tab.run(tip).startswith("Trial 0: em 0.400 (95% interval 0.194 to 0.632), tokens 227.0, ")
    assert "20 of 20 questions. baseline" in tab.run(tip)
    tab.press("Right")
    assert tab.run(tip).startswith("Trial 1")
    assert tab.run("return document.getElementById('tip').checkVisibility()")
    tab.press("End", "Home", "Right", "Enter")
    assert tab.run("return document.getElementById('trials').open")
    assert tab.run("return document.activeElement.id") == "trial-1"
    assert tab.run("return document.getElementById('trial-1').classList.contains('opened')")
    assert tab.run("return document.getElementById('tip').hidden")
    tab.run(f"{DOTS}.find((one) => one.dataset.trial === '7').dispatchEvent(new MouseEvent('click'))")
    assert tab.run("return document.activeElement.id") == "trial-7"
    row = "document.getElementById('trial-7')"
    box = tab.run(f"const box = {row}.getBoundingClientRect(); return [box.top, box.bottom, innerHeight]")
    assert 0 <= box[0] < box[1] <= box[2]
    assert "stopped early" not in tab.run(
        "return document.querySelector('#trials tr:not(:has(.early))').textContent"
    )
    assert violations(tab) == []


def test_trials_are_sorted_by_keyboard_and_compared_with_the_baseline(
    tab: Browser, pages: dict[str, Path]
) -> None:
    tab.see()
    tab.open(pages["study"])
    tab.run("document.getElementById('trials').open = true")
    head = "document.querySelectorAll('#trials thead th')"
    tab.run(f"{head}[2].querySelector('button').focus()")
    column = (
        "return [...document.querySelectorAll('#trials tbody tr')].map((row) => +row.cells[2].dataset.value)"
    )
    for order in ("ascending", "descending"):
        tab.press("Enter")
        assert tab.run(f"return {head}[2].getAttribute('aria-sort')") == order
        assert tab.run(f"return {head}[0].getAttribute('aria-sort')") == "none"
        assert tab.run(column) == sorted(tab.run(column), reverse=order == "descending")
    tab.run("document.querySelector('[data-compare]').click()")
    assert tab.run("return document.activeElement.id") == "right"
    number = tab.run("return document.getElementById('right').value")
    assert number == "trial " + tab.run("return document.querySelector('[data-compare]').dataset.compare")
    assert tab.run("return document.getElementById('left').value") == "trial 0"


def test_settings_and_prompts_of_any_two_programs_are_compared(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see()
    tab.open(pages["study"])
    shown_text = "return document.getElementById('differences').textContent"
    chosen = [tab.run(f"return document.getElementById('{side}').value") for side in ("left", "right")]
    assert chosen == ["run baseline", "run compiled"]
    assert "demonstrations" in tab.run(shown_text)
    inserted = "return [...document.querySelectorAll('#differences ins')].map(e => e.textContent).join()"
    assert "[assistant]" in tab.run(inserted)
    assert "Both for the question q" in tab.run(shown_text)
    hidden = tab.run("return document.querySelector('#differences .equal button').textContent")
    assert hidden.endswith(" equal lines")
    tab.click("#differences .equal button")
    assert "Answer the question from the passages" in tab.run(shown_text)
    tab.run(CHOOSE, "right", "run baseline")
    assert "are the same." in tab.run(shown_text)
    assert "Both sent the same." in tab.run(shown_text)
    tab.run(CHOOSE, "right", "trial 3")
    assert "are recorded" not in tab.run(shown_text)
    tab.open(pages["runs"])
    assert "The settings of both are not known here" in tab.run(shown_text)
    assert "Prompt of answer" in tab.run(shown_text)


def test_on_a_narrow_screen_nothing_is_cut_off(tab: Browser, pages: dict[str, Path]) -> None:
    tab.see(width=390)
    for name in ("study", "runs", "cut"):
        tab.open(pages[name])
        draw_all(tab)
        assert tab.run("return document.documentElement.scrollWidth - innerWidth") <= 0
        outside = (
            "return [...document.querySelectorAll('header table *, #scores td, #cost td, #body tr.row > *')]"
            ".filter((one) => one.checkVisibility() && !one.closest('thead'))"
            ".map((one) => [one, one.getBoundingClientRect()])"
            ".filter(([, box]) => box.right > innerWidth + 1 || box.left < 0)"
            ".map(([one]) => one.outerHTML.slice(0, 80))"
        )
        assert tab.run(outside) == []
    tab.open(pages["runs"])
    row = "document.querySelector('#body tr.row')"
    assert tab.run(f"return [...{row}.querySelectorAll('.c-run')].map((one) => one.dataset.label)") == [
        "before",
        "after",
    ]
    tab.run(f"{row}.querySelector('button.open').focus()")
    tab.press("End")
    assert tab.run("return document.activeElement.textContent") == "What colour is thing number11?"


def test_paper_has_everything_unfolded_and_a_question_in_one_block(
    tab: Browser, pages: dict[str, Path]
) -> None:
    tab.see(width=720)
    tab.open(pages["study"])
    folded = "return document.querySelectorAll('main details:not([open])').length"
    before = tab.run(folded)
    assert before > 3
    tab.run("dispatchEvent(new Event('beforeprint'))")
    tab.devtools("Emulation.setEmulatedMedia", media="print")
    assert tab.run(folded) == 0
    assert tab.run("return document.documentElement.scrollWidth - innerWidth") <= 0
    assert tab.run(f"return {ROWS}.length") == 25
    widths = tab.run(
        f"return [...{ROWS}].map((row) => row.querySelector('.c-run').getBoundingClientRect().width)"
    )
    assert min(widths) > 600
    facts = "[...document.querySelectorAll('#provenance dd')]"
    assert tab.run(f"return {facts}.filter((one) => one.checkVisibility()).length") > 20
    tab.devtools("Emulation.setEmulatedMedia", media="")
    tab.run("dispatchEvent(new Event('afterprint'))")
    assert tab.run(folded) == before
