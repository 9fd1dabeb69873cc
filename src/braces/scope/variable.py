"""Variables: named places for values, made by scopes and destroyed with them."""

from __future__ import annotations

import threading
from typing import Any, NoReturn, final

from braces.dtypes import DType
from braces.errors import BracesError, DTypeError, ScopeClosedError, UninitializedError
from braces.scope.dlpack import lend
from braces.scope.values import (
    bytes_of,
    copied,
    is_list,
    stored,
    taken_over,
    type_text,
    value_text,
)


class OwnershipError(BracesError, TypeError):
    """A variable made, copied or pickled without its scope."""


@final
class Variable:
    """A named place for one value, made by a scope and destroyed with it.

    The value is an array, or a list of arrays. `value` and `set` copy; `raw` and `put` do not.
    `scope.var(name)` gives one; `br.Variable`, which makes a parameter of a program, does not.

    Without a copy, DLPack hands the value out: `torch.from_dlpack(scope.var("w"))`, and NumPy's
    and JAX's. Do not write to such an array. It stays what it is, for a run that gives the
    variable another value leaves memory alone that others look at.

    Raises:
        OwnershipError: A variable is made, copied or pickled without its scope.
        ScopeClosedError: Any use after its scope was closed, or its name erased.
        UninitializedError: A look at a value that was never set.

    Example:
        >>> from braces.scope import Scope
        >>> scope = Scope()
        >>> scope.var("w").set([[1.0, 2.0]])
        >>> scope.var("w").value
        array([[1., 2.]], dtype=float32)
    """

    __slots__ = ("__weakref__", "_ended", "_name", "_path", "_raw", "_turn")

    _turn: threading.RLock
    _name: str
    _path: str
    _raw: Any
    _ended: tuple[str, str] | None

    def __init__(self, *_: object, **__: object) -> None:
        fix = "Write `scope.var(name)`; a program's weights are `br.parameter(name, shape)`."
        raise OwnershipError("Only a scope makes a variable.", fix=fix)

    @classmethod
    def _of(cls, name: str, path: str, turn: threading.RLock) -> Variable:
        made = object.__new__(cls)
        made._turn = turn
        made._name, made._path, made._raw, made._ended = name, path, None, None
        return made

    @property
    def name(self) -> str:
        """The name in its scope."""
        self._check()
        return self._name

    @property
    def initialized(self) -> bool:
        """Whether there is a value."""
        raw = self._raw  # read before the check, as `_end` clears it last
        self._check()
        return raw is not None

    @property
    def value(self) -> Any:
        """A copy of the value as a NumPy array, or list of such: no later run changes it."""
        try:
            return copied(self.raw)
        except RuntimeError:  # another thread's run took the value over, and is not done
            with self._turn:
                return copied(self.raw)

    def set(self, value: object, *, copy: bool = True) -> None:
        """Give the variable a copy of `value`, or with `copy=False` the very same memory.

        Args:
            value: An array (of NumPy, JAX, PyTorch, or what NumPy or DLPack take for one), a
                number, or nested lists. Arrays and NumPy scalars keep their dtype; Python
                floats become float32, integers int64, booleans bool, complex numbers complex64.
            copy: Whether the value is copied. Where it is not, nobody may write to it while
                the variable holds it; runs do not either. A run on another device, or compiled,
                makes a copy of its own.

        Raises:
            DTypeError: No array of a dtype that programs have, or a number out of range; or
                with `copy=False`, nothing whose memory can be used.
            ShapeError: Nested lists whose lengths differ.

        Example:
            >>> import numpy as np
            >>> from braces.scope import Scope
            >>> scope, array = Scope(), np.ones(3)
            >>> scope.var("w").set(array, copy=False)
            >>> np.shares_memory(np.from_dlpack(scope.var("w")), array)
            True
        """
        self._check()
        at = f"variable `{self._name}` of scope {self._path}"
        self.put(stored(value, at) if copy else taken_over(value, at))

    def __dlpack__(self, **options: Any) -> Any:
        """The value for another library, not copied; `options` are the protocol's.

        Raises:
            BufferError: DLPack has no such value, as an array of 8-bit floats.
        """
        try:
            return lend(self._array("memory to lend"), **options)
        except RuntimeError:  # as for `value`
            with self._turn:
                return lend(self._array("memory to lend"), **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where the value lies, as the protocol says it."""
        return self._array("device").__dlpack_device__()

    @property
    def dtype(self) -> DType:
        """The dtype of the value; a list has none and raises `DTypeError`."""
        return self._array("dtype").dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value; a list has none and raises `DTypeError`."""
        return tuple(self._array("shape").shape)

    @property
    def nbytes(self) -> int:
        """The bytes that the value takes; for a list, those of its arrays."""
        return bytes_of(self.raw)

    @property
    def raw(self) -> Any:
        """The executor's door: the value itself, not copied.

        Do not change it, nor keep it beyond the next run, which may reuse its memory.
        """
        raw = self._raw
        if raw is None or self._ended is not None:
            self._refuse()
        return raw

    def put(self, raw: Any) -> None:
        """The executor's door: take over an array or a list of arrays, not copied."""
        self._raw = raw
        if self._ended is not None:  # looked at last, so that a close meanwhile still wins
            self._raw = None
            self._refuse()

    def _end(self, ended: tuple[str, str]) -> None:  # pyright: ignore[reportUnusedFunction]
        self._ended = ended
        self._raw = None

    def _check(self) -> None:
        if self._ended is not None:
            self._refuse()

    def _refuse(self) -> NoReturn:
        at = f"scope {self._path}"
        if self._ended is not None:
            how, fix = self._ended
            raise ScopeClosedError(f"Variable `{self._name}` is gone: {how}.", at=at, fix=fix)
        fix = "Run `Executor.init` on the program first, or `set` a value."
        raise UninitializedError(f"Variable `{self._name}` has no value.", at=at, fix=fix)

    def _array(self, wanted: str) -> Any:
        raw = self.raw
        if is_list(raw):
            what = f"Variable `{self._name}` holds a list, which has no {wanted}."
            fix, given = "Read `value`, a list of arrays.", type_text(raw)
            raise DTypeError(what, at=f"scope {self._path}", given=given, fix=fix)
        return raw

    def _text(self) -> str:
        raw = self._raw
        if self._ended is not None:
            return f"gone, {self._ended[0]}"
        return value_text(raw)

    def __repr__(self) -> str:
        return f"<Variable `{self._name}` of scope {self._path}: {self._text()}>"

    def __reduce__(self) -> NoReturn:
        what = f"Variable `{self._name}` belongs to its scope and cannot be copied or pickled."
        raise OwnershipError(what, at=f"scope {self._path}", fix="Copy its `value`.")
