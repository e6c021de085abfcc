"""What a user finds: kinds, names in Python, files, variables of the environment, exit codes and extras."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import dspy
import pytest

from ragc.testing import FailingSource
from tests import processes
from tests.laws.conftest import Make
from tests.laws.features import FEATURES
from tests.laws.test_features import Unbroken
from tests.laws.world import ACCOUNT, HOME_FOLDER, KEYS, World, make_world
from tests.paths import ROOT
from tests.programs.telemetry.otlp_server import collecting
from tests.support import names
from tests.support.names import ListSource, SchemaReplies, ScriptedTarget, ragc
from tests.support.priced_provider import PricedProvider
from tests.support.rows import read_rows, write_rows

BY_NAME = {feature.name: feature for feature in FEATURES}
KNOBS = BY_NAME["knobs"]
QUESTION = "What colour is thing number3?"

KINDS = {
    "programs": """prefrag ragx ggatrieval rqrag slimplm no_retrieval vanilla cot vanilla_sources react
        self_ask iter_retgen rankgpt llatrieval skr self_eval crag selfrag flare chain_of_note meta_crag""",
    "sources": "bm25 given dense hybrid web recorded api lucene",
    "rerankers": "bm25 embed cross",
    "embedders": "minilm onnx sentence-transformers",
    "targets": "embedded vllm hosted",
    "datasets": """jsonl hf:ORG/NAME pybuiltins pydocs hotpotqa 2wikimultihopqa musique bioasq nq triviaqa
        popqa arc_challenge openbookqa asqa qampari eli5 crag kilt kilt_eli5 beir autorag ragas""",
    "exports": """jinja2 openai-json openai-batch prompty dotprompt promptfoo langchain llamaindex haystack
        baml mlflow python""",
    "metrics": """em f1 acc hotpot_em hotpot_f1 rqrag_f1 prefrag_acc bioasq_acc choice_acc popqa_match
        slim_em hit1 judge_acc faithfulness answer_relevancy context_precision
        context_recall answer_correctness crag_acc crag_halluc crag_miss crag_score
        alce_str_em alce_str_hit qampari_prec qampari_rec qampari_rec_5 qampari_f1
        qampari_f1_5 alce_claim_recall alce_cite_recall alce_cite_precision
        alce_cite_f1 bioasq_list_f bioasq_list_p bioasq_list_r bioasq_mrr bioasq_sacc
        bioasq_lacc bioasq_macro_f1 rouge1 rouge2 rougeL rougeLsum recall@k
        precision@k ndcg@k mrr sp_em sp_f1 sp_precision sp_recall upper_bound@metric
        lm_calls tokens usd latency searches used used_local lm_calls@role tokens@role
        searches@source""",
}
"""The ids of each kind."""

EXTRAS = """embedded lucene dense vllm train documents hub parquet web exports metrics nli api otel serve mcp
    ray dev"""
"""All extras of the package."""
NAMED = set(EXTRAS.split()) - {"exports", "otel", "dev"}
"""Those that the doctor names where their libraries are missing."""

ERRORS = """ArtefactError BudgetExhausted CapabilityMissing DataError NothingAnswered ParseFailure RagcError
    RecipeError SourceError StoreError TargetError TargetUnavailable UnknownName Untrusted UsageError"""
RESULTS = """Check Compile Compiled CompiledProgram Evaluation Exported Gate Grid Headroom Hit Interval
    NewProject Objective Packed Passage Progress Pulled Question RagProgram Recipe
    Reproduction Row RowsSummary RunComparison Source StudyStatus Target Trained
    TrainingData TrustListing WrittenReport"""
"""The public classes of ragc that are no errors."""


BLUE = ListSource([ragc.Passage("p", "Blue", "Blue.")])


def ask_scripted(source: Any) -> Any:
    """What `vanilla` answers on a scripted target."""
    program = ragc.program("vanilla", main=ScriptedTarget(SchemaReplies(text="blue")), local=source)
    return program(question=QUESTION)


class Colour(dspy.Module):
    """A program with a knob of each kind."""

    wide = ragc.number(2, 1, 6, "passages")
    calm = ragc.switch(True, "whether")
    tone = ragc.choice("plain", ["plain", "odd"], "how")

    def __init__(self) -> None:
        super().__init__()
        self.answer = dspy.Predict("question -> answer")

    def forward(self, question: str) -> Any:
        return self.answer(question=question)


TEACHER = """targets.teacher={kind="vllm", model="m", base_url="http://127.0.0.1:9/v1"}"""
USES: dict[str, Callable[[], Any]] = {
    "ask": lambda: ragc.ask("out", QUESTION).prediction,
    "check_export": lambda: (
        ragc.export("out", "python", "checked.py"),
        ragc.check_export("out", "checked.py"),
    ),
    "choice": lambda: ragc.program(Colour(), main=ScriptedTarget([])),
    "compare": lambda: ragc.compare("rows.jsonl", "rows.jsonl"),
    "compile": lambda: ragc.compile("recipe.toml", dry_run=True),
    "evaluate": lambda: ragc.evaluate("out", split="dev").metrics["em"],
    "examine": ragc.examine,
    "export": lambda: ragc.export("out", "jinja2", "prompt.jinja.json"),
    "gate": lambda: ragc.gate("rows.jsonl", "rows.jsonl"),
    "grid": lambda: ragc.grid("recipe.toml", sets=["grid.sample=2"], dry_run=True),
    "headroom": lambda: ragc.headroom("recipe.toml", dry_run=True),
    "index": lambda: ragc.index("recipe.toml"),
    "label_answers": lambda: ragc.label_answers("rows.jsonl", lambda row: "correct", out="labels.jsonl"),
    "list_names": lambda: ragc.list_names("sources"),
    "load": lambda: ragc.load("out")(question=QUESTION).prediction,
    "metrics": lambda: ragc.metrics.score("em", "Red.", ["red"]),
    "new": lambda: ragc.new("texts", questions=False),
    "objective": lambda: ragc.objective("recipe.toml"),
    "pack": lambda: ragc.pack("out", out="packed.ragc"),
    "paper_tables": ragc.paper_tables,
    "program": lambda: ask_scripted(BLUE).answer,
    "pull": lambda: [ragc.pull("recipe.toml")],
    "read_grid": lambda: (
        ragc.grid("recipe.toml", sets=["grid.sample=2"], out="grid"),
        ragc.read_grid("grid"),
    ),
    "recipe_schema": ragc.recipe_schema,
    "report": lambda: ragc.report("out", out="page.html"),
    "review_questions": lambda: ragc.review_questions("questions.jsonl", lambda question: None),
    "source": lambda: names.run_on_loop(ragc.source("bm25", corpus=["Blue."]).search("blue", 1)),
    "study": lambda: ragc.study("recipe.toml"),
    "study_status": lambda: ragc.study_status("out"),
    "summarize": lambda: ragc.summarize("rows.jsonl"),
    "target": lambda: ragc.target("vllm", model="m", base_url="http://127.0.0.1:9/v1"),
    "training_data": lambda: ragc.training_data(
        "rqrag-sft", "recipe.toml", sets=['program="rqrag"', TEACHER, "search.knobs=[]"], dry_run=True
    ),
    "trust": lambda: ragc.trust("out", base="."),
    "trust_listing": lambda: ragc.trust_listing("out"),
    "write_beir": lambda: ragc.write_beir("recipe.toml", "beir"),
}
"""Public functions, each with a use in the folder of a world that compiled `out`."""
REFUSED: dict[str, Callable[[], Any]] = {
    "mcp": lambda: ragc.mcp("out", port=99999),
    "reproduce": lambda: ragc.reproduce("prefrag-main", data="nowhere", dry_run=True),
    "serve": lambda: ragc.serve("out", workers=0),
    "train": lambda: ragc.train("nowhere.toml", out="tuned"),
    "write_base": lambda: ragc.write_base("nowhere", out="tuned"),
}
"""Those that need data of a paper, a server or an extra, each refused in a sentence."""


@pytest.fixture(scope="module")
def compiled_world(provider: PricedProvider, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The world of a compile, with rows of dev in `rows.jsonl` and a text."""
    world = make_world(tmp_path_factory.mktemp("surface"), KNOBS, provider)
    assert world.compile().status == 0
    assert world.run("eval", "out", "--split", "dev", "--out", "rows.jsonl").status == 0
    (world.folder / "texts").mkdir()
    (world.folder / "texts/pots.md").write_text("# Pots\n\nThe red pot holds two litres of soup.\n", "utf-8")
    return world


@pytest.fixture
def compiled(compiled_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """`compiled_world` as this process's folder and home."""
    world = compiled_world
    world.provider.accounts[ACCOUNT] = world.account
    monkeypatch.chdir(world.folder)
    monkeypatch.setenv(names.HOME, str(world.folder / HOME_FOLDER))
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    return world


# Names


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_listed(kind: str) -> None:
    assert set(KINDS[kind].split()) <= {row["id"] for row in ragc.list_names(kind)}


def test_every_public_name_is_there() -> None:
    functions = {*USES, *REFUSED, "number", "switch"}
    assert functions | {*ERRORS.split(), *RESULTS.split()} <= {*ragc.__all__, "metrics"}
    assert all(issubclass(getattr(ragc, name), ragc.RagcError) for name in ERRORS.split())


@pytest.mark.parametrize("name", USES)
@pytest.mark.usefixtures("compiled")
def test_every_public_function_gives_something(name: str) -> None:
    assert USES[name]() is not None


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.usefixtures("compiled")
def test_what_cannot_be_done_is_refused_in_python_too(name: str) -> None:
    with pytest.raises(ragc.RagcError):
        REFUSED[name]()


def test_a_source_that_fails_is_named_in_the_trace() -> None:
    assert "fail" in str(ask_scripted(FailingSource()).trace)


def test_packages_add_to_each_group_and_a_list_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "strange-1.2.dist-info"
    info.mkdir()
    groups = ("sources", "rerankers", "embedders", "targets", "metrics", "exports")
    entries = "\n".join(f"[ragc.{group}]\nodd_{group} = nowhere:KIND" for group in groups)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.2\n", "utf-8")
    (info / "entry_points.txt").write_text(entries, "utf-8")
    listing = f"import ragc, json; print(json.dumps([ragc.list_names(kind) for kind in {groups}]))"
    path = f"{tmp_path}:{processes.PATH}"
    process = processes.start(["-c", listing], cwd=tmp_path, environment={"PYTHONPATH": path})
    out, _ = process.communicate(timeout=60)
    for group, rows in zip(groups, json.loads(out), strict=True):
        assert "strange 1.2" in {row["id"]: row.get("about") for row in rows}[f"odd_{group}"]


def test_every_extra_is_one_of_the_package_and_named_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert set(EXTRAS.split()) <= project["optional-dependencies"].keys()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
    assert names.main(["doctor", "--json"]) == 1
    out = capsys.readouterr().out
    assert {extra for extra in EXTRAS.split() if f"ragc[{extra}]" in out} == NAMED


# Files


def test_a_compiled_program_its_study_and_its_exports_are_the_files_that_are_known(compiled: World) -> None:
    files = {names.PROGRAM, names.PROVENANCE, names.RECIPE, names.RUN, f"{names.PROMPTS}/answer.md"}
    assert files == {*compiled.written(), names.RUN}
    assert compiled.best()
    assert compiled.run("export", "out", "--to", "all", "--out", "exported").status == 0
    exported = {path.name for path in (compiled.folder / "exported").rglob("*")}
    formats = set(KINDS["exports"].split()) - {"openai-batch"}
    assert {name.partition(".")[0] for name in exported} >= formats | {"README", "graph"}


def test_an_export_is_a_prompt_of_a_recipe(compiled: World) -> None:
    exported = "prompts.answer=asked.jinja.json"
    assert compiled.run("export", "out", "--to", "jinja2", "--out", "asked.jinja.json").status == 0
    for words in (("compile", "recipe.toml", names.DRY_RUN), ("ask", "recipe.toml", QUESTION)):
        assert compiled.run(*words, "--set", exported).status == 0


def test_a_front_and_the_modules_of_a_program_are_in_its_folder(unbroken: Unbroken) -> None:
    assert f"{names.FRONT}/1/{names.PROGRAM}" in unbroken(BY_NAME["front"]).written()
    assert "mine.py" in " ".join(unbroken(BY_NAME["own program"]).written())


def test_a_pack_of_the_same_program_has_the_same_bytes(compiled: World) -> None:
    for out in ("first.ragc", "second.ragc"):
        assert compiled.run("pack", "out", "--out", out).status == 0
    first, second = (compiled.folder / out for out in ("first.ragc", "second.ragc"))
    assert first.read_bytes() == second.read_bytes()


def test_all_texts_and_tables_of_a_folder_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(names.HOME, str(tmp_path / "home"))
    Path("texts").mkdir()
    page = "<html><body><h1>Pots</h1><p>The iron pot weighs nine kilograms.</p></body></html>"
    texts = dict.fromkeys(("md", "markdown", "txt", "text", "rst"), "The red pot holds two litres of soup.\n")
    texts |= dict.fromkeys(("html", "htm", "xhtml"), page)
    texts |= {"csv": "name,weight\nred pan,3\n", "tsv": "name\tweight\nred pan\t3\n"}
    for suffix, text in texts.items():
        Path(f"texts/of_{suffix}.{suffix}").write_text(text, "utf-8")
    assert names.main(["new", "texts", "--no-questions", "--out", "made"]) == 0
    corpus = json.dumps(read_rows(Path("made/corpus.jsonl")))
    assert [suffix for suffix in texts if f"of_{suffix}.{suffix}" not in corpus] == []


MACROS = {
    "docm": ("wordprocessingml.document.main", "ms-word.document.macroEnabled.main"),
    "pptm": ("presentationml.presentation.main", "ms-powerpoint.presentation.macroEnabled.main"),
    "xlsm": ("spreadsheetml.sheet.main", "ms-excel.sheet.macroEnabled.main"),
}
"""Types of the main part of a package of Office, without and with macros."""
SHEET = "application/vnd.oasis.opendocument.spreadsheet"
MANIFEST = f"""<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">
<manifest:file-entry manifest:full-path="/" manifest:media-type="{SHEET}"/></manifest:manifest>"""
CELLS = """<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" office:version="1.2"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet>
<table:table table:name="Pots"><table:table-row><table:table-cell office:value-type="string">
<text:p>The red pot holds soup</text:p></table:table-cell></table:table-row></table:table>
</office:spreadsheet></office:body></office:document-content>"""


def write_office(folder: Path) -> None:
    """Writes a document, slides and sheets of Office with and without macros, and a sheet of OpenDocument."""
    document, slides = pytest.importorskip("docx").Document(), pytest.importorskip("pptx").Presentation()
    document.add_paragraph("The red pot holds two litres of soup.")
    document.save(folder / "of_docx.docx")
    slides.slides.add_slide(slides.slide_layouts[5]).shapes.title.text = "The red pot holds soup"
    slides.save(folder / "of_pptx.pptx")
    with pytest.importorskip("xlsxwriter").Workbook(folder / "of_xlsx.xlsx") as book:
        book.add_worksheet("Pots").write(0, 0, "The red pot holds soup")
    for suffix, (plain, macro) in MACROS.items():
        whole = folder / f"of_{suffix[:-1]}x.{suffix[:-1]}x"
        with ZipFile(whole) as package, ZipFile(folder / f"of_{suffix}.{suffix}", "w") as made:
            for name in package.namelist():
                text = package.read(name)
                made.writestr(
                    name, text.replace(f"openxmlformats-officedocument.{plain}".encode(), macro.encode())
                )
    with ZipFile(folder / "of_ods.ods", "w") as made:
        made.writestr("mimetype", SHEET)
        made.writestr("META-INF/manifest.xml", MANIFEST)
        made.writestr("content.xml", CELLS)


def test_all_files_of_office_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(names.HOME, str(tmp_path / "home"))
    Path("files").mkdir()
    write_office(Path("files"))
    assert names.main(["new", "files", "--no-questions", "--out", "made"]) == 0
    corpus = json.dumps(read_rows(Path("made/corpus.jsonl")))
    assert [path.name for path in Path("files").iterdir() if path.name not in corpus] == []
    assert len(list(Path("files").iterdir())) == 7


# The environment, and how a command ends


def test_all_that_is_kept_is_in_the_home_that_the_environment_names(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(elsewhere))
    world = make(KNOBS)
    assert world.compile().status == 0
    assert list(elsewhere.rglob("*")) == []
    assert {names.STORE, names.STUDIES} <= {path.name for path in (world.folder / HOME_FOLDER).iterdir()}


def test_the_environment_names_a_digest_that_is_trusted(
    compiled: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["ask", "out", QUESTION, "--base", "."]
    monkeypatch.setenv(names.HOME, str(tmp_path))
    assert names.main(ask) == 2
    capsys.readouterr()
    digest = ragc.trust_listing("out").digest
    monkeypatch.setenv("RAGC_TRUST", digest)
    assert names.main(ask) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no file that is always full")
@pytest.mark.parametrize("debug", ["", "1"])
def test_a_traceback_is_shown_where_the_environment_asks(debug: str, tmp_path: Path) -> None:
    variables = names.environment(tmp_path, {"RAGC_DEBUG": debug, "PYTHONPATH": processes.PATH})
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            names.argv("schema"), check=False, env=variables, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (ended.returncode, "Traceback" in ended.stderr) == (1, bool(debug))
    assert "ragc: " in ended.stderr


def test_traces_are_sent_where_the_environment_asks(compiled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        monkeypatch.setenv("RAGC_OTEL", "")
        assert compiled.run("ask", "out", QUESTION).status == 0
        assert collector.spans == []
        monkeypatch.setenv("RAGC_OTEL", "1")
        assert compiled.run("ask", "out", QUESTION).status == 0
        assert {"RETRIEVER", "LLM"} <= {span.kind for span in collector.spans}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda how: how.name)
def test_a_signal_ends_a_compile_with_its_own_exit_code_and_resuming_goes_on(
    how: signal.Signals, make: Make
) -> None:
    world = make(KNOBS)
    ended = world.compile(killed_at=9, by=how)
    assert (ended.status, len(ended.messages)) == (128 + how, 1)
    assert names.RESUME in ended.err
    assert world.compile(resume=True).status == 0
    world.assert_no_key()


def test_a_gate_that_finds_a_loss_exits_10(compiled: World) -> None:
    worse = [row | {"scores": dict.fromkeys(row["scores"], 0.0)} for row in read_rows(Path("rows.jsonl"))]
    write_rows(Path("worse.jsonl"), worse)
    assert compiled.run("gate", "worse.jsonl", "--against", "rows.jsonl", "--min", "em=0.9").status == 10
