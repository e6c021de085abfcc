"""Entailment backends: the rule on words, the judge, and models of natural language inference."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import zlib
from collections.abc import Mapping, Sequence
from importlib import import_module
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


def missing(*libraries: str) -> bool:
    return any(importlib.util.find_spec(library) is None for library in libraries)


needs_onnx = pytest.mark.skipif(
    missing("onnxruntime", "tokenizers"), reason="the extra `dense` is not installed"
)
needs_torch = pytest.mark.skipif(missing("torch", "transformers"), reason="the extra `nli` is not installed")
LABELS = {"0": "ENTAILMENT", "1": "neutral", "2": "contradiction"}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "proof", "claim", "denied", "0", "1", "premise:", "hypothesis:"]

# logits = sum over tokens of table[id + 8 * type]: [SEP] behind a premise speaks for neutral (0.5), "proof"
# in a premise for entailment (1), "denied" in a hypothesis for contradiction (5). Made with onnx.helper.
TINY_ONNX = """
eNrFUrFOwzAQjZukdU6iDS5DQXQxA1ImZpZCGZAisYBYulRpczRW0iTUF1UwsfMT/RQ+gT+CJmmlojKw8QZb997Jfr5nzi/fbTiD
NmUxpmN6yXGsQg02qllEwtaReiJp3hUJnIKj0rygWq8EYS6ypTSvwxBOwKZgkiCUlLAwmEayeRtQhAs4h3ZAhCmpLB3PAx0LK8ac
pHUTaPIcaFDWYyvWgD5UAljJWhDWUoUoncdUPxeIrwg9qM6FSii9Zcu09nYBdQVmlqJoJtlMkZbOPYbFFB+KudcBHiPmoZrrnrG+
SrCZ98m4y02XDWvn/gcz/o5Bvb0NjH/F6mq38rpua1hH53O+JY84W9PVTH3+tYHXrdhyXj7fPnzU38lYuNDmLQFgCjYpFxrJvSB/
7fn5l/Z7JsewiUh04IAz4dRag5tDCwz38Bv1Enip
"""


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
        (LABELS, 0),
        ({"0": "contradiction", "1": "neutral", "2": "entailment"}, 2),
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
    with pytest.raises(UsageError, match="has a label called entailment beside another; the labels of m are"):
        entailment_label({"id2label": labels}, "m")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("./none", "folder is needed"),
        (".", r"holds config\.json"),
        ("nobody/no-such-model-of-ours", "neither a folder nor in the Hugging Face cache.*hf download"),
    ],
)
def test_a_model_that_is_not_here_is_not_fetched(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=says):
        make(f"nli:{name}")


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    classifier_folder(tmp_path, onnx=False)
    with pytest.raises(UsageError, match=r"needs torch, .* pip install .ragc\[nli\]."):
        make(f"nli:{tmp_path}")
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(UsageError, match=r"needs onnxruntime, .* pip install .ragc\[dense\]."):
        make(f"nli:{tmp_path}")


def classifier_folder(
    folder: Path, *, onnx: bool, limit: int = 16, labels: Mapping[str, str] = LABELS
) -> Path:
    """A folder with what a classifier says of itself, and the ONNX model above if asked."""
    kind = "BertForSequenceClassification"
    config = {"architectures": [kind], "id2label": labels, "max_position_embeddings": limit}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": limit}))
    if onnx:
        (folder / "model.onnx").write_bytes(zlib.decompress(base64.b64decode(TINY_ONNX)))
        word_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def word_tokenizer(pair: str = "[CLS] $A:0 [SEP]:0 $B:1 [SEP]:1", single: str = "[CLS] $A [SEP]") -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


@needs_onnx
def test_a_model_in_onnx_form_tells_entailment(tmp_path: Path) -> None:
    entailer = make(f"nli:{classifier_folder(tmp_path, onnx=True)}")
    assert entailer.name.startswith(f"nli {tmp_path.name}@")
    assert entailer.name.endswith(", onnx")
    many = [(f"{'word ' * n}proof", "claim") for n in range(40)]
    assert judge_pairs(
        entailer,
        ("proof", "claim"),
        ("nothing", "claim"),
        ("proof", "denied"),  # the other label
        ("claim", "proof"),  # premise and hypothesis are not mixed up
        ("proof", "x " * 13),  # no room for a premise
        ("proof", "x " * 12),
        ("half a \ud800 pair proof", "claim"),
        *many,
    ) == [True, False, False, False, None, True, True] + [
        n < 12 for n in range(40)
    ]  # only its beginning is read


@needs_onnx
def test_the_name_follows_the_files_and_a_broken_model_is_said(tmp_path: Path) -> None:
    folder = classifier_folder(tmp_path, onnx=True)
    first = make(f"nli:{folder}").name
    assert make(f"nli:{folder}").name == first
    (folder / "model.onnx").write_bytes(b"no model")
    broken = make(f"nli:{folder}")
    assert broken.name != first
    with pytest.raises(TargetError, match="cannot be loaded or run"):
        judge_pairs(broken, ("proof", "claim"))


@needs_onnx
def test_an_onnx_model_without_its_tokenizer_is_refused(tmp_path: Path) -> None:
    (classifier_folder(tmp_path, onnx=True) / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match=r"tokenizer\.json beside it"):
        make(f"nli:{tmp_path}")


def torch_classifier(folder: Path, labels: Mapping[str, str]) -> Path:
    """A BERT with random weights, the same for every call."""
    library = import_module("transformers")
    import_module("torch").manual_seed(7)
    config = library.BertConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        id2label={int(at): name for at, name in labels.items()},
        label2id={name: int(at) for at, name in labels.items()},
        initializer_range=1.0,
    )
    library.BertForSequenceClassification(config).save_pretrained(folder)
    library.PreTrainedTokenizerFast(
        tokenizer_object=word_tokenizer(),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=16,
    ).save_pretrained(folder)
    return folder


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_a_classifier_of_transformers_says_yes_under_exactly_one_of_its_labels(tmp_path: Path) -> None:
    pairs = [(f"{a} {b}", c) for a in WORDS[4:9] for b in WORDS[4:7] for c in WORDS[4:9]]
    columns = []
    for at in range(3):
        names = {str(n): "entailment" if n == at else f"other {n}" for n in range(3)}
        folder = tmp_path / str(at)
        folder.mkdir()
        entailer = make(f"nli:{torch_classifier(folder, names)}")
        columns.append(judge_pairs(entailer, *pairs))
    assert all(sum(map(bool, verdicts)) == 1 for verdicts in zip(*columns, strict=True))
    assert len({tuple(verdicts) for verdicts in columns}) == 3


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_a_classifier_of_transformers_loses_only_the_end_of_a_premise(tmp_path: Path) -> None:
    entailer = make(f"nli:{torch_classifier(tmp_path, LABELS)}")
    head = "proof " * 12
    same, longer = judge_pairs(entailer, (head, "claim"), (head + "denied " * 50, "claim"))
    assert same is longer
    assert judge_pairs(entailer, ("proof", "claim " * 13)) == [None]
    assert judge_pairs(entailer, ("proof", "claim " * 12)) != [None]


@needs_torch
@pytest.mark.filterwarnings("ignore")
def test_a_t5_model_is_told_as_true_is_and_only_one_and_nought_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = import_module("transformers")
    config = library.T5Config(
        vocab_size=len(WORDS),
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        pad_token_id=0,
        eos_token_id=3,
        decoder_start_token_id=0,
    )
    library.T5ForConditionalGeneration(config).save_pretrained(tmp_path)
    tokenizer = word_tokenizer("$A [SEP] $B [SEP]", "$A [SEP]")
    library.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", eos_token="[SEP]"
    ).save_pretrained(tmp_path)
    prompts: list[list[int]] = []

    def generate(self: Any, *, input_ids: Any, attention_mask: Any, **_: Any) -> Any:
        prompts.extend(row[mask.bool()].tolist() for row, mask in zip(input_ids, attention_mask, strict=True))
        replies = {4: [0, 8, 3], 5: [0, 7, 3]}  # by the premise's first word: 1, 0, or something else
        return input_ids.new_tensor([replies.get(int(row[row != 0][1]), [0, 6, 3]) for row in input_ids])

    monkeypatch.setattr(library.T5ForConditionalGeneration, "generate", generate)
    pairs = [("proof", "claim"), ("claim denied", "claim"), ("denied", "claim"), ("proof " * 3000, "claim")]
    assert judge_pairs(make(f"nli:{tmp_path}"), *pairs) == [True, False, None, True]
    assert prompts[0] == [
        WORDS.index(word) for word in ("premise:", "proof", "hypothesis:", "claim", "[SEP]")
    ]
    assert len(prompts[-1]) == 2048
    assert prompts[-1][-3:] == prompts[0][-3:]


@needs_torch
def test_a_model_of_another_kind_is_refused(tmp_path: Path) -> None:
    classifier_folder(tmp_path, onnx=False)
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["BertForMaskedLM"]}))
    with pytest.raises(UsageError, match="is BertForMaskedLM"):
        make(f"nli:{tmp_path}")
