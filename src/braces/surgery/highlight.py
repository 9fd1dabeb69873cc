"""Marks on the HTML page of a program for the handles of a search."""

from __future__ import annotations

from braces.errors import ProgramError
from braces.ir.places import Place
from braces.surgery.handles import Handle, Selection, resolve
from braces.viewer.payload import NO_MARKS, Marks


def highlight_marks(main: Place, highlight: object) -> Marks:
    """Return the marks of handles, looked up in the current version of a program.

    A block is shown by its owner, and a variable that an operator binds by this operator.

    Raises:
        UnknownNameError: If a handle is of a removed operator, variable or block.
        ProgramError: If `highlight` has no handles.
    """
    if highlight is None:
        return NO_MARKS
    if not isinstance(highlight, Selection | Handle):
        raise ProgramError(
            f"expected handles for `highlight`, got {highlight!r:.80}.",
            fix='Pass a selection: highlight=prog.find(type="matmul").',
        )
    handles = (highlight,) if isinstance(highlight, Handle) else highlight
    shown = (_boxed(resolve(main, handle)) for handle in handles)
    return {(handle.block, handle.name): "highlighted" for handle in shown}


def _boxed(handle: Handle) -> Handle:
    """Return the handle whose box shows another one on the page."""
    maker = handle.maker
    if maker is None or (handle.info is not None and maker.block != handle.block):
        return handle
    return maker
