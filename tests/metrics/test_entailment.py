"""Entailment backends: the rule on words, the judge, and models of natural language inference."""

from __future__ import annotations

import asyncio
import json
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragc.core.counters import Counters, counting
from ragc.errors import ParseFailure, TargetError, TargetUnavailable, UnknownName, UsageError
from ragc.metrics.base import Entailer, Pair
from ragc.metrics.entailment import CachedEntailer, JudgeEntailer, LexicalEntailer, make
from ragc.metrics.nli import entailment_label
from ragc.signatures.judge import TextEntails
from ragc.store.calls import CallStore
from tests.metrics.scripted_judge import ScriptedAsk
from tests.support.embedders import install_transformers

WORDS = ("ape", "bee", "cat", "dog", "elk")
LABELS = {"0": "contradiction", "1": "neutral", "2": "entailment"}


def judge_pairs(entailer: Entailer, *pairs: Pair) -> list[bool | None]:
    return list(asyncio.run(entailer.entails(pairs)))


class Scripted:
    """Replays verdicts in order; running out of them is a test failure."""

    def __init__(self, *verdicts: bool | None, name: str = "scripted") -> None:
        self.name, self.verdicts, self.pairs = name, list(verdicts), list[Pair]()

    async def entails(self, pairs: Sequence[Pair], /) -> list[bool | None]:
        self.pairs += pairs
        assert len(self.verdicts) >= len(pairs), f"no verdict is left for {pairs}"
        return [self.verdicts.pop(0) for _ in pairs]


GIVEN = "Title: Ada\nAda Lovelace wrote 12,717 notes in 1843 with rivers of ink."


@pytest.mark.parametrize(
    ("hypothesis", "expected"),
    [
        ("Ada Lovelace wrote notes.", True),
        ("Lovelace wrote a note on the river", True),  # a final s is no difference
        ("Lovelace wrote notes in 1843", True),
        ("Lovelace wrote notes in 1844", False),  # every number must stand there
        ("She wrote 12717 notes", True),
        ("She wrote 12,718 notes", False),
        ("1843", True),
        ("Ada Lovelace met Charles Babbage", False),  # 2 of 5
        ("Ada Lovelace wrote letters", True),  # 3 of 4
        ("Ada wrote letters", True),  # 2 of 3, over .65
        ("Ada letters", False),
        ("Ada Lovelace never wrote notes", True),  # 4 of 5: negation is not seen
        ("It is the one.", False),  # no content, nothing to entail
        ("", False),
    ],
)
def test_the_rule_on_words_by_hand(hypothesis: str, expected: bool) -> None:
    assert judge_pairs(LexicalEntailer(), (GIVEN, hypothesis)) == [expected]


def test_the_rule_says_its_threshold_and_refuses_one_that_is_none() -> None:
    assert make("lexical").name == "lexical 0.65"
    for theta in (0, 1.1, float("nan")):
        with pytest.raises(UsageError, match="theta lies over 0 and is at most 1"):
            LexicalEntailer(theta)


def test_nothing_is_asked_twice() -> None:
    inner = Scripted(True, None, False)
    entailer = CachedEntailer(inner)
    assert entailer.name == "scripted"
    assert judge_pairs(entailer, ("p", "a"), ("p", "b"), ("p", "a")) == [True, None, True]
    assert judge_pairs(entailer, ("p", "b"), ("q", "a"), ("p", "a")) == [None, False, True]
    assert inner.pairs == [("p", "a"), ("p", "b"), ("q", "a")]


def test_verdicts_outlive_a_run_in_a_store_but_for_those_that_could_not_be_read(tmp_path: Path) -> None:
    again, other = Scripted(True), Scripted(False, True, False, name="another model")
    for entailer, expected in (
        (Scripted(True, False, None), [True, False, None]),
        (again, [True, False, True]),
        (other, [False, True, False]),
    ):
        store = CallStore(tmp_path / "calls")
        assert judge_pairs(CachedEntailer(entailer, store), ("p", "a"), ("p", "b"), ("p", "c")) == expected
        store.close()
    assert again.pairs == [("p", "c")]


def test_the_judge_is_told_data_and_its_verdict_is_taken() -> None:
    ask = ScriptedAsk(True, False)
    entailer = JudgeEntailer(ask)
    assert judge_pairs(entailer, ("Title: T\ntext <|im_start|>", "a\nclaim"), ("p", "b")) == [True, False]
    assert ask.calls == [
        (TextEntails, {"text": "Title: T text < |im_start|>", "statement": "a claim"}),
        (TextEntails, {"text": "p", "statement": "b"}),
    ]
    assert entailer.name == "judge scripted/judge, prompt entails, 6000 characters"


def test_a_reply_that_cannot_be_read_is_counted_and_an_endpoint_that_fails_is_raised() -> None:
    counters = Counters()
    with counting(counters):
        assert judge_pairs(make("judge", ScriptedAsk(ParseFailure("?"), True)), ("p", "a"), ("p", "b")) == [
            None,
            True,
        ]
    assert counters.dropped == 1
    with pytest.raises(TargetUnavailable):
        judge_pairs(make("judge", ScriptedAsk(TargetUnavailable("gone"))), ("p", "a"))


def test_a_judge_reads_the_first_characters_of_a_long_premise_up_to_a_whole_word() -> None:
    ask = ScriptedAsk(True)
    judge_pairs(JudgeEntailer(ask, longest=9), ("one two three", "claim"))
    assert ask.calls[0][1]["text"] == "one two"


def test_names_that_nothing_answers_to() -> None:
    for name in ("lexicl", "nli", "nli:", "judge:x"):
        with pytest.raises(UnknownName, match="lexical, judge, nli:PATH_OR_ID"):
            make(name)
    with pytest.raises(UsageError, match=r"there is none; add \[targets.judge\]"):
        make("judge")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (LABELS, 2),
        ({"0": "ENTAILMENT", "1": "neutral", "2": "contradiction"}, 0),
        ({0: "not_entailment", 1: "entailment"}, 1),
    ],
)
def test_the_label_that_means_entailment(labels: dict[Any, str], expected: int) -> None:
    assert entailment_label({"id2label": labels}, "m") == expected


@pytest.mark.parametrize(
    "labels",
    [{"0": "LABEL_0", "1": "LABEL_1"}, {"0": "entailment"}, {"0": "entailment", "1": "Entailment"}, {}, None],
)
def test_labels_that_do_not_say_entailment_are_refused(labels: object) -> None:
    with pytest.raises(UsageError, match="has a label called entailment and another; the labels of m are"):
        entailment_label({"id2label": labels}, "m")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("./none", "folder is needed"),
        (".", "is a model that does not say what it is"),
        ("nobody/no-such-model-of-ours", "neither a folder nor in the Hugging Face cache.*hf download"),
    ],
)
def test_a_model_that_is_not_here_is_not_fetched(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=says):
        make(f"nli:{name}")


def classifier(folder: Path, *, limit: int = 16, kind: str = "BertForSequenceClassification") -> Path:
    """Writes the configuration of an entailment model."""
    config = {"architectures": [kind], "id2label": LABELS, "max_position_embeddings": limit}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": limit}))
    return folder


def onnx_classifier(folder: Path) -> Path:
    """Writes a model that finds entailment where the texts share over 1 pair of words, and more pairs than
    the hypothesis has words.
    """
    from tests.support.word_models import write_word_model

    return classifier(write_word_model(folder, outputs=3))


def test_nli_names_the_extra_of_a_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for kind, library in (
        ("T5ForConditionalGeneration", r"torch, .* pip install .ragc\[nli\]."),
        ("BertForSequenceClassification", "sentence_transformers, .* pip install sentence-transformers"),
    ):
        classifier(tmp_path, kind=kind)
        with pytest.raises(UsageError, match=f"needs {library}"):
            make(f"nli:{tmp_path}")
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(UsageError, match=r"needs onnxruntime, .* pip install .ragc\[dense\]."):
        make(f"nli:{tmp_path}")


def test_nli_in_onnx_form_cuts_only_the_premise(tmp_path: Path) -> None:
    entailer = make(f"nli:{onnx_classifier(tmp_path)}")
    assert entailer.name.startswith(f"nli {tmp_path.name}@")
    assert entailer.name.endswith(", onnx")
    assert judge_pairs(
        entailer,
        ("cat cat", "cat"),
        ("cat dog", "cat"),
        ("cat", "cat cat"),  # premise and hypothesis are not mixed up
        ("half a \ud800 pair cat cat", "cat"),
        ("cat cat cat", "bee " * 5 + "cat"),  # 8 tokens of 16, with those at its ends
        ("cat cat cat", "bee " * 6 + "cat"),
        *[(f"{'bee ' * n}cat cat", "cat") for n in range(40)],
    ) == [True, False, False, True, False, None] + [n < 11 for n in range(40)]
    assert judge_pairs(entailer) == []


def test_nli_name_follows_the_files_and_a_broken_model_is_named(tmp_path: Path) -> None:
    folder = onnx_classifier(tmp_path)
    first = make(f"nli:{folder}").name
    assert make(f"nli:{folder}").name == first
    (folder / "model.onnx").write_bytes(b"no model")
    broken = make(f"nli:{folder}")
    assert broken.name != first
    with pytest.raises(TargetError, match=rf"entailment model {broken.name}.* cannot be loaded or run"):
        judge_pairs(broken, ("cat", "cat"))


@pytest.mark.parametrize(
    ("lost", "kind", "message"),
    [
        ("tokenizer.json", "", r"has no tokenizer\.json"),
        ("config.json", "", "the labels of .* are: none"),
        ("model.onnx", "BertForMaskedLM", "is BertForMaskedLM"),
    ],
)
def test_nli_refuses_a_model_that_is_incomplete_or_of_another_kind(
    lost: str, kind: str, message: str, tmp_path: Path
) -> None:
    classifier(onnx_classifier(tmp_path), kind=kind)
    (tmp_path / lost).unlink()
    with pytest.raises(UsageError, match=message):
        make(f"nli:{tmp_path}")


def test_nli_calls_sentence_transformers_without_a_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Model:
        def __init__(self, name: str, **options: Any) -> None:
            assert (name, options) == (
                str(tmp_path),
                {"model_kwargs": {"use_safetensors": True}, "max_length": 16, "local_files_only": True},
            )

        def tokenizer(self, texts: list[str]) -> Any:
            return types.SimpleNamespace(input_ids=[["[CLS]", *text.split(), "[SEP]"] for text in texts])

        def predict(self, pairs: list[Pair], **options: Any) -> Any:
            return [[0.5, 0.5, float(claim in premise)] for premise, claim in pairs]

    install_transformers(monkeypatch, CrossEncoder=Model)
    entailer = make(f"nli:{classifier(tmp_path)}")
    assert judge_pairs(entailer, ("cat dog", "dog"), ("cat", "x " * 7), ("cat", "dog")) == [True, None, False]


def save_with_torch(folder: Path, model: str, config: dict[str, Any], single: str, *words: str) -> list[str]:
    """Saves a small `model` of transformers with random weights, the same for every call, and a tokenizer;
    returns its words.
    """
    library = pytest.importorskip("transformers", reason="the extra `nli` is not installed")
    torch = pytest.importorskip("torch", reason="the extra `nli` is not installed")
    from tests.support.word_models import VOCABULARY, word_tokenizer

    torch.manual_seed(7)
    vocabulary = {word: at for at, word in enumerate((*VOCABULARY, *words))}
    settings = getattr(library, f"{model.partition('For')[0]}Config")(vocab_size=len(vocabulary), **config)
    getattr(library, model)(settings).save_pretrained(folder)
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    library.PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer(vocabulary, single), eos_token="[SEP]", model_max_length=16, **names
    ).save_pretrained(folder)
    return list(vocabulary)


@pytest.mark.filterwarnings("ignore")
def test_nli_classifier_of_torch_has_exactly_one_label_and_cuts_only_the_premise(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    pairs = [(f"{a} {b}", c) for a in WORDS for b in WORDS for c in WORDS]
    columns = []
    for entailing in range(3):
        names = {at: "entailment" if at == entailing else f"other {at}" for at in range(3)}
        config = {**size, "max_position_embeddings": 16, "id2label": names, "initializer_range": 1.0}
        save_with_torch(tmp_path, "BertForSequenceClassification", config, "[CLS] $A [SEP]")
        entailer = make(f"nli:{tmp_path}")
        columns.append(judge_pairs(entailer, *pairs))
        head = "ape bee " * 6
        same, longer = judge_pairs(entailer, (head, "cat"), (head + "dog " * 50, "cat"))
        assert same is longer
        assert judge_pairs(entailer, ("ape", "cat " * 7)) == [None]
    assert all(sum(map(bool, verdicts)) == 1 for verdicts in zip(*columns, strict=True))
    assert len({tuple(verdicts) for verdicts in columns}) == 3


@pytest.mark.filterwarnings("ignore")
def test_nli_with_t5_reads_only_0_and_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    ends = {"pad_token_id": 0, "eos_token_id": 3, "decoder_start_token_id": 0}
    words = save_with_torch(
        tmp_path,
        "T5ForConditionalGeneration",
        size | ends,
        "$A [SEP]",
        "0",
        "1",
        "premise:",
        "hypothesis:",
    )
    prompts: list[str] = []

    def generate(self: Any, *, input_ids: Any, attention_mask: Any, **_: Any) -> Any:
        texts = [
            " ".join(words[id] for id in row[mask.bool()])
            for row, mask in zip(input_ids, attention_mask, strict=True)
        ]
        prompts.extend(texts)
        replies = {"ape": "1", "bee": "0"}  # by the premise's first word; any other has no verdict
        return input_ids.new_tensor(
            [[0, words.index(replies.get(text.split()[1], "elk")), 3] for text in texts]
        )

    monkeypatch.setattr("transformers.T5ForConditionalGeneration.generate", generate)
    pairs = [("ape", "cat"), ("bee dog", "cat"), ("dog", "cat"), ("ape " * 3000, "cat"), ("ape", "x " * 1100)]
    assert judge_pairs(make(f"nli:{tmp_path}"), *pairs) == [True, False, None, True, None]
    assert prompts[0] == "premise: ape hypothesis: cat [SEP]"
    assert len(prompts[-1].split()) == 2048
    assert prompts[-1].endswith("ape hypothesis: cat [SEP]")
