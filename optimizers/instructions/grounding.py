"""DSPy's GroundedProposer, told about our programs in words that help.

Left to itself it prints the source of every class that a program is made of, our predictor's included,
which says nothing of the task and fills the context of a small model.
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
    """The proposer of MIPROv2 for `program`: it knows the program and what the train questions are like.

    Reading the questions asks `teacher`, so this must run where DSPy's calls may block.
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
    """What `program` is for, its typed calls, and the code that composes them."""
    calls = [_call(name, predictor.signature) for name, predictor in program.named_predictors()]
    try:
        code = textwrap.dedent(inspect.getsource(type(program).aforward)).strip()
    except OSError:  # a program that was typed in, not read from a file
        code = ""
    return "\n\n".join([f"# {program.method.about}", *calls, code])


def _call(name: str, signature: Any) -> str:
    inputs, outputs = ", ".join(signature.input_fields), ", ".join(signature.output_fields)
    return f'# self.{name}: {inputs} -> {outputs}\n"""{signature.instructions}"""'
