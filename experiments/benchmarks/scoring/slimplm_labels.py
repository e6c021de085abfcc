"""How SlimPLM's published labels come about: the rule of each data set, and where a ratio above .5 differs.

    python experiments/benchmarks/scoring/slimplm_labels.py FOLDER

FOLDER holds `v0104_mixed-llama7b-kiltbm25-{test,val}.jsonl.gz` and the same of v0118, from `user_intent_data`
of https://github.com/plageon/SlimPlm (Tan et al. 2024, arXiv:2402.12052). A row has a question, its gold
answers, the draft of Llama2-7B and the label `known`; some have the draft's perplexity, or ROUGE.

The paper labels by the matching ratio alone, known above .5. That is the rule of all of v0104 and of Natural
Questions in v0118. In v0118 the others have rules of their own: a ratio above .4 for ASQA and TriviaQA, whose
questions have many gold answers, the perplexity of the draft for MuSiQue and 2WikiMultihopQA, which have one,
and ROUGE-L for ELI5, whose answers are long. `from` and `below` bound the thresholds that give every label of
a data set. Ratios are computed here. Perplexities are those of the rows, because they need the model's
weights, and so is ROUGE-L, which `ragc.metrics.rouge` computes to the same figures.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragc.metrics.short_answer import slim_em
from ragc.training.data.slimplm import is_known

PLAIN = 0.5
"""The threshold of the paper."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """One row: release, data set, what its label may rest on, and the label."""

    release: str
    dataset: str
    ratio: float
    perplexity: float | None
    rouge: float | None
    known: bool


@dataclass(frozen=True, slots=True)
class Rule:
    """A score by name with a threshold; `above` says that known ones are above it."""

    score: str
    threshold: float
    above: bool = True

    def gives(self, row: Labelled) -> bool:
        """The label of `row`."""
        value = getattr(row, self.score)
        if value is None:
            raise ValueError(f"a row of {row.dataset} has no {self.score}")
        return is_known(value, self.threshold) if self.above else bool(value < self.threshold)


RULES: Mapping[tuple[str, str], Rule] = {
    ("v0104", "nq"): Rule("ratio", PLAIN),
    ("v0104", "triviaqa"): Rule("ratio", PLAIN),
    ("v0104", "hotpotqa"): Rule("ratio", PLAIN),
    ("v0104", "asqa"): Rule("ratio", PLAIN),
    ("v0118", "nq"): Rule("ratio", PLAIN),
    ("v0118", "triviaqa"): Rule("ratio", 0.4),
    ("v0118", "asqa"): Rule("ratio", 0.4),
    ("v0118", "musique"): Rule("perplexity", 5.41, above=False),
    ("v0118", "2wiki"): Rule("perplexity", 3.7, above=False),
    ("v0118", "eli5"): Rule("rouge", 0.136),
}
"""By release and data set the rule that gives every label."""


def dataset_of(row: Mapping[str, Any]) -> str:
    """The data set of a row, by its columns and the form of its id."""
    if "qa_pairs" in row:
        return "asqa"
    if "question_decomposition" in row:
        return "musique"
    if "supporting_facts" in row:
        return "2wiki"
    if "rouge" in row:
        return "eli5"
    id = str(row["id"])
    if id.lstrip("-").isdigit():
        return "nq"
    return "hotpotqa" if len(id) == 24 and all(c in "0123456789abcdef" for c in id) else "triviaqa"


def golds_of(row: Mapping[str, Any]) -> list[str]:
    """The short gold answers, aliases among them; none for long ones."""
    if "short_answers" in row:
        return list(row["short_answers"])
    answer = row.get("answer", [])
    return list(answer) if isinstance(answer, list) else [answer]


def read(folder: Path) -> Iterator[Labelled]:
    """The labelled rows of both releases."""
    for release in ("v0104", "v0118"):
        for split in ("test", "val"):
            path = folder / f"{release}_mixed-llama7b-kiltbm25-{split}.jsonl.gz"
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for line in lines:
                    row = json.loads(line)
                    draft = row["llama7b_without_search_answer"]
                    golds = golds_of(row)
                    yield Labelled(
                        release,
                        dataset_of(row),
                        slim_em(draft, golds),
                        row.get("ppl"),
                        row["rouge"]["rougeL"] if "rouge" in row else None,
                        row["known"],
                    )


def admissible(rows: Sequence[Labelled], rule: Rule) -> tuple[float, float] | None:
    """The thresholds from which and below which the score of `rule` gives every label; None without any."""
    known = [getattr(row, rule.score) for row in rows if row.known]
    unknown = [getattr(row, rule.score) for row in rows if not row.known]
    low, high = (max(unknown), min(known)) if rule.above else (max(known), min(unknown))
    return (low, high) if low < high else None


def by_dataset(rows: Sequence[Labelled]) -> dict[tuple[str, str], list[Labelled]]:
    """The rows of each release and data set, in the order of `RULES`."""
    groups: dict[tuple[str, str], list[Labelled]] = {key: [] for key in RULES}
    for row in rows:
        groups[row.release, row.dataset].append(row)
    return groups


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    groups = by_dataset(list(read(parser.parse_args(arguments).folder)))
    print("release  data set   rows  known  ratio > .5    rule                   agrees       from     below")
    for (release, dataset), rows in groups.items():
        rule = RULES[release, dataset]
        plain = sum(is_known(row.ratio, PLAIN) == row.known for row in rows)
        agrees = sum(rule.gives(row) == row.known for row in rows)
        limits = admissible(rows, rule)
        low, high = limits or (math.nan, math.nan)
        sign = ">" if rule.above else "<"
        print(
            f"{release}    {dataset:<9} {len(rows):>5} {sum(row.known for row in rows):>6}  "
            f"{plain:>4} ({plain / len(rows):5.1%})  {rule.score + f' {sign} {rule.threshold:g}':<21}  "
            f"{agrees:>4} ({agrees / len(rows):5.1%})  {low:8.4f} {high:8.4f}"
        )
    rest = [row for (_, _), rows in groups.items() for row in rows if is_known(row.ratio, PLAIN) != row.known]
    print(f"\n{len(rest)} labels that a ratio above .5 does not give, by cause:")
    causes = {
        "ratio": "a lower threshold of the ratio",
        "perplexity": "perplexity decides",
        "rouge": "ROUGE-L decides",
    }
    for score, cause in causes.items():
        for (release, dataset), rows in groups.items():
            if RULES[release, dataset].score == score:
                n = sum(is_known(row.ratio, PLAIN) != row.known for row in rows)
                if n:
                    print(f"  {cause:<32} {release} {dataset:<9} {n:>4} of {len(rows)}")


if __name__ == "__main__":
    main()
