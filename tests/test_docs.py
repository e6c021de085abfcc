"""Blocks of the documentation run, its pages are all there, and what it names and links to exists."""

from __future__ import annotations

import ast
import asyncio
import importlib.util
import inspect
import io
import json
import linecache
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ragc
from ragc import metrics, targets
from ragc import recipe as recipes
from ragc.cli.main import main, parser
from ragc.corpora import SOURCES
from ragc.corpora.embed import EMBEDDERS
from ragc.corpora.rerank import RERANKERS
from ragc.exports.formats.base import FORMATS
from ragc.programs import METHODS
from ragc.targets import TARGETS
from ragc.testing import SchemaReplies, ScriptedTarget
from tests.paths import ROOT
from tests.support.recipes import recipe_toml
from tests.support.rows import write_rows

DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
PROSE = (*PAGES, ROOT / "ARCHITECTURE.md")
RUN = ("bash", "python", "toml", "json")
"""Languages whose blocks are code; other blocks show output, drawings or patterns."""
SHOWN = ("text", "mermaid")

RECIPE = recipe_toml(
    search={"knobs": ["query_pos"], "demos": 2, "trials": 2},
    data={"train": 4, "dev": 12, "test": 6},
    metrics=["f1", "em"],
)
ADDED = {
    "program": 'program = "vanilla"\n',
    "data": '\n[data]\nquestions = "questions.jsonl"\ncorpus = "corpus.jsonl"\n',
    "targets.main": '\n[targets.main]\nkind = "embedded"\n',
    "sources.local": '\n[sources.local]\nkind = "bm25"\n',
}
"""What a part of a recipe is completed with before it is parsed."""


class Block(NamedTuple):
    """A code block: where it is, its language, what follows that, and its text."""

    page: Path
    line: int
    language: str
    info: str
    text: str

    @property
    def name(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    lines = iter(enumerate(page.read_text("utf-8").split("\n"), 1))
    for number, line in lines:
        if not (opened := re.match(r"^( *)(```+)(.*)$", line)):
            continue
        indent, fence, info = opened.groups()
        text: list[str] = []
        for _, inner in lines:
            if inner.strip() == fence:
                break
            text.append(inner.removeprefix(indent))
        else:
            pytest.fail(f"{page}:{number}: the block has no end")
        language, _, rest = info.strip().partition(" ")
        yield Block(page, number, language, rest.strip(), "\n".join(text) + "\n")


BLOCKS = tuple(block for page in PAGES for block in blocks(page))


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the files that blocks name: a recipe, its data, and what was compiled from it."""
    folder = tmp_path_factory.mktemp("docs") / "page"
    folder.mkdir()
    answer = "StopIteration"
    data: dict[str, list[dict[str, Any]]] = {
        "questions.jsonl": [
            {"id": f"q{n}", "question": f"Which exception ends iterator {n}?", "answers": [answer]}
            for n in range(30)
        ],
        "corpus.jsonl": [{"id": "iter", "title": "Iterators", "text": f"{answer} ends an iterator."}],
    }
    for name, rows in data.items():
        write_rows(folder / name, rows)
    (folder / "handbook.jsonl").write_text((folder / "corpus.jsonl").read_text("utf-8"), "utf-8")
    (folder / "recipe.toml").write_text(RECIPE, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        for kind in targets.TARGETS:
            record = replace(targets.TARGETS.get(kind), build=lambda spec: scripted())
            patch.setattr(f"{targets.TARGETS.listed[kind][0]}.KIND", record)
        patch.chdir(folder)
        patch.setenv("RAGC_HOME", str(folder.with_name("home")))
        ragc.compile("recipe.toml", out="compiled/mine")
        shutil.copytree("compiled/mine", "theirs")
        shutil.copytree(folder, folder.with_name("as-new"))
        yield folder


def scripted() -> ScriptedTarget:
    return ScriptedTarget(SchemaReplies(fields={"answer": "StopIteration"}))


@pytest.fixture
def folder(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same folder as new for one page; its path stays, because a study is known by it."""
    monkeypatch.chdir(prepared.parent)
    shutil.rmtree(prepared)
    shutil.copytree(prepared.with_name("as-new"), prepared)
    monkeypatch.chdir(prepared)
    monkeypatch.setattr(sys, "stdin", Terminal("y\n" * 20))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


# Code blocks


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_block_runs_or_says_why_not(block: Block) -> None:
    assert block.language in (*RUN, *SHOWN), f"{block.name} names no known language"
    if block.info:
        assert re.fullmatch(r"no-run: \S.{8,}", block.info), f"{block.name} does not say why it is not run"
        assert block.language in RUN


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(
    page: Path, folder: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names: dict[str, Any] = {"__name__": "docs", "ragc": ragc}
    for block in blocks(page):
        if block.language not in RUN or block.info:
            continue
        try:
            RUNNERS[block.language](block, names, monkeypatch)
        except (Exception, SystemExit) as error:
            pytest.fail(f"{block.name}: {error!r}\n{capsys.readouterr().err}")


def run_python(block: Block, names: dict[str, Any], patch: pytest.MonkeyPatch) -> None:
    save(block)
    # DSPy's Refine shows the source of a reward function.
    linecache.cache[block.name] = (len(block.text), None, block.text.splitlines(keepends=True), block.name)
    code = compile(block.text, block.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    result = eval(code, names)
    if inspect.isawaitable(result):
        asyncio.run(_awaited(result))


async def _awaited(result: Any) -> None:
    await result


def save(block: Block) -> None:
    """Write a block that begins with a file's name to that file, for the blocks that follow."""
    if named := re.match(r"# ([\w.]+\.(?:py|toml))\n", block.text):
        Path(named[1]).write_text(block.text, "utf-8")


def run_json(block: Block, names: dict[str, Any], patch: pytest.MonkeyPatch) -> None:
    for line in block.text.splitlines():
        json.loads(line)


def run_toml(block: Block, names: dict[str, Any], patch: pytest.MonkeyPatch) -> None:
    save(block)
    values = tomllib.loads(block.text)
    text = block.text if "program" in values else ADDED["program"] + block.text
    text += "" if "data" in values else ADDED["data"]
    for path in ("targets.main", "sources.local"):
        table, _, name = path.partition(".")
        text += "" if name in values.get(table, {}) else ADDED[path]
    recipes.parse(text, where=block.name, files=False)


def run_bash(block: Block, names: dict[str, Any], patch: pytest.MonkeyPatch) -> None:
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words:
            end = words.index("&&") if "&&" in words else len(words)
            run_command(words[:end], patch)
            words = words[end + 1 :]


def run_command(words: list[str], patch: pytest.MonkeyPatch) -> None:
    """Run one of ragc's commands in this process; look whether what others name exists."""
    while words and re.fullmatch(r"[A-Z_]+=\S+", words[0]):
        name, _, value = words.pop(0).partition("=")
        patch.setenv(name, value)
    match words:
        case ["ragc", *rest]:
            rest = rest[: rest.index(">")] if ">" in rest else rest
            parser().parse_args(rest)
            assert main(rest) == 0, f"{shlex.join(words)} failed"
        case ["make", target]:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        case ["pip", "install", *rest]:
            extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
                "optional-dependencies"
            ]
            named = re.findall(r"\[([\w,]+)\]", " ".join(rest))
            assert {name for listed in named for name in listed.split(",")} <= extras.keys()
        case _:
            raise AssertionError(f"nobody runs {shlex.join(words)!r}; add no-run and a reason")


RUNNERS = {"bash": run_bash, "python": run_python, "toml": run_toml, "json": run_json}


# Pages and lists


def generated_pages() -> Mapping[str, str]:
    """The pages that docs/generate.py makes from the code, by their paths inside docs/."""
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages: Mapping[str, str] = module.pages()
    return pages


GENERATED = generated_pages()


def text_of(page: Path) -> str:
    """A page as the site shows it."""
    inside = str(page.relative_to(DOCS)) if DOCS in page.parents else ""
    return GENERATED[inside] if inside in GENERATED else page.read_text("utf-8")


def test_every_program_has_a_chart_and_lists_its_knobs() -> None:
    for entry in METHODS:
        page = GENERATED[f"methods/{entry.id}.md"]
        assert page.count("```mermaid") == 1
        assert [knob.name for knob in entry.knobs.list_knobs() if f"| `{knob.name}` |" not in page] == []


def test_every_key_of_a_recipe_is_listed() -> None:
    schema = ragc.recipe_schema()
    page = GENERATED["reference/recipe.md"]
    listed = re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE)
    listed += re.findall(r"^## \[(\w+)", page, re.MULTILINE)
    ends = {part for name in listed for part in name.split(".")}
    for name, table in {"recipe": schema, **schema["$defs"]}.items():
        assert set(table.get("properties", ())) <= ends, name


def test_every_extra_is_in_the_readme_and_the_quickstart() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"].keys() - {"dev", "docs", "ray"}
    listed = (ROOT / "README.md").read_text("utf-8").partition("More extras (")[2].partition(")")[0]
    assert {f"`{name}`" for name in extras - {"embedded"}} == set(listed.split(", "))
    page = (DOCS / "index.md").read_text("utf-8")
    assert [name for name in extras if f"`{name}`" not in page] == []


def test_every_public_name_is_listed() -> None:
    listed = re.findall(r"^::: ragc\.(\w+)$", (DOCS / "reference/python.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(set(ragc.__all__) - {"__version__"})


# Links and names


MADE = frozenset((DOCS / page) for page in GENERATED)


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as Markdown makes them."""
    headings = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {re.sub(r"\s+", "-", heading.strip()) for heading in plain}


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists() or target in MADE, f"{page}: {link}"
        assert not anchor or anchor in anchors(target), f"{page}: {link}"
        assert DOCS not in page.parents or DOCS in target.parents or target == DOCS, (
            f"{page}: {link} leaves docs/"
        )


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    listed = set(re.findall(r"[\w/]+\.md", navigation))
    decisions = set((DOCS / "decisions").glob("0*.md"))
    written = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page not in decisions}
    assert listed == written | GENERATED.keys()
    index = (DOCS / "decisions/index.md").read_text("utf-8")
    assert all(f"({page.name})" in index for page in decisions)


def sources() -> frozenset[str]:
    """Every Python file of the repository by its path from the top."""
    folders = ("src/ragc", "signatures", "corpora", "programs", "optimizers", "experiments", "tests", "docs")
    return frozenset(
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if not any(parent.is_symlink() for parent in path.parents)
    )


def definitions() -> set[str]:
    """The names of all classes of the repository."""
    texts = ((ROOT / path).read_text("utf-8") for path in sources())
    return {name for text in texts for name in re.findall(r"^class (\w+)", text, re.MULTILINE)}


FOREIGN = {
    "BootstrapFewShot",
    "BootstrapFewShotWithRandomSearch",
    "ChainOfThought",
    "ChatOpenAI",
    "JournalFileBackend",
    "OpenAI",
    "OpenAILike",
    "ReAct",
}
"""Names of classes of other libraries that the documentation mentions."""


ENTRY_POINTS = {
    registry.group for registry in (SOURCES, RERANKERS, EMBEDDERS, metrics.ADDED, TARGETS, FORMATS)
}


def test_files_modules_and_classes_that_are_named_exist() -> None:
    files, classes = sources(), definitions() | FOREIGN
    wrong: list[str] = []
    for page in PROSE:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for code in re.findall(r"`([^`\n]+)`", text):
            named = [path for path in re.findall(r"(?<![\w*])[\w/]+\.py\b", code) if path != "mine.py"]
            lost = [path for path in named if not any(f"/{file}".endswith(f"/{path}") for file in files)]
            lost += [name for name in re.findall(r"\bragc(?:\.\w+)+", code) if not is_name(name)]
            if re.fullmatch(r"[A-Z][a-z]+(?:[A-Z]\w+)+", code) and code not in classes:
                lost.append(code)
            wrong += [f"{page.relative_to(ROOT)}: {name}" for name in lost]
    assert not wrong, "\n".join(wrong)


def is_name(name: str) -> bool:
    """Whether a dotted name is a module of ragc, an attribute of one, or a group of entry points."""
    if name in ENTRY_POINTS:
        return True
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[end:]:
            if not hasattr(value, attribute):
                return False
            value = getattr(value, attribute)
        return True
    return False


# Figures


def test_figures_of_the_shown_run_are_in_the_log() -> None:
    log = (ROOT / "experiments/LOG.md").read_text("utf-8")
    rows = [
        line
        for block in BLOCKS
        if block.language == "text"
        for line in block.text.splitlines()
        if re.match(r"(f1|em) .*\[.*\] .*\[.*\].*\[", line)
    ]
    assert len(rows) >= 2
    for row in rows:
        for figure in re.findall(r"[+-]?\d\.\d+ \[[^\]]+\]", row):
            assert figure in log, row
