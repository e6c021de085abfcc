"""The settings files of trainings: their bases can learn the rows that their commands make."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragc.training.finetune.encode import check_base, example, preference_length
from ragc.training.finetune.rows import read
from ragc.training.finetune.settings import load
from tests.experiments.training_files import FILES, MODELS, RowsCommand, make_rows
from tests.training.finetune.test_encode import Words

CHAT_BASES = {"THUDM/glm-4-9b-chat-hf", "meta-llama/Llama-2-7b-chat-hf"}
"""Models of the hub whose tokenizers are published with a chat template."""


class Spelling(Words):
    """A tokenizer of words that has no control tokens: it spells them in pieces."""

    def __call__(self, text: str, *, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return super().__call__(text.replace("_", " "), add_special_tokens=add_special_tokens)


def test_every_file_is_covered() -> None:
    assert {file.stem for file in FILES} == MODELS.keys()
    assert all(RowsCommand.of(file).kind == file.stem for file in FILES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_base_with_a_chat_template_can_learn_the_rows_of_the_command(file: Path, tmp_path: Path) -> None:
    settings = load(make_rows(file, tmp_path))
    assert settings.base in CHAT_BASES
    rows = read(settings.data, settings.method)
    assert len(rows) >= 4
    check_base(Spelling(), rows, settings.base)
    for row in rows:
        if settings.method == "dpo":
            length = preference_length(Spelling(), row)
        else:
            encoded = example(Spelling(), row)
            length = len(encoded.input_ids)
            assert any(label >= 0 for label in encoded.labels)
        assert length < settings.max_length
