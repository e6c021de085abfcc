"""DSPy's GroundedProposer with a useful description of ragc's programs.

By default it prints the source of every class in a program, ragc's predictor included. That says nothing of
the task and fills the context of a small model.
"""

from __future__ import annotations

import inspect
import random
import textwrap
from collections.abc import Sequence
from typing import Any

from dspy.propose.grounded_proposer import GroundedProposer

from ragc.programs.base import RagProgram


def build_proposer(teacher: Any, program: RagProgram, train: Sequence[Any], *, rng: random.Random) -> Any:
    """Returns the proposer of MIPROv2 for `program`, with a description of the program and of the train
    questions.

    Summarising the questions calls `teacher`, so this must run where DSPy's calls may block.
    """
    proposer: Any = GroundedProposer(
        prompt_model=teacher,
        program=program,
        trainset=list(train),
        program_aware=False,
        use_instruct_history=False,
        set_history_randomly=False,
        rng=rng,
    )
    proposer.program_aware, proposer.program_code_string = True, describe_program(program)
    return proposer


def describe_program(program: RagProgram) -> str:
    """Returns the purpose of `program`, its typed calls, and the code that composes them."""
    calls = [_call(name, predictor.signature) for name, predictor in program.named_predictors()]
    try:
        code = textwrap.dedent(inspect.getsource(program.flow_code)).strip()
    except OSError:  # a program defined interactively has no source file
        code = ""
    return "\n\n".join([f"# {program.method.about}", *calls, code])


def _call(name: str, signature: Any) -> str:
    inputs, outputs = ", ".join(signature.input_fields), ", ".join(signature.output_fields)
    return f'# self.{name}: {inputs} -> {outputs}\n"""{signature.instructions}"""'
