"""The access that a caller grants to a compiled program from elsewhere.

That is a program which was neither compiled nor trusted on this machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Access:
    """What a compiled program from elsewhere may do in one call, and the folder of its relative paths.

    A directory that was neither compiled nor trusted on this machine is only data: its recipe starts no
    program, chooses no address and reads no file outside of it, or Untrusted is raised. The guide, Trust and
    safety (`docs/guide/trust.md`, section "Who is believed"), has the rule. `ragc.trust` allows everything,
    on this machine and until the directory changes.

    Relative paths are resolved from the folder `base`: by default the one used when this machine compiled the
    program, else the directory itself. `targets` allows its addresses and names of environment variables,
    `code` its programs, modules and servers.

        ragc.ask("compiled/theirs", "Which exception ends an iterator?", access=ragc.Access(targets=True))
    """

    base: str | Path | None = None
    targets: bool = False
    code: bool = False

    def absolute(self) -> Access:
        """Returns the same with an absolute `base`, for a program that is opened later."""
        return self if self.base is None else replace(self, base=Path(self.base).absolute())
