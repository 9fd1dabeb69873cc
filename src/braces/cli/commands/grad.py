"""`braces grad FILE --loss L -o OUT`: a program with gradients or a training step."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from braces.builder.var import Var
from braces.cli.common.command import YES, Command, declare
from braces.cli.common.program_selection import (
    add_file,
    add_output,
    read_selected,
    split_names,
    write_program,
)
from braces.frontend import optimizer
from braces.passes.autodiff.reverse_mode import append_backward, gradients

OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "adagrad", "rmsprop", "lion", "lamb")


_USAGE = """\
--loss NAME           the loss, a float scalar
--wrt NAMES ...       differentiate by these variables, such as w,x (default: all parameters)
--optimizer           append updates of the parameters
--learning-rate RATE  default: 0.001
"""


def _arguments(parser: ArgumentParser) -> None:
    add_file(parser)
    declare(parser, _USAGE, loss={"required": True}, optimizer=OPTIMIZERS, learning_rate=1e-3)
    add_output(parser)


def _run(options: Namespace) -> int:
    picked = read_selected(options)
    program = picked.program
    loss = program.var(picked.variable(options.loss))
    inputs = [program.var(name) for name in split_names(options.wrt)] if options.wrt else None
    if options.optimizer:
        step = getattr(optimizer, options.optimizer)(learning_rate=options.learning_rate)
        step.minimize(loss, parameters=inputs)
        outputs = {name: name for name in program.updates}
    else:
        outputs = _gradients(loss, inputs)
    write_program(program, options)
    for name, gradient in outputs.items():
        outcome = "updated" if options.optimizer else f"gradient {gradient}"
        print(f"{name}: {outcome}", file=sys.stderr)
    return YES


def _gradients(loss: Var, inputs: list[Var] | None) -> dict[str, str]:
    """Map each variable that the loss depends on to the name of its gradient."""
    if inputs is None:
        return {p.name: g.name for p, g in append_backward(loss).items()}
    grads = zip(inputs, gradients([loss], inputs), strict=True)
    return {x.name: g.name for x, g in grads if g is not None}


COMMAND = Command(
    "grad",
    "write a program with the gradients of a loss, or with an optimizer's step",
    "braces grad net.braces --loss loss --optimizer adam -o train.braces",
    _arguments,
    _run,
)
