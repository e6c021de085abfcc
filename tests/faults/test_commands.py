"""A fault at a write, rename or sync leaves old or new, never neither, and the rerun ends in the same bytes.

Where `CI` is set, a sample of the places of every command is tried; `python -m tests.faults.every` tries all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.examples import THOROUGH
from tests.faults.checks import check_fault, check_loss, faults_at
from tests.faults.commands import COMMANDS, Prepared, prepare
from tests.faults.injector import FAIL_ON, FAIL_ONCE, INJECTED, KILL, Fault, missing, places
from tests.faults.power_loss import Loss, leave, losses
from tests.support.loopback import Loopback

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

TRIED = tuple(COMMANDS) if THOROUGH else ("store",)
EACH = 3
"""The faults and the power losses tried of each command."""


@pytest.fixture(scope="module")
def server() -> Iterator[Loopback]:
    with Loopback(latency_s=0.001) as endpoint:
        yield endpoint


@pytest.fixture(scope="module", params=TRIED)
def prepared(
    request: pytest.FixtureRequest, server: Loopback, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prepared]:
    folder = tmp_path_factory.mktemp("faults")
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("RAGC_HOME", str(folder / "work/home"))
        patch.setenv("XDG_STATE_HOME", str(folder / "work/state"))
        yield prepare(COMMANDS[request.param], folder, server)


def test_every_call_that_changes_a_file_is_recorded(prepared: Prepared) -> None:
    """Carried out on a model of the disk, the calls make the tree that the command made."""
    prepared.lay()
    ended = prepared.run(prepared.command.run, data=True)
    assert ended.status == 0, ended.err
    tree = _tree(prepared.folder)
    prepared.lay()
    leave(prepared.folder, ended.calls, Loss(len(ended.calls), "written"))
    model = _tree(prepared.folder)
    assert model.keys() == tree.keys()
    assert [name for name in tree if tree[name] != model[name]] == []


def _tree(folder: Path) -> dict[str, object]:
    return {
        path.relative_to(folder).as_posix(): path.readlink()
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


def test_a_fault_leaves_old_or_new_and_the_rerun_ends_as_if_it_had_not_been(prepared: Prepared) -> None:
    where = places(prepared.whole.calls)
    chosen = [fault for number, at in enumerate(where) for fault in faults_at(*at, number)]
    wrong = {
        str(fault): problem
        for fault in random.Random(prepared.command.name).sample(chosen, EACH)
        if (problem := check_fault(prepared, fault))
    }
    assert wrong == {}


def test_a_power_loss_leaves_old_or_new_and_the_rerun_ends_as_if_it_had_not_been(prepared: Prepared) -> None:
    chosen = random.Random(prepared.command.name).sample(losses(prepared.whole.calls), EACH)
    wrong = {str(loss): problem for loss in chosen if (problem := check_loss(prepared, loss))}
    assert wrong == {}


@pytest.mark.parametrize("then", [KILL, FAIL_ONCE, FAIL_ON])
def test_the_fault_is_made_where_it_was_asked_for(prepared: Prepared, then: int) -> None:
    site, at = places(prepared.whole.calls)[-1]
    prepared.lay()
    ended = prepared.run(prepared.command.run, Fault(site, at, then, 5))
    injected = next(call for call in ended.calls if call.flags & INJECTED and call.site == site)
    assert ended.status == -9 if then == KILL else injected.result == -5
