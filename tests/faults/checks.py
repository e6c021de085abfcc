"""What must hold after a fault: old or new, never neither, and the rerun ends as if nothing had happened."""

from __future__ import annotations

from tests.faults.commands import NOISE, Files, Prepared, read_store, stored_replies
from tests.faults.injector import FAIL_ON, FAIL_ONCE, KILL, Ended, Fault
from tests.faults.power_loss import Loss, leave

KILLED = -9


def check_fault(prepared: Prepared, fault: Fault) -> str:
    """What went wrong, "" for nothing, when the command ran with `fault` and then again without."""
    prepared.lay()
    before = prepared.server.log.requests
    ended = prepared.run(prepared.command.run, fault)
    sent = prepared.server.log.requests - before
    if not any(call.site == fault.site for call in ended.calls) and fault.then != KILL:
        return ""  # this run took another way past that place
    problems = [
        *ended_badly(prepared, ended, fault),
        *half_finished(prepared),
        *not_stored(prepared, ended),
        *(["it ended well with another result"] if ended.status == 0 and not is_new(prepared) else []),
    ]
    stored = stored_replies(prepared.folder) - prepared.stored[0]
    return "; ".join([*problems, *rerun(prepared, sent, stored)])


def check_loss(prepared: Prepared, loss: Loss) -> str:
    """Leaves what `loss` does of the undisturbed run and goes on; what went wrong, "" for nothing.

    Replies may be asked again here: the store waits for the disk only now and then.
    """
    prepared.lay()
    if not leave(prepared.folder, prepared.whole.calls, loss):
        return ""
    problems = half_finished(prepared)
    return "; ".join([*problems, *rerun(prepared, 0, 0)])


def ended_badly(prepared: Prepared, ended: Ended, fault: Fault) -> list[str]:
    """How the end of the disturbed command was not one sentence, or none at a kill."""
    if fault.then == KILL and ended.status in (KILLED, 0):
        return []  # 0: this run did not come by the place
    if "python" in prepared.command.run:
        return []  # a script raises what it likes
    noise = [word for word in NOISE if word in ended.err]
    wrong = [f"it printed {noise[0]!r}: {ended.err[-1500:]}"] if noise else []
    expected = 1 if ended.status else 0
    if len(ended.errors) != expected or ended.status not in (0, 1, 2):
        wrong.append(f"it ended with {ended.status} and {len(ended.errors)} sentences: {ended.err[-700:]}")
    return wrong


def half_finished(prepared: Prepared) -> list[str]:
    """How the result is neither the old nor the new one, nor refused with the command that finishes it."""
    try:
        outcome = prepared.read()
    except Exception as error:
        finishes = prepared.command.finishes
        return [] if finishes and f"ragc {finishes}" in str(error) else [f"a reader says: {error}"]
    whole = same(outcome, prepared.old) or same(outcome, prepared.new)
    if prepared.command.parts and prepared.new is not None:
        whole = whole or (outcome or {}).items() <= prepared.new.items()
    return [] if whole else [_difference(prepared, outcome)]


def not_stored(prepared: Prepared, ended: Ended) -> list[str]:
    """Which rows a script said were stored and are not."""
    if prepared.command.read is not read_store:
        return []
    stored = prepared.read() or {}
    lost = [number for number in ended.out.split() if f"key {number}" not in stored]
    return [f"the rows {lost} were stored and are gone"] if lost else []


def is_new(prepared: Prepared) -> bool:
    """Whether the result is that of the undisturbed run."""
    try:
        return same(prepared.read(), prepared.new)
    except Exception:
        return False


def same(one: Files | None, other: Files | None) -> bool:
    """Whether two results are equal."""
    return (None if one is None else dict(one)) == (None if other is None else dict(other))


def _difference(prepared: Prepared, outcome: Files | None) -> str:
    if outcome is None:
        return "the older result is gone"
    names = [
        name
        for name in {*outcome, *(prepared.new or {})}
        if outcome.get(name) != (prepared.new or {}).get(name)
    ]
    return f"the result is neither old nor new: {sorted(names)[:5]} differ from the new one"


def rerun(prepared: Prepared, sent: int, stored: int) -> list[str]:
    """How the command that goes on does not end in the result of the undisturbed run.

    `sent` requests were sent before and `stored` replies are in the store.
    """
    before = prepared.server.log.requests
    ended = prepared.run(prepared.command.again)
    if "The recipe changed since the study" in ended.err:  # it had not begun anew
        ended = prepared.run(prepared.command.run)
    again = prepared.server.log.requests - before
    if "exists; choose another --out" in ended.err and is_new(prepared):
        return []  # it had come to its end
    if ended.status:
        return [f"the rerun ended with {ended.status}: {ended.err[-700:]}"]
    problems = []
    if not is_new(prepared):
        try:
            outcome = prepared.read()
            problems.append(f"after the rerun {_difference(prepared, outcome)}")
        except Exception as error:
            problems.append(f"after the rerun a reader says: {error}")
    if again > prepared.sent - stored:
        problems.append(f"{stored} of {sent} replies were kept, and {again} of {prepared.sent} asked again")
    notes = [path for path in prepared.folder.glob("*/notes.txt") if path.read_text() == "mine"]
    if prepared.command.before and prepared.old is not None and "" not in prepared.old and not notes:
        problems.append("a file of the user's is gone")
    return problems


def faults_at(site: str, at: int, number: int) -> list[Fault]:
    """The faults tried at one call: a kill, and a full disk or one that fails once, by turns."""
    import errno

    failing = Fault(site, at, FAIL_ON, errno.ENOSPC) if number % 2 else Fault(site, at, FAIL_ONCE, errno.EIO)
    return [Fault(site, at, KILL), failing]
