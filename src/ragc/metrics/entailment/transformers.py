"""Entailment models run with transformers: classifiers, and T5 models that write 1 for entailed.

They run on the GPU if torch finds one, in the precision of their files.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from ragc.metrics.entailment.base import Pair, Verdict, batches, longest

GENERATOR_TOKENS = 2048
"""Context of a T5 model in tokens: it has no limit of its own, but memory has."""

_REPLY_TOKENS = 10  # ALCE's limit; TRUE writes one


class Classifier:
    """The sequence-classification model in `folder`; entailed if label `entailment` has the greatest score.

    Errors of transformers and torch propagate.
    """

    def __init__(self, folder: Path, entailment: int) -> None:
        self._model, self._tokenizer = _load_model("AutoModelForSequenceClassification", folder)
        self._entailment = entailment
        self._longest = longest(folder, self._model.config.to_dict())

    def verdicts(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """Returns a verdict for each of `pairs`, in order; None if no premise fits beside the hypothesis."""
        extra = self._tokenizer.num_special_tokens_to_add(pair=True)
        sizes = _sizes(self._tokenizer, pairs)
        readable = [at for at, (_, claim) in enumerate(sizes) if claim + extra < self._longest]
        verdicts: list[Verdict] = [None] * len(pairs)
        for batch in batches([sum(sizes[at]) for at in readable]):
            chosen = [readable[at] for at in batch]
            inputs = self._tokenizer(
                [pairs[at][0] for at in chosen],
                [pairs[at][1] for at in chosen],
                truncation="only_first",
                max_length=self._longest,
                padding=True,
                return_tensors="pt",
            ).to(self._model.device)
            with import_module("torch").inference_mode():
                scores = self._model(**inputs).logits
            for at, best in zip(chosen, scores.argmax(dim=-1).tolist(), strict=True):
                verdicts[at] = best == self._entailment
        return verdicts


class Generator:
    """A T5 model of the TRUE kind in `folder`: for "premise: P hypothesis: H" it writes 1 or 0.

    Any other output is an unreadable verdict (None). Errors of transformers and torch propagate.
    """

    def __init__(self, folder: Path) -> None:
        self._model, self._tokenizer = _load_model("AutoModelForSeq2SeqLM", folder)

    def verdicts(self, pairs: Sequence[Pair]) -> list[Verdict]:
        """Returns a verdict for each of `pairs`, in order; None if no premise fits beside the hypothesis."""
        token_ids = [self._encode_pair(premise, claim) for premise, claim in pairs]
        readable = [at for at, ids in enumerate(token_ids) if ids]
        verdicts: list[Verdict] = [None] * len(pairs)
        for batch in batches([len(token_ids[at]) for at in readable]):
            chosen = [readable[at] for at in batch]
            for at, reply in zip(chosen, self._generate([token_ids[at] for at in chosen]), strict=True):
                verdicts[at] = {"1": True, "0": False}.get(reply.strip())
        return verdicts

    def _encode_pair(self, premise: str, claim: str) -> list[int]:
        """Returns the tokens of a pair, its premise truncated if needed; [] without space for a premise."""
        premise_ids = self._tokenizer(f"premise: {premise}", add_special_tokens=False).input_ids
        claim_ids = self._tokenizer(f"hypothesis: {claim}").input_ids
        premise_limit = GENERATOR_TOKENS - len(claim_ids)
        return [*premise_ids[:premise_limit], *claim_ids] if premise_limit > 0 else []

    def _generate(self, batch: Sequence[Sequence[int]]) -> list[str]:
        inputs = self._tokenizer.pad(
            {"input_ids": [list(ids) for ids in batch]}, padding=True, return_tensors="pt"
        ).to(self._model.device)
        with import_module("torch").inference_mode():
            out = self._model.generate(
                input_ids=inputs.input_ids,
                attention_mask=inputs.attention_mask,
                max_new_tokens=_REPLY_TOKENS,
                do_sample=False,
                num_beams=1,
            )
        return [str(text) for text in self._tokenizer.batch_decode(out, skip_special_tokens=True)]


def _load_model(kind: str, folder: Path) -> tuple[Any, Any]:
    """Returns the model, ready to run, and its tokenizer, from files of `folder` only."""
    torch, library = import_module("torch"), import_module("transformers")
    # Explicit, since the libraries would otherwise ask on the terminal whether to run a model's code.
    own: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    tokenizer = library.AutoTokenizer.from_pretrained(str(folder), **own)
    model = getattr(library, kind).from_pretrained(str(folder), use_safetensors=True, dtype="auto", **own)
    return model.eval().to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer


def _sizes(tokenizer: Any, pairs: Sequence[Pair]) -> list[tuple[int, int]]:
    """Returns the number of tokens of each premise and hypothesis, without special ones."""
    token_ids = [
        tokenizer(list(texts), add_special_tokens=False, verbose=False).input_ids
        for texts in zip(*pairs, strict=True)
    ]
    return [(len(premise), len(claim)) for premise, claim in zip(*token_ids, strict=True)]
