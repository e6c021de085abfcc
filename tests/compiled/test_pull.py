"""`ragc pull` fetches the models that a recipe or program names, and nothing that is not its own to name."""

from __future__ import annotations

from pathlib import Path

import pytest

import ragc
from ragc.cli.main import main
from ragc.compiled import pull
from ragc.corpora import embed
from ragc.errors import Untrusted
from tests.security.foreign import RECIPE as FOREIGN_RECIPE
from tests.security.foreign import foreign_directory
from tests.support.recipes import recipe_toml

RECIPE = recipe_toml(
    data={"dev": 4},
    sources={"local": "dense"},
    targets={"main": "embedded", "judge": {"kind": "hosted", "model": "openai/gpt-4o-mini"}},
    metrics=["f1"],
)


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of models that were asked for."""
    names: list[str] = []

    class Embedder:
        def __init__(self, name: str) -> None:
            self.name = name

        def embed(self, texts: list[str]) -> None:
            names.append(self.name)

    monkeypatch.setattr(pull, "default_weights", lambda _: names.append("SmolLM2-135M-Instruct"))
    monkeypatch.setattr(embed, "make", lambda name, progress: Embedder(name))
    monkeypatch.chdir(tmp_path)
    Path("recipe.toml").write_text(RECIPE)
    return names


def test_without_a_path_the_default_weights_come(
    fetched: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pull"]) == 0
    assert fetched == ["SmolLM2-135M-Instruct"]
    assert "SmolLM2-135M-Instruct is here" in capsys.readouterr().out


def test_a_recipe_brings_targets_embedders_and_rerankers_each_once(fetched: list[str]) -> None:
    models = ragc.pull("recipe.toml")
    assert fetched == ["SmolLM2-135M-Instruct", "all-MiniLM-L6-v2"]
    assert [model.use for model in models] == ["targets.main", "sources.local.options.model"]
    more = ['sources.local.options.rerank="embed:intfloat/e5-small"', 'metrics.report=["answer_correctness"]']
    names = {model.model for model in ragc.pull("recipe.toml", sets=more)}
    assert names == {"SmolLM2-135M-Instruct", "all-MiniLM-L6-v2", "intfloat/e5-small"}


def test_the_dense_part_of_a_hybrid_source_brings_its_embedder(fetched: list[str]) -> None:
    sets = ["sources.local.kind=hybrid"]
    assert [model.use for model in ragc.pull("recipe.toml", sets=sets)] == [
        "targets.main",
        "sources.local.options.dense.model",
    ]
    ragc.pull("recipe.toml", sets=[*sets, "sources.local.options.dense.model=intfloat/e5-small"])
    assert fetched[-1] == "intfloat/e5-small"


def test_models_in_folders_and_of_servers_stay_where_they_are(
    fetched: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("embedder").mkdir()
    sets = ["sources.local.options.model=embedder", "targets.main.kind=hosted", "targets.main.model=openai/x"]
    assert ragc.pull("recipe.toml", sets=sets) == ()
    assert main(["pull", "recipe.toml", *(word for one in sets for word in ("--set", one))]) == 0
    assert "names no model that is fetched" in capsys.readouterr().out
    assert fetched == []


def test_a_program_from_elsewhere_may_not_name_any_model(fetched: list[str], tmp_path: Path) -> None:
    dense = 'kind = "dense"\noptions.model = "intfloat/e5-small"'
    folder = foreign_directory(tmp_path, FOREIGN_RECIPE.replace('kind = "bm25"', dense))
    with pytest.raises(Untrusted, match="e5-small"):
        ragc.pull(folder)
    assert fetched == []
