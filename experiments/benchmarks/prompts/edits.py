"""What becomes of hand edits of prompts: how many are sent, how many refused, and whether any is lost.

python experiments/benchmarks/prompts/edits.py

The edits are those of `tests/prompts/edits.jsonl`, each applied to a prompt of one of three programs in one
of eight forms. A word that an edit adds must stand in what is sent or in the refusal; one that it removes
must be gone, or stand in the refusal.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.prompts.test_edits import edits, fold, outcome


def main() -> None:
    """Try every edit, and print the counts by form and each edit that was lost."""
    sent_by, refused_by, lost = Counter[str](), Counter[str](), []
    with tempfile.TemporaryDirectory() as folder:
        for case in edits():
            edit = case.values[0]
            sent, refusal = outcome(edit, Path(folder))
            (refused_by if refusal else sent_by)[edit["form"]] += 1
            absent = [w for w in edit["arrives"] if fold(w) not in sent and fold(w) not in refusal]
            still = [w for w in edit["gone"] if fold(w) in sent and fold(w) not in refusal]
            lost += [(edit["id"], word) for word in (*absent, *still)]
    for form in sorted(sent_by | refused_by):
        sys.stdout.write(f"{form:<18} {sent_by[form]:>4} sent {refused_by[form]:>4} refused\n")
    sys.stdout.write(f"{sent_by.total()} sent, {refused_by.total()} refused, {len(lost)} lost {lost}\n")


if __name__ == "__main__":
    main()
