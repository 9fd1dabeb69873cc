"""Gradients by inner values: one cotangent per iteration, exposed from the backward pass.

    body (t, r: f32[8]) {                     body (t, r: f32[8]) {
      h: f32[8] = tanh(x=r)                     h.raw: f32[8] = tanh(x=r)
      …                               ->        h.tap: f32[8] = subtract(x=h.raw, y=zero)
    }                                           h: f32[8] = identity(x=h.tap) …

`zero` is a scalar of the main block. The loss is differentiated by it, so reverse mode passes
every block around `h`. The cotangent of `h.tap` is noted there, and exposed like any other
inner value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from braces.builder.append import call, emit
from braces.builder.builder import Builder
from braces.builder.checked_calls import checked_call, checked_name, checked_path
from braces.builder.var import Var, main_var, visible_var
from braces.errors import GradientError
from braces.ir.paths import VARIABLE, Findable, current_path, unknown_path
from braces.ir.places import Place
from braces.ir.records import IDENTITY, ProgramDef
from braces.ir.views import LoopView, view_of
from braces.ops.lists.cotangents import has_cotangent
from braces.passes.autodiff.reverse_mode import gradients, noting_cotangents
from braces.passes.core.rewrite import InsertionPoint, rewrite
from braces.passes.probing.entry import constructs
from braces.passes.probing.exposure import Exposure
from braces.passes.probing.patched_place import PatchedPlace
from braces.passes.probing.patching import Replacing, Substitution

VERB = "differentiate by"
_FIX = 'Write br.grad_of(loss, "loop_0/body/act").'


class InnerGradient(str):
    """A fetch of the gradient of a loss by an inner value; `br.grad_of` returns it.

    Attributes:
        loss: The name of the loss.
        path: The path of the value.
        handle: The handle of the value, if one was given: it is looked up in later versions.
    """

    __slots__ = ("handle", "loss", "path")
    loss: str
    path: str
    handle: Findable | None

    def __new__(cls, loss: str, path: str, handle: Findable | None = None) -> Self:
        """Create the fetch."""
        fetch = super().__new__(cls, f"gradient of {loss} by {path}")
        fetch.loss, fetch.path, fetch.handle = loss, path, handle
        return fetch

    def now(self, program: ProgramDef) -> InnerGradient:
        """Return the fetch with the current path of its handle."""
        if self.handle is None:
            return self
        return InnerGradient(self.loss, current_path(program, self.handle))


@checked_call
def grad_of(loss: Any, path: Any) -> Any:
    """Return a fetch: the gradient of a loss by an inner value, for each iteration.

        act, grad = exe.run(prog, scope, feed, fetch=[path, br.grad_of(loss, path)])

    The gradient has the shape of the fetched value: `grad[t]` is the derivative by the value of
    iteration `t`, in which all later iterations take part. It is zero where the block of the
    value did not run. Several gradients of one loss are computed together. The program needs no
    `minimize`, and its updates do not change the result.

    Args:
        loss: A variable of the main block, or its name. If it is not a scalar, the gradient is
            that of its sum.
        path: The path or the handle of a value, as `"loop_0/body/act"`.

    Raises:
        ProgramError: If `path` is not a path.

    Example:
        >>> import braces as br
        >>> with br.Program() as prog:
        ...     x, rnn = br.data("x", ["t"]), br.create_rnn()
        ...     with rnn.stepnet() as step:
        ...         h = step.add_memory(init=br.constant(1.0))
        ...         h.update(br.multiply(h.pre(1), step.add_input(x), name="act"))
        ...     loss = br.square(rnn.final(h))
        >>> fetch = ["loop_0/body/act", br.grad_of(loss, "loop_0/body/act")]
        >>> act, grad = br.Executor().run(prog, br.Scope(), {"x": [2.0, 3.0]}, fetch)
        >>> act.tolist(), grad.tolist()
        ([2.0, 6.0], [36.0, 12.0])
    """
    handle = path if hasattr(path, "place") else None
    return InnerGradient(checked_name(loss, "`loss`", _FIX), checked_path(path, _FIX), handle)


def expose_gradients(
    program: ProgramDef, loss: str, paths: Sequence[str], *, tied: bool = False
) -> tuple[ProgramDef, list[str]]:
    """Return a program with the gradients of a loss by inner values, and their names.

    Args:
        program: The program.
        loss: The name of the loss.
        paths: The paths of the values.
        tied: Whether the zeros depend on the iterations, so that no loop-invariant value is
            hoisted with its zero.

    Raises:
        UnknownNameError: If the loss or a value does not exist.
        ProgramError: If the block of a value has no outputs for its cotangent.
        GradientError: If the dtype of a value is not a float, or the loss does not depend on
            it.
    """
    if loss not in program.main.vars:
        raise unknown_path(Place.main(program), loss, VARIABLE)
    tapped, taps = program, list[_Start]()
    for path in paths:
        tapped, start = _tapped(tapped, path, tied=tied)
        taps.append(start)
    builder = Builder(tapped)
    with builder, noting_cotangents(start.tap for start in taps if start.tap) as noted:
        cotangents = gradients([loss], [start.name for start in taps])
    built, names = builder.definition, list[str]()
    for start, cotangent in zip(taps, cotangents, strict=True):
        if cotangent is None or (start.tap and not noted[start.tap]):
            raise GradientError(
                f"`{loss}` does not depend on `{start.path}`.",
                fix="Pass a value between the parameters and the loss.",
            )
        name = cotangent.name
        if start.tap:
            block = _block_of(built, noted[start.tap])
            if not tied and _loops(block) != start.loops:
                return expose_gradients(program, loss, paths, tied=True)
            built, name = _exposed(built, start.path, block, noted[start.tap])
        names.append(name)
    return built, names


@dataclass(frozen=True)
class _Start:
    """A variable to differentiate by.

    Attributes:
        path: The path of the value.
        name: The variable in the main block.
        tap: The variable whose cotangent is noted; empty for a value of the main block.
        loops: The number of loops around the value.
    """

    path: str
    name: str
    tap: str = ""
    loops: int = 0


def _tapped(program: ProgramDef, path: str, *, tied: bool) -> tuple[ProgramDef, _Start]:
    """Return a program with a tap at a value; one of the main block needs none."""
    if path in program.main.vars:
        return program, _Start(path, path)
    place = PatchedPlace.of(program, path, VERB)
    if not has_cotangent(place.type):
        raise GradientError(
            f"cannot {VERB} `{path}`: its dtype is not a float.",
            at=place.at,
            given=f"{place.name}: {place.type}",
        )
    if place.block.outer is None:
        return program, _Start(path, place.name)
    tap = _Tap(place, tied=tied)
    return rewrite(program, tap), _Start(path, tap.zero, tap.name, place.loops)


class _Tap(Substitution):
    """Rule that subtracts a zero of the main block from a value.

    Attributes:
        zero: The variable of the zero.
        name: The difference.
    """

    def __init__(self, place: PatchedPlace, *, tied: bool) -> None:
        super().__init__(Replacing(place, function=self._difference), place)
        self.zero = self.name = self._subtrahend = ""
        self._tied = tied

    def _enter(self, points: Sequence[InsertionPoint]) -> str:
        dtype = self.place.type.dtype
        with points[0].building():
            self.zero = self._subtrahend = emit("full", shape=(), value=0.0, dtype=dtype).name
        for point in points if self._tied else ():
            view = None if point.owner is None else view_of(point.owner)
            if isinstance(view, LoopView):
                with point.building():
                    index = emit("cast", point.var(view.index), dtype=dtype)
                    tied = emit("multiply", point.var(self._subtrahend), index)
                self._subtrahend = tied.name
        return ""

    def _difference(self, raw: Var) -> Var:
        subtrahend = visible_var(raw.program, raw.program.current, self._subtrahend)
        difference = emit("subtract", raw, subtrahend)
        self.name = difference.name
        return call(IDENTITY, difference)


def _block_of(program: ProgramDef, name: str) -> Place:
    """Return the block that binds a name, which is unique in the program."""
    return next(block for block in Place.main(program).walk() if name in block.body.vars)


def _loops(block: Place) -> int:
    """Return the number of loops around a block."""
    return sum(isinstance(step.view, LoopView) for step in constructs(block))


def _exposed(program: ProgramDef, path: str, block: Place, name: str) -> tuple[ProgramDef, str]:
    """Return a program whose main block has a cotangent, in the order of the forward pass."""
    if block.outer is None:
        return program, name
    exposure = Exposure(path, _block_of(program, name), name)
    program = rewrite(program, exposure)
    views = [step.view for step in constructs(block)]
    if all(view.counted for view in views if isinstance(view, LoopView)):
        return program, exposure.value.name
    builder = Builder(program)  # a list has the values in the order of the backward pass
    with builder:
        flipped = emit("flip", main_var(builder, exposure.value.name), axis=0)
    return builder.definition, flipped.name
