"""Recipes: what they mean, and that everything wrong with one is said at once, with its key."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragc.compiled import trust
from ragc.errors import RecipeError, UsageError
from ragc.programs import METHODS, method
from ragc.programs.knobs import Knob
from ragc.recipe import Budget, Data, Recipe, Search, SourceSpec, load, parse
from ragc.recipe.models import MetricsTable, narrowed
from ragc.recipe.rules import named_files
from ragc.targets import TARGETS, build
from ragc.targets.base import ROLES, Role
from ragc.targets.options import ServerOptions, TargetSpec, variables, with_variables
from tests.paths import SRC

WHOLE = """\
program = "vanilla"
seed = 7
concurrency = 64

[knobs]
noise_n = 2

[search]
knobs = ["top_k", "layout"]
demos = 3
instructions = 4
trials = 12
batch = 2
objectives = ["f1", "-tokens"]
optimizer = "random"
pick = "-tokens"

[search.ranges]
top_k = [1, 4]
query_pos = ["before", "both"]

[data]
dataset = "jsonl"
questions = "questions.jsonl"
train = 60
dev = "dev.jsonl"

[sources.local]
kind = "bm25"
corpus = "corpus.jsonl"

[sources.local.options]
k1 = 0.9

[targets.main]
kind = "vllm"
model = "Qwen/Qwen2.5-7B-Instruct"
base_url = "http://127.0.0.1:8000/v1"

[targets.judge]
kind = "hosted"
model = "openai/gpt-4o-mini"

[metrics]
report = ["em", "f1", "recall@5"]

[budget]
lm_calls = 20000
usd = 5
minutes = 60
"""

LEAST = """\
program = "vanilla"
[sources.local]
kind = "bm25"
corpus = "corpus.jsonl"
[targets.main]
kind = "hosted"
model = "openai/gpt-4o-mini"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("questions.jsonl", "dev.jsonl", "corpus.jsonl"):
        (tmp_path / name).touch()
    return tmp_path


def problems(text: str, *sets: str, base: Path | None = None) -> tuple[str, ...]:
    """What is wrong with `text`; files are looked for only where `base` is given."""
    with pytest.raises(RecipeError) as caught:
        parse(text, sets, base=base or Path(), files=base is not None)
    return caught.value.problems


def read(text: str, *sets: str) -> Recipe:
    return parse(text, sets, files=False)


def test_every_table_arrives_in_its_record(folder: Path) -> None:
    (folder / "recipe.toml").write_text(WHOLE)
    assert load(folder / "recipe.toml") == Recipe(
        program="vanilla",
        seed=7,
        concurrency=64,
        knobs={"noise_n": 2},
        search=Search(
            knobs=("layout", "query_pos", "top_k"),
            ranges={"top_k": (1, 4), "query_pos": ("before", "both")},
            demos=3,
            instructions=4,
            trials=12,
            batch=2,
            objectives=("f1", "-tokens"),
            optimizer="random",
            pick="-tokens",
        ),
        data=Data(questions="questions.jsonl", train=60, dev="dev.jsonl"),
        sources={"local": SourceSpec(kind="bm25", corpus="corpus.jsonl", options={"k1": 0.9})},
        targets={
            "main": TargetSpec(
                kind="vllm", model="Qwen/Qwen2.5-7B-Instruct", base_url="http://127.0.0.1:8000/v1"
            ),
            "judge": TargetSpec(kind="hosted", model="openai/gpt-4o-mini"),
        },
        metrics=MetricsTable(report=("em", "f1", "recall@5")),
        budget=Budget(lm_calls=20000, usd=5.0, minutes=60.0),
    )


def test_what_is_left_out_has_the_declared_default() -> None:
    recipe = read(LEAST)
    assert (recipe.seed, recipe.concurrency, recipe.knobs, recipe.metrics.report) == (
        0,
        None,
        {},
        ("em", "f1"),
    )
    assert recipe.search == Search(objectives=("em",), pick="em")
    assert (recipe.data, recipe.budget) == (Data(), Budget())
    assert recipe.method is method("vanilla")
    assert recipe.settings() == method("vanilla").knobs()
    assert recipe.space() == ()


def test_paths_lead_from_the_folder_of_the_recipe(folder: Path) -> None:
    (folder / "recipe.toml").write_text(WHOLE)
    recipe = load(folder / "recipe.toml")
    assert recipe.path(recipe.data.questions) == folder / "questions.jsonl"
    assert str(folder) not in recipe.to_toml()
    assert load(folder / "recipe.toml", base=folder / "x", files=False).base == folder / "x"


def test_the_default_objective_is_the_first_metric_reported() -> None:
    assert read(LEAST + '[metrics]\nreport = ["f1", "em"]').search.objectives == ("f1",)
    recipe = read(LEAST + '[metrics]\nreport = ["tokens"]')
    assert (recipe.search.objectives, recipe.search.pick) == (("-tokens",), "-tokens")


def test_the_risk_of_a_search_is_a_share() -> None:
    assert read(LEAST).search.risk == 0.15
    assert read(LEAST + "[search]\nrisk = 0.4").search.risk == 0.4
    with pytest.raises(RecipeError, match=r"search\.risk must be at most 1"):
        read(LEAST + "[search]\nrisk = 1.5")


def test_all_means_every_searched_knob_that_is_not_fixed() -> None:
    recipe = read(LEAST + '[knobs]\ntop_k = 4\n[search]\nknobs = "all"')
    declared = method("vanilla").knobs.list_knobs()
    assert recipe.search.knobs == tuple(k.name for k in declared if k.searched and k.name != "top_k")


def test_options_are_written_back_as_they_were_written() -> None:
    options = "[sources.local.options]\nk1 = 1\n[targets.main.options]\ntimeout_s = 3\nhas = ['seed']\n"
    written = read(LEAST + options).to_toml()
    assert "k1 = 1\n" in written
    assert "timeout_s = 3\n" in written
    assert parse(written, files=False, stored=True).targets["main"].options == {
        "timeout_s": 3,
        "has": ["seed"],
    }


def test_own_ranges_stand_over_the_declared_ones() -> None:
    recipe = read(LEAST + "[search]\nranges = { top_k = [5, 9], cot = [true], chunk_size = [100, 300] }")
    space = {knob.name: knob for knob in recipe.space()}
    assert (space["top_k"].low, space["top_k"].high, space["top_k"].default) == (5, 9, 5)
    assert (space["cot"].options, space["cot"].default) == ((True,), True)
    assert (space["chunk_size"].low, space["chunk_size"].high, space["chunk_size"].default) == (100, 300, 200)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_a_narrowed_knob_keeps_a_default_inside_its_range(one: int, two: int, default: int) -> None:
    knob = narrowed(Knob("k", "int", default, "", low=0, high=9), (min(one, two), max(one, two)))
    assert knob.check(knob.default) == knob.default
    assert type(knob.default) is int


def test_a_source_without_a_corpus_uses_the_one_of_the_data() -> None:
    recipe = read(LEAST.replace('corpus = "corpus.jsonl"', "") + '[data]\ncorpus = "shared.jsonl"')
    assert recipe.sources["local"].corpus == "shared.jsonl"


def test_pydocs_brings_its_own_questions_and_corpus() -> None:
    recipe = read(LEAST.replace('corpus = "corpus.jsonl"', "") + '[data]\ndataset = "pydocs"\ndev = 20')
    assert (recipe.data.dev, recipe.sources["local"].corpus) == (20, "")


def test_embedded_weights_lead_from_the_recipe() -> None:
    text = LEAST.replace(
        'kind = "hosted"\nmodel = "openai/gpt-4o-mini"', 'kind = "embedded"\nmodel = "m.gguf"'
    )
    recipe = parse(text, base=Path("there"), files=False)
    assert recipe.targets["main"].model == "m.gguf"
    target: Any = build(recipe.target_specs()["main"])
    assert target.named == str(Path("there", "m.gguf"))
    assert problems(text, base=Path("there"))[-1].startswith("targets.main.model = 'm.gguf': there is no")


def test_a_file_of_a_windows_editor_is_read(folder: Path) -> None:
    text = 'program = "no_retrieval"\nseed = 7\n[targets.main]\nkind = "embedded"\n'
    (folder / "recipe.toml").write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    assert load(folder / "recipe.toml", files=False) == parse(text, base=folder, files=False)


def test_files_that_cannot_be_read(folder: Path) -> None:
    (folder / "recipe.toml").write_bytes(b'program = "vanilla"\n# caf\xe9\n')
    with pytest.raises(RecipeError, match="this is not UTF-8 text"):
        load(folder / "recipe.toml")
    with pytest.raises(UsageError, match=r"there is no such file\. Did you mean .*recipe\.toml"):
        load(folder / "recipes.toml")
    with pytest.raises(UsageError, match="it is a folder; name the TOML file"):
        load(folder)


def test_overrides_are_toml_values_or_plain_text() -> None:
    recipe = read(
        LEAST,
        "seed=9",
        "knobs.top_k = 5",
        "search.knobs=all",
        "search.objectives=['f1', '-tokens']",
        "targets.main.model=openai/gpt=4",
        'targets."main".model="openai/x"',
        "budget.usd=0.5",
    )
    assert (recipe.seed, recipe.knobs, recipe.budget.usd) == (9, {"top_k": 5}, 0.5)
    assert "layout" in recipe.search.knobs
    assert recipe.search.objectives == ("f1", "-tokens")
    assert recipe.targets["main"].model == "openai/x"


def test_an_override_replaces_what_stands_in_the_file() -> None:
    broken = LEAST + "[search]\ntrials = 0\n"
    assert read(broken, "search.trials=3").search.trials == 3
    assert read(broken, "search={}").search.trials == 30
    (message,) = problems(broken, "search.trials=0", "search.trials=-1")
    assert message.startswith("--set search.trials: ")


def test_reading_a_recipe_imports_no_lm_library() -> None:
    code = (
        "import sys; from ragc.recipe import parse; parse(sys.argv[1], files=False); "
        "sys.exit(', '.join(m for m in ('dspy', 'litellm', 'optuna', 'numpy') if m in sys.modules) or 0)"
    )
    paths = {"PYTHONPATH": str(SRC)}
    done = subprocess.run(
        [sys.executable, "-c", code, LEAST], env=paths, check=False, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


# Laws

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)
jsons = st.recursive(
    st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
options = st.fixed_dictionaries(
    {},
    optional={
        "k1": st.integers(0, 9) | st.floats(0, 9),
        "b": st.floats(0, 1),
        "chunk_size": st.integers(1, 999),
        "chunk_by": st.sampled_from(["text", "markdown", "sections"]),
        "rerank": texts,
    },
)
signs = st.text(st.characters(exclude_categories=["Cs", "L"]))  # no word, so that no name is a secret's
bodies = st.dictionaries(
    signs.map("x{}".format),
    st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | signs | st.lists(signs, max_size=3),
    max_size=3,
)


def values(knob: Knob) -> st.SearchStrategy[Any]:
    if knob.kind in ("switch", "choice"):
        return st.sampled_from((False, True) if knob.kind == "switch" else knob.options)
    assert knob.low is not None
    assert knob.high is not None
    low, high, step = knob.low, knob.high, knob.step or 0.1
    grid = [round(low + i * step, 6) for i in range(math.floor((high - low) / step + 1e-6) + 1)]
    return st.sampled_from([int(x) for x in grid] if knob.kind == "int" else grid)


def ranges(knob: Knob) -> st.SearchStrategy[tuple[Any, ...]]:
    if knob.kind in ("int", "float"):
        return st.tuples(values(knob), values(knob)).map(lambda pair: tuple(sorted(pair)))
    return st.lists(values(knob), min_size=1, unique=True).map(tuple)


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    chosen = draw(st.sampled_from(METHODS))
    declared = chosen.knobs.list_knobs()
    uses = {knob.name: draw(st.sampled_from(["left", "fixed", "searched", "ranged"])) for knob in declared}
    objectives = draw(
        st.lists(st.sampled_from(["em", "f1", "-tokens", "recall@5"]), min_size=1, unique=True).map(tuple)
    )
    counts = st.none() | st.integers(1, 10**9)
    amounts = st.none() | st.floats(1e-6, 1e6)
    splits = st.none() | st.integers(0, 10**6) | texts
    roles: set[Role] = {*chosen.roles, *draw(st.sets(st.sampled_from(ROLES)))}
    names = {*chosen.sources, *draw(st.sets(st.text(max_size=4), max_size=2))}
    sources = [
        SourceSpec(kind=draw(st.sampled_from(["bm25", "given"])), corpus=draw(texts), options=draw(options))
        for _ in names
    ]
    return Recipe(
        program=chosen.id,
        seed=draw(st.integers(0, 2**32 - 1)),
        concurrency=draw(counts),
        knobs={knob.name: draw(values(knob)) for knob in declared if uses[knob.name] == "fixed"},
        search=Search(
            knobs=tuple(knob.name for knob in declared if uses[knob.name] in ("searched", "ranged")),
            ranges={knob.name: draw(ranges(knob)) for knob in declared if uses[knob.name] == "ranged"},
            demos=draw(st.integers(0, 99)),
            instructions=draw(st.integers(0, 99)),
            trials=draw(st.integers(1, 999)),
            batch=draw(st.integers(1, 99)),
            looks=draw(st.integers(1, 99)),
            objectives=objectives,
            optimizer=draw(st.sampled_from(["ragc", "mipro", "gepa", "random"])),
            pick=draw(st.sampled_from(objectives)),
        ),
        data=Data().replace(
            dataset=draw(st.sampled_from(["jsonl", "pydocs"])),
            questions=draw(texts),
            train=draw(splits),
            dev=draw(splits),
            test=draw(splits),
        ),
        sources=dict(zip(sorted(names), sources, strict=True)),
        targets={
            role: TargetSpec(kind="hosted", model=draw(texts), options={"body": draw(bodies)})
            for role in roles
        },
        metrics=MetricsTable(
            report=tuple(
                draw(st.lists(st.sampled_from(["em", "f1", "tokens", "ndcg@10"]), min_size=1, unique=True))
            )
        ),
        budget=Budget().replace(
            lm_calls=draw(counts),
            tokens=draw(counts),
            usd=draw(amounts),
            minutes=draw(amounts),
            trials=draw(counts),
        ),
    )


@given(recipes())
def test_a_recipe_written_and_read_is_the_same_recipe(recipe: Recipe) -> None:
    text = recipe.to_toml()
    again = parse(text, files=False)
    assert again == recipe
    assert again.to_toml() == text


OWN_TARGET = """
from ragc.testing import ScriptedTarget


class Parrot(ScriptedTarget):
    def __init__(self, word="red", model=""):
        super().__init__(lambda request: {"answer": word})
        self.word = word


def broken(**options):
    raise SystemExit(3)


def nothing(**options):
    return object()
"""


def own(kind: str, options: str = "") -> str:
    """A recipe whose target is `kind` of a module beside it."""
    return LEAST.replace('kind = "hosted"\nmodel = "openai/gpt-4o-mini"', f'kind = "{kind}"\n{options}')


def test_a_target_may_be_a_class_in_a_module_beside_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "recipes_own_target.py").write_text(OWN_TARGET, "utf-8")
    (tmp_path / "recipe.toml").write_text(own("recipes_own_target:Parrot", "options.word = 'blue'"), "utf-8")
    recipe = load(tmp_path / "recipe.toml", files=False)
    target: Any = build(recipe.target_specs()["main"])
    assert target.word == "blue"
    runs = [access for access in trust.list_accesses(recipe) if access.kind == "runs"]
    assert [access.name for access in runs] == ["targets.main.kind", "targets.main.options.word"]
    assert parse(recipe.to_toml(), base=tmp_path, files=False, stored=True) == recipe


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Parot", "Did you mean 'Parrot'"),
        ("broken", "cannot be built: SystemExit: 3"),
        ("nothing", "makes a object without name, model"),
    ],
)
def test_what_is_wrong_with_a_target_of_the_users_own_is_said(
    tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "recipes_own_target.py").write_text(OWN_TARGET, "utf-8")
    (tmp_path / "recipe.toml").write_text(own(f"recipes_own_target:{name}"), "utf-8")
    with pytest.raises(UsageError, match=message):
        build(load(tmp_path / "recipe.toml", files=False).target_specs()["main"])


def test_without_code_a_target_of_the_users_own_is_only_named(tmp_path: Path) -> None:
    recipe = parse(own("no_such_module:Target"), base=tmp_path, files=False)
    assert recipe.targets["main"].kind == "no_such_module:Target"


def test_a_file_of_the_hub_is_the_model_of_an_embedded_target(tmp_path: Path) -> None:
    model = "Qwen/Qwen2.5-0.5B-Instruct-GGUF:qwen2.5-0.5b-instruct-q4_k_m.gguf"
    recipe = parse(own("embedded", f'model = "{model}"'), base=tmp_path, files=False)
    assert recipe.target_specs()["main"].model == model
    assert ("targets", "main", "model") not in dict(named_files(recipe))


SENT = """[targets.main]
kind = "vllm"
model = "m"
base_url = "http://127.0.0.1:9/v1"
options.headers = {headers}
options.query = {{ "api-version" = "1", "key" = "$OWN_KEY" }}
options.omit = ["temperature", "max_tokens"]
"""


def sending(headers: str) -> str:
    """A recipe whose target sends `headers`."""
    return LEAST.partition("[targets.main]")[0] + SENT.format(headers=headers)


def test_headers_and_parameters_name_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = '{ "X-Api-Key" = "$OWN_KEY", Authorization = "Bearer ${OWN_TOKEN}", "X-Team" = "green" }'
    spec = read(sending(headers)).targets["main"]
    options = TARGETS.get("vllm").options.of(spec.options)
    assert isinstance(options, ServerOptions)
    assert options.omit == ("temperature", "max_tokens")
    assert variables({**options.headers, **options.query}) == {"OWN_KEY", "OWN_TOKEN"}
    with pytest.raises(UsageError, match="OWN_KEY is not set"):
        with_variables(options.headers)
    monkeypatch.setenv("OWN_KEY", "a-key-of-ours")
    monkeypatch.setenv("OWN_TOKEN", "a-token-of-ours")
    assert with_variables(options.headers) == {
        "X-Api-Key": "a-key-of-ours",
        "Authorization": "Bearer a-token-of-ours",
        "X-Team": "green",
    }


@pytest.mark.parametrize(
    "headers", ['{ "X-Api-Key" = "a-literal-key" }', '{ "X-Team" = "sk-proj-0123456789abcdef0123" }']
)
def test_a_secret_in_a_header_is_refused(headers: str) -> None:
    with pytest.raises(RecipeError, match=r'environment variable and write "\$NAME"') as error:
        read(sending(headers))
    assert "literal" not in str(error.value)
    assert "0123" not in str(error.value)


def test_a_field_that_cannot_be_omitted_gets_the_nearest() -> None:
    with pytest.raises(RecipeError, match="Did you mean 'temperature'"):
        read(sending("{}").replace('"temperature"', '"temprature"'))
