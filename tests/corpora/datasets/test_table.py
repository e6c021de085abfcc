"""Every data set in the table has a card that says what a user must know."""

from __future__ import annotations

import pytest

from ragc import metrics
from ragc.corpora import datasets
from ragc.errors import UnknownName
from ragc.programs.knobs import CITING


@pytest.mark.parametrize("id", datasets.FILES)
def test_a_card_names_itself_its_file_its_licence_and_metrics_that_exist(id: str) -> None:
    card = datasets.card(id)
    assert card.id == id
    assert card.home.startswith(("https://", "http://"))
    for text in (card.about, card.file, card.licence, card.citation):
        assert text.strip()
    assert all(count > 0 for count in card.splits.values())
    assert card.metrics
    for name in card.metrics:
        metrics.get(name)
    assert card.answer_format in CITING


def test_an_unknown_data_set_is_named_with_the_nearest_one() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'hotpotqa'"):
        datasets.card("hotpot_qa")
