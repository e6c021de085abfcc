"""A folder with a recipe of some feature, the command line over it, and a provider that counts."""

from __future__ import annotations

import os
import re
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests import processes
from tests.laws.features import Feature
from tests.support.loopback import MODEL
from tests.support.loopback_world import write_data
from tests.support.names import BEST, COMMAND, RESUME, RUN, STUDIES, environment, price
from tests.support.priced_provider import Account, PricedProvider
from tests.support.rows import read_rows, write_rows

ACCOUNT = "laws"
HOME_FOLDER = "home"
IN_FLIGHT = 3
LOST = 3 * IN_FLIGHT
"""Requests in flight at most when a process is killed: a question of Self-RAG sends several at once."""
KEYS = {
    "OPENAI_API_KEY": "sk-proj-0123456789abcdefABCDEF",
    "ANTHROPIC_API_KEY": "sk-ant-api03-zyxwvu9876543210",
    "HF_TOKEN": "hf_AbCdEfGhIjKlMnOpQrStUvWx",
    "MY_OWN_WORDS": "plain/words+not&like=a-key",
}
"""Variables with keys in the environment of every command; the recipe sends the last one."""
RECIPE = f"""
program = "vanilla"
seed = 5
concurrency = {IN_FLIGHT}
[search]
knobs = ["top_k", "query_pos"]
demos = 2
trials = 4
batch = 2
objectives = ["em"]
[metrics]
report = ["em", "f1", "usd"]
[sources.local]
kind = "bm25"
[targets.main]
kind = "vllm"
model = "{MODEL}"
base_url = "%s"
[targets.main.options]
api_key_env = "MY_OWN_WORDS"
tries = 3
price = {{input = 1.0, output = 4.0}}
[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
"""
PRICE = price(input=1.0, output=4.0)

MESSAGE = re.compile(r"ragc: [^\n]+[;.,:] [^\n]+\.|ragc: http[^\n]+\.")
"""A message: one line that ends in a full stop, with what is wrong and a way out.

The way out of what a server did is --resume, which a line before the message names.
"""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str

    @property
    def messages(self) -> list[str]:
        return [line for line in self.err.splitlines() if line.startswith("ragc: ")]


@dataclass
class World:
    """The recipe of a feature in `folder`, whose requests are counted by `account`.

    All worlds ask at one address, as that is part of what they write.
    """

    folder: Path
    feature: Feature
    account: Account
    provider: PricedProvider
    shown: list[str] = field(default_factory=list)

    @property
    def spent(self) -> dict[str, float]:
        """What the provider is owed, by key of a budget."""
        account = self.account
        return {"lm_calls": account.calls, "tokens": account.tokens, "usd": account.usd}

    def run(self, *words: str, killed_at: int = 0, by: int = signal.SIGKILL, outage_at: int = 0) -> Ended:
        """Runs `ragc WORDS` to its end, or until the signal `by` at the request `killed_at` of this run.

        From the request `outage_at` of the account on the provider only fails.
        """
        ids: list[int] = []
        deadly = self.account.arrived + killed_at if killed_at else 0

        def arrival(number: int) -> None:
            if number == deadly:
                while not ids:
                    time.sleep(0.001)
                os.kill(ids[0], by)
            if number == outage_at:
                self.account.down = True

        self.account.arrival = arrival
        self.provider.accounts[ACCOUNT] = self.account
        variables = environment(self.folder / HOME_FOLDER, {"PYTHONPATH": processes.PATH, **KEYS})
        process = processes.start([*COMMAND, *words], cwd=self.folder, environment=variables, forked=True)
        ids.append(process.pid)
        out, err = process.communicate(timeout=120)
        ended = Ended(process.wait(), out, err)
        self.provider.wait_until_left()
        self.shown += [out, err]
        assert "Traceback" not in err
        for message in ended.messages:
            assert MESSAGE.fullmatch(message), err
        return ended

    def compile(self, *words: str, out: str = "out", resume: bool = False, **moments: int) -> Ended:
        """Compiles the recipe to `out` with the options of the feature and `words`, as `run`."""
        sets = [word for override in self.feature.sets for word in ("--set", override)]
        options = (*sets, *([RESUME] if resume else self.feature.options), *words)
        return self.run("compile", "recipe.toml", "--out", out, *options, **moments)

    def best(self) -> list[dict[str, bytes]]:
        """The files of the leader's compiled program in the study; DSPy's optimizers keep none."""
        found = (self.folder / HOME_FOLDER / STUDIES).glob(f"*/{BEST}")
        return [self.written(best.relative_to(self.folder).as_posix()) for best in found]

    def written(self, out: str = "out") -> dict[str, bytes]:
        """The files of the compiled program in `out` that are the same in every run."""
        folder = self.folder / out
        held = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
        return {name: path.read_bytes() for name, path in held.items() if Path(name).name != RUN}

    def assert_no_key(self) -> None:
        """No key of the environment was shown or stands in any file."""
        for name, key in KEYS.items():
            assert not [text for text in self.shown if key in text], name
            files = [path for path in self.folder.rglob("*") if path.is_file()]
            assert not [path for path in files if key.encode() in path.read_bytes()], name


def make_world(folder: Path, feature: Feature, provider: PricedProvider, faults: float = 0.0) -> World:
    """Writes the recipe and the data of `feature` into `folder`, with an account that is empty."""
    write_data(folder, *feature.sizes)
    questions = read_rows(folder / "questions.jsonl")
    for number, row in enumerate(questions):
        if feature.grouped:
            row["document"] = f"page {number // 2}"
        if feature.unsplit:
            del row["split"]
    write_rows(folder / "questions.jsonl", questions)
    text = RECIPE % provider.url(ACCOUNT)
    text += '[data.fields]\ngroup = "document"\n' * feature.grouped
    (folder / "recipe.toml").write_text(text, "utf-8")
    for file, content in feature.files.items():
        (folder / file).write_text(content, "utf-8")
    return World(folder, feature, Account(PRICE, faults, feature.reasoning), provider)
