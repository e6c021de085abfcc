"""No password of an address reaches a message, a log or a file, whatever the shape of the address."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragc import recipe as recipes
from ragc.cli import main
from ragc.core.redact import redact
from ragc.errors import RagcError, RecipeError
from ragc.optimizers.search.storage import study_directory
from tests.optimizers.colours import RECIPE, begun, written

SECRET = "hunter22"
STORAGES = (
    f"user:{SECRET}@host/db",
    f"user:{SECRET}@127.0.0.1:9/db",
    f"postgresql://user:{SECRET}@127.0.0.1:9/db",
    f"postgresql+psycopg://user:{SECRET}@127.0.0.1:9/db",
    f"postgresql://127.0.0.1:9/db?user=me&password={SECRET}",
    f"mysql://user:a/b@{SECRET}@127.0.0.1:9/db",
    f"nonsense://user:{SECRET}@host:port/db",
    f"sqlite:////no/such/folder/x?key={SECRET}",
    f"postgresql://user:{SECRET}@[::1/db",
    f"user:{SECRET}%40x@host",
)


@pytest.fixture
def folder(home: Path) -> Path:
    return written(home)


@pytest.mark.parametrize("address", STORAGES)
def test_the_address_of_a_storage_that_cannot_be_used(
    address: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAGC_STORAGE", address)
    out = folder / "out"
    with pytest.raises(RagcError) as caught:
        begun(folder)("out")
    main.main(["study", "status", str(out)])
    shown = capsys.readouterr()
    output = shown.out + shown.err + str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Traceback" not in output
    assert SECRET not in output
    files = [path for path in study_directory(out).rglob("*") if path.is_file()]
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("address", STORAGES[:6])
def test_a_recipe_with_a_password_is_refused_without_it(address: str, folder: Path) -> None:
    with pytest.raises(RecipeError, match=r"study\.storage must not hold a password") as caught:
        recipes.parse(f'{RECIPE}[study]\nstorage = "{address}"\n', files=False)
    assert SECRET not in str(caught.value)
    with pytest.raises(RecipeError, match=r"study\.storage must not hold a password") as caught:
        recipes.load(folder / "recipe.toml", [f'study.storage="{address}"'])
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "GET https://me:hunter22@h/v1?api-version=3&key=sesame failed",
            "GET https://[redacted]@h/v1?api-version=3&key=[redacted] failed",
        ),
        ("see https://h/medium/@user?page=2", "see https://h/medium/@user?page=2"),
        (
            "https://h/v1?sig=abc&auth=x1&accessToken=y2&page=3 and ftp://u:p@ss@h/x",
            "https://h/v1?sig=[redacted]&auth=[redacted]&accessToken=[redacted]&page=3 and ftp://[redacted]@h/x",
        ),
        ("glpat-abcdefgh, xoxb-12345678 and github_pat_abcdefgh", "[redacted], [redacted] and [redacted]"),
    ],
)
def test_words_of_a_server_are_masked_by_the_same_rules(text: str, shown: str) -> None:
    assert redact(text) == shown
