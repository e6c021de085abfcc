"""Runs the command line on damaged input, many times in one process, and says what went wrong.

    python -m tests.security.fuzzing SUBJECT --count 300 --seed 7 --folder EMPTY_FOLDER

The process may not harm the machine whatever happens: an audit hook refuses to change files outside of the
folder, to start programs and to speak to other machines, and notes the attempt.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shutil
import signal
import socketserver
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragc.core import outputs
from tests.security.mutations import (
    NASTY_TEXTS,
    bytes_changed,
    levels_of,
    nasty_value,
    parses,
    tokens_changed,
    value_changed,
)
from tests.support.rows import write_rows

PATIENCE_S = 10
"""After so many seconds a run is interrupted, as by Ctrl-C."""

RECIPE = """
program = "vanilla"
seed = 3
concurrency = 4
[search]
knobs = ["top_k"]
demos = 1
trials = 2
batch = 2
objectives = ["f1"]
[data]
questions = "questions.jsonl"
corpus = "corpus.jsonl"
train = 4
dev = 4
test = 4
[sources.local]
kind = "bm25"
[targets.main]
kind = "vllm"
model = "scripted"
base_url = "{url}"
options = {{ tries = 1, timeout_s = 1.0, context_tokens = 4096, has = ["schema"] }}
[metrics]
report = ["f1", "em", "recall@5"]
[budget]
lm_calls = 200
"""

FOREIGN = {
    "thesis.txt": "five years of work",
    "compiled/notes.txt": "what I thought of this one",
    "compiled/prompts/mine.md": "my own prompt",
    "other/program.json": '{"name": "another program\'s file"}',
    "other/recipe.toml": "a = 1\n",
    "out": "a file in the way",
}
"""Files that are not ragc's."""


@dataclass
class Report:
    """What came of one subject's runs."""

    subject: str
    seed: int
    runs: int = 0
    parsed: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    interrupted: int = 0
    faults: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "statuses": dict(self.statuses)}


class Refused(PermissionError):
    """The audit hook's answer."""


class Warden:
    """Refuses to change files outside of `folder`, to start processes and to reach other machines."""

    CHANGES = frozenset(
        {"os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.link", "os.symlink"}
    )
    STARTS = frozenset({"subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork", "pty.spawn"})
    HERE = ("127.", "::1", "localhost")

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder.resolve())
        self.attempts: list[str] = []

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if event in self.STARTS:
            self.attempts.append(f"started a process: {event} {str(args[:2])[:200]}")
            raise Refused(13, "the warden starts no process")
        if event == "socket.connect" and isinstance(args[1], tuple):
            if not str(args[1][0]).startswith(self.HERE):
                raise Refused(101, "Network is unreachable")
        elif event == "socket.getaddrinfo" and not str(args[0] or "localhost").startswith(self.HERE):
            raise OSError(-2, "Name or service not known")
        elif event == "open":
            path, mode, flags = args
            writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (flags or 0) & (
                os.O_WRONLY | os.O_RDWR
            )
            if writes and isinstance(path, str | bytes):
                self._check(event, path)
        elif event in self.CHANGES:
            for path in args[: 2 if event in ("os.rename", "os.link") else 1]:
                if isinstance(path, str | bytes):
                    self._check(event, path)

    def _check(self, event: str, path: str | bytes) -> None:
        try:
            parent = os.path.join(os.path.realpath(os.path.dirname(os.fsdecode(path))), "")  # noqa: PTH118, PTH120
        except ValueError:
            return  # a NUL: the system call refuses it
        if not parent.startswith((self.folder + os.sep, "/dev/", "/proc/self/")):
            raise Refused(13, f"the warden keeps {parent}: {event}")


def completion(text: str) -> bytes:
    """The body of a chat completion that says `text`."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}
    body = {"id": "c1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice]}
    return json.dumps({**body, "usage": usage}).encode()


MODELS = json.dumps(
    {"object": "list", "data": [{"id": "scripted", "object": "model", "max_model_len": 4096}]}
).encode()


def http(body: bytes) -> bytes:
    """A whole HTTP response around `body`."""
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Server(socketserver.ThreadingTCPServer):
    """Speaks as much of OpenAI's API as is needed; `damage` changes the bytes of a whole response.

    A damaged one ends its connection, so that a client sees the end of a body that is shorter than it said.
    """

    daemon_threads = allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.damage: Callable[[bytes], bytes] | None = None
        self.answer = '{"answer": "red"}'
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Handler(socketserver.StreamRequestHandler):
    server: Server  # pyright: ignore[reportIncompatibleVariableOverride]
    timeout = 10

    def handle(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while head := self.rfile.readline():
                length = 0
                while (line := self.rfile.readline()).strip():
                    name, _, value = line.partition(b":")
                    if name.strip().lower() == b"content-length":
                        length = int(value)
                self.rfile.read(length)
                response = http(completion(self.server.answer) if head.startswith(b"POST") else MODELS)
                if head.startswith(b"POST") and self.server.damage:
                    self.wfile.write(self.server.damage(response))
                    return
                self.wfile.write(response)


class World:
    """A folder with a recipe, its data, a compiled program, a study and files of somebody else."""

    def __init__(self, folder: Path, server: Server) -> None:
        self.folder, self.server = folder, server
        self.work = folder / "work"
        self.fresh = folder / "fresh"
        os.environ["RAGC_HOME"] = str(folder / "home")
        os.environ["HOME"] = os.environ["TMPDIR"] = str(folder)
        self.fresh.mkdir(parents=True)
        (self.fresh / "recipe.toml").write_text(RECIPE.format(url=server.url), "utf-8")
        colours = ("red", "green", "blue")
        self._rows(
            "corpus.jsonl",
            [{"id": f"d{i}", "title": f"T{i}", "text": f"Thing {i} is {colours[i % 3]}."} for i in range(12)],
        )
        self._rows(
            "questions.jsonl",
            [
                {
                    "id": f"q{i}",
                    "question": f"What is thing {i}?",
                    "answers": [colours[i % 3]],
                    "gold_ids": [f"d{i}"],
                }
                for i in range(12)
            ],
        )
        shutil.copytree(self.fresh, self.work)
        os.chdir(self.work)
        status, output = run(["compile", "recipe.toml", "--out", "compiled"], 120)
        assert status == "0", output
        status, output = run(["eval", "compiled", "--split", "dev", "--out", "rows.jsonl"], 120)
        assert status == "0", output
        status, output = run(["grid", "recipe.toml", "--out", "grid", "--set", "grid.sample=2"], 120)
        assert status == "0", output
        shutil.copytree(self.work, self.fresh, dirs_exist_ok=True, symlinks=True)
        for name, text in FOREIGN.items():
            path = self.fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        shutil.copytree(folder / "home" / "studies", folder / "studies", symlinks=True)

    def _rows(self, name: str, rows: Sequence[dict[str, Any]]) -> None:
        write_rows(self.fresh / name, rows)

    @property
    def studies(self) -> Path:
        return self.folder / "home" / "studies"

    def renew(self) -> None:
        """Everything as it was before any damage; only the store stays."""
        os.chdir(self.folder)
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.fresh, self.work, symlinks=True)
        shutil.rmtree(self.studies, ignore_errors=True)
        shutil.copytree(self.folder / "studies", self.studies, symlinks=True)
        os.chdir(self.work)

    def harmed(self, but: Path | None = None) -> list[str]:
        """Foreign files that are gone or changed; `but` was damaged on purpose."""
        return [
            name
            for name, text in FOREIGN.items()
            if self.work / name != but
            and (not (self.work / name).is_file() or (self.work / name).read_text("utf-8") != text)
        ]


class _Interrupted(KeyboardInterrupt):
    """Patience is at an end."""


@contextlib.contextmanager
def patience(seconds: int) -> Iterator[None]:
    """Interrupt what takes longer than that."""

    def ring(*_: object) -> None:
        raise _Interrupted

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(argv: Sequence[str], seconds: int = PATIENCE_S) -> tuple[str, str]:
    """The exit status of one command line, or the name of what escaped, and all that was printed."""
    from ragc.cli.main import main

    out = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)  # as Python's own
    status = ""
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with patience(seconds):
                status = str(main(list(argv)))
        except SystemExit as stop:
            status = str(stop.code or 0)
        except BaseException as error:
            status = f"{type(error).__name__} escaped"
            err.write("".join(traceback.format_exception(error)))
    texts = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in (out, err)]
    return status, "\n".join(texts)


def compiled_files(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.rglob("*") if path.is_file() and path.name not in ("notes.txt", "mine.md")
    )


def damage_file(path: Path, draw: random.Random) -> bool:
    """Change the file at `path`; whether it still parses."""
    data = draw.choice(levels_of(path.name))(path.read_bytes(), draw)
    path.write_bytes(data)
    return parses(path.name, data)


def recipe_case(world: World, draw: random.Random) -> tuple[list[str], bool, Path | None]:
    name = draw.choice(["recipe.toml"] * 4 + ["questions.jsonl", "corpus.jsonl"])
    parsed = damage_file(world.work / name, draw)
    command = draw.choice(
        (
            ["compile", "recipe.toml", "--out", "new", "--dry-run"],
            ["compile", "recipe.toml", "--out", "new"],
            ["compile", "recipe.toml", "--out", "compiled"],
            ["ask", "recipe.toml", "What is thing 3?"],
            ["eval", "recipe.toml", "--split", "dev", "--json"],
            ["index", "recipe.toml"],
        )
    )
    return command, parsed, world.work / name


def compiled_case(world: World, draw: random.Random) -> tuple[list[str], bool, Path | None]:
    path = draw.choice(compiled_files(world.work / "compiled"))
    parsed = damage_file(path, draw)
    trust = draw.choice(([], [], ["--trust-targets"], ["--trust-targets", "--trust-code"]))
    command = draw.choice(
        (
            ["ask", "compiled", "What is thing 3?", *trust],
            ["ask", "compiled", "What is thing 4?", "--trace", *trust],
            ["eval", "compiled", "--split", "dev", *trust],
            ["export", "compiled", "--to", "all", "--out", "exported"],
            ["export", "compiled", "--to", "python", "--out", "exported.py"],
            ["trust", "compiled", "--yes"],
            ["study", "status", "compiled"],
            ["compile", "recipe.toml", "--out", "compiled"],
        )
    )
    return command, parsed, path


def grid_case(world: World, draw: random.Random) -> tuple[list[str], bool, Path | None]:
    path = draw.choice(compiled_files(world.work / "grid"))
    parsed = damage_file(path, draw)
    if draw.random() < 0.5:  # as a forger would, who lists the digest of what is there
        relist(world.work / "grid")
    command = draw.choice(
        (
            ["grid", "recipe.toml", "--out", "grid", "--set", "grid.sample=3"],
            ["grid", "recipe.toml", "--out", "grid", "--set", "grid.sample=3", "--dry-run"],
        )
    )
    return command, parsed, path


def relist(grid: Path) -> None:
    """Lists the files of `grid` in its manifest with the digests that they have."""
    card = grid / "provenance.json"
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        facts = json.loads(card.read_bytes())
        files = {name: (grid / name).read_bytes() for name in facts["files"] if name != card.name}
        card.write_bytes(outputs.with_manifest(card.name, facts, files)[card.name])


def study_case(world: World, draw: random.Random) -> tuple[list[str], bool, Path | None]:
    path = draw.choice(
        sorted(path for path in world.studies.rglob("*") if path.is_file() and path.suffix != ".lock")
    )
    parsed = damage_file(path, draw)
    command = draw.choice(
        (
            ["study", "status", "compiled"],
            ["study", "status", "compiled", "--json"],
            ["compile", "recipe.toml", "--out", "compiled", "--resume"],
            ["compile", "recipe.toml", "--out", "compiled"],
            ["doctor"],
        )
    )
    return command, parsed, path


COMMANDS: tuple[list[str], ...] = (
    ["compile", "recipe.toml", "--out", "new", "--set", "search.trials=1", "--dry-run"],
    ["compile", "recipe.toml", "--out", "compiled", "--resume", "--json"],
    ["ask", "compiled", "What is thing 3?", "--trace"],
    ["ask", "recipe.toml", "What is thing 3?", "--set", "knobs.top_k=2", "--json"],
    ["eval", "compiled", "--split", "dev", "--out", "rows.jsonl"],
    ["eval", "compiled", "recipe.toml", "--by", "f1", "--json"],
    ["export", "compiled", "--to", "jinja2", "--out", "exported", "--force"],
    ["export", "compiled", "--to", "openai-json", "--out", "other/recipe.toml"],
    ["export", "compiled", "--check", "exported"],
    ["index", "recipe.toml", "--set", "sources.local.kind=bm25"],
    ["study", "status", "compiled"],
    ["list", "knobs", "vanilla"],
    ["list", "programs", "--json"],
    ["trust", "compiled", "--yes"],
    ["doctor", "recipe.toml"],
    ["eval", "rows.jsonl", "compiled", "--by", "em"],
    ["eval", "rows.jsonl", "--by", "em", "--json"],
    ["eval", "recipe.toml", "--split", "dev", "--out", "compiled/program.json"],
    ["eval", "compiled", "--split", "dev", "--base", ".", "--trust-targets", "--trust-code"],
    ["export", "compiled", "--to", "all", "--out", "all", "--force"],
    ["export", "compiled", "--to", "promptfoo", "--out", "other", "--force", "--questions", "2"],
    ["export", "compiled", "--to", "python", "--out", "compiled/program.json", "--force"],
    ["export", "compiled", "--to", "jinja2", "--out", "compiled", "--force", "--base", "."],
    ["trust", "compiled", "--base", ".", "--json"],
    ["study", "status", "recipe.toml", "--json", "--trust-targets"],
    ["doctor", "--json"],
    ["doctor", "recipe.toml", "--set", "targets.main.lacks=[]"],
    ["compile", "recipe.toml", "--out", "compiled", "--resume", "--set", "budget.lm_calls=500"],
    ["grid", "recipe.toml", "--out", "new", "--set", "grid.sample=1"],
    ["grid", "recipe.toml", "--out", "compiled", "--set", "grid.product={top_k=[1,2]}", "--json"],
    ["headroom", "recipe.toml", "--calls", "40", "--set", "data={dev=6,train=0,test=0}", "--json"],
)


OVERRIDDEN = (
    *(
        "knobs.top_k",
        "data.dev",
        "seed",
        "budget.usd",
        "x.y",
        "data.questions",
        "data.fields.id",
        "concurrency",
    ),
    *("study.storage", "sources.local.corpus", "targets.main.base_url", "metrics.report"),
    *("search.ranges.top_k", "prompts.answer", "targets.main.options", "search.objectives"),
)


def arguments_case(world: World, draw: random.Random) -> tuple[list[str], bool, Path | None]:
    argv = list(draw.choice(COMMANDS))
    for _ in range(draw.choice((1, 1, 2))):
        at = draw.randrange(1, len(argv))
        match draw.randrange(6):
            case 0:
                argv[at] = draw.choice(NASTY_TEXTS)
            case 1:
                argv.insert(at, draw.choice(NASTY_TEXTS))
            case 2:
                level = draw.choice((bytes_changed, tokens_changed))
                argv[at] = level(argv[at].encode("utf-8", "surrogatepass"), draw).decode(
                    "utf-8", "surrogateescape"
                )
            case 3:
                argv[at] = draw.choice(
                    (
                        "recipe.toml",
                        "compiled",
                        "other",
                        "thesis.txt",
                        "out",
                        ".",
                        "..",
                        "missing",
                        "/dev/full",
                        "rows.jsonl",
                        "compiled/program.json",
                        "compiled/notes.txt",
                        "compiled/prompts",
                        "questions.jsonl",
                    )
                )
            case 4:
                key = draw.choice(OVERRIDDEN)
                argv += ["--set", f"{key}={nasty_value(draw)!s:.80}"]
            case _:
                argv += [
                    "--out",
                    draw.choice(
                        (
                            *(
                                "other",
                                "thesis.txt",
                                "out",
                                "out/x",
                                ".",
                                "..",
                                "compiled",
                                "a" * 300,
                                "x\x00y",
                            ),
                            *(
                                "compiled/prompts/mine.md",
                                "compiled/prompts",
                                "questions.jsonl",
                                "recipe.toml",
                            ),
                        )
                    ),
                ]
    return argv, True, None


def reply_case(world: World, draw: random.Random) -> tuple[list[str], bool, Path | None]:
    level = draw.choice((0, 1, 2, 2, 2, 3))
    answers = (
        '{"answer": "red"}',
        '{"answer": "red"}',
        '{"reasoning": "r", "answer": "' + "[" * 450 + '"}',
        "[" * 450,
        "red",
    )
    response = http(completion(draw.choice(answers)))
    _, _, body = response.partition(b"\r\n\r\n")
    match level:
        case 0:
            response = bytes_changed(response, draw)
        case 1:
            response = tokens_changed(response, draw)
        case 2:
            response = http(
                json.dumps(value_changed(json.loads(body), draw)).encode("utf-8", "surrogatepass")
            )
        case _:
            changed = tokens_changed(body, draw)
            response = http(changed)
    world.server.damage = lambda _: response
    number = draw.randrange(10**9)
    command = draw.choice(
        (
            ["ask", "compiled", f"What is thing {number}?"],
            [
                "ask",
                "recipe.toml",
                f"What is thing {number}?",
                "--json",
                "--set",
                "program=prefrag",
                "--set",
                "knobs.pref=false",
                "--set",
                "search.knobs=[]",
            ],
            ["eval", "recipe.toml", "--split", "dev", "--set", f"knobs.chunk_size={100 + number % 400}"],
        )
    )
    return command, is_http(response), None


def is_http(response: bytes) -> bool:
    """Whether the standard library reads the response, and JSON its body."""
    from http.client import HTTPException, HTTPResponse

    class Canned:
        def makefile(self, *_: object) -> io.BytesIO:
            return io.BytesIO(response)

    try:
        reply = HTTPResponse(Canned())  # type: ignore[arg-type]
        reply.begin()
        json.loads(reply.read())
    except (HTTPException, ValueError, OSError, RecursionError):
        return False
    return True


SUBJECTS: dict[str, Callable[[World, random.Random], tuple[list[str], bool, Path | None]]] = {
    "recipe": recipe_case,
    "compiled": compiled_case,
    "study": study_case,
    "grid": grid_case,
    "arguments": arguments_case,
    "replies": reply_case,
}

FAULTY_TEXTS = (
    "Traceback (most recent",
    "Unclosed c",
    "was never awaited",
    "Task was destroyed",
    "Exception ignored",
)


def fuzz(
    subject: str, *, count: int, seed: int, folder: Path, show: Callable[[str], None] | None = None
) -> Report:
    """Run `count` cases of `subject`; case i is drawn from (seed, i) alone."""
    report = Report(subject, seed)
    folder = folder.resolve()
    server = Server()
    world = World(folder, server)
    warden = Warden(folder)
    sys.addaudithook(warden)
    for number in range(count):
        world.renew()
        server.damage = None
        draw = random.Random(f"{seed} {subject} {number}")
        argv, parsed, damaged = SUBJECTS[subject](world, draw)
        warden.attempts.clear()
        status, output = run(argv)
        report.runs += 1
        report.parsed += parsed
        report.statuses[status] += 1
        report.interrupted += status == "130"
        line = " ".join(map(ascii, argv))[:300]
        where = f"case {number}: ragc {line} (damaged: {damaged.name if damaged else 'none'})"
        if show:
            show(f"{where}: {status}, {'parses' if parsed else 'broken'}\n{output}")
        if status not in ("0", "1", "2", "130"):
            report.faults.append(f"{where}: {status}\n{output[-1500:]}")
        elif any(text in output for text in FAULTY_TEXTS):
            report.faults.append(f"{where}: printed\n{output[-1500:]}")
        elif status in ("1", "2") and "--json" not in argv and not output.strip():
            report.faults.append(f"{where}: exit {status} without a word")
        if "\x1b]" in output or "\x1b[31mred" in output:
            report.faults.append(f"{where}: a terminal escape got through")
        if harmed := world.harmed(damaged):
            report.faults.append(f"{where}: foreign files were harmed: {harmed}")
        report.faults += [f"{where}: {attempt}" for attempt in warden.attempts]
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--show", action="store_true", help="print every case and what it printed to stderr")
    args = parser.parse_args()
    show = (lambda text: print(text, file=sys.stderr, flush=True)) if args.show else None
    report = fuzz(args.subject, count=args.count, seed=args.seed, folder=args.folder, show=show)
    json.dump(report.to_json(), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
