"""Variables: named values, created by scopes and destroyed with them."""

from __future__ import annotations

import threading
from typing import Any, NoReturn, final

from braces.dtypes import DType
from braces.errors import BracesError, DTypeError, ScopeClosedError, UninitializedError
from braces.notebook import TextView
from braces.scope.dlpack import export_array
from braces.scope.values import (
    bytes_of,
    convert_value,
    copy_value,
    is_list,
    share_value,
    type_text,
    value_text,
)


class OwnershipError(BracesError, TypeError):
    """A variable was created, copied or pickled without its scope."""


@final
class Variable(TextView):
    """Handle of a named value, created by a scope and destroyed with it.

    The value is an array, or a list of arrays. `value` and `set` copy; `raw` and `put` do not.
    `scope.var(name)` creates one. `br.Variable` is different: it adds a parameter to a program.

    DLPack exports the value without a copy: `torch.from_dlpack(scope.var("w"))`, and likewise
    in NumPy and JAX. Do not write to such an array. Its content is stable: a run that updates
    the variable does not reuse exported memory.

    Raises:
        OwnershipError: If a variable is created, copied or pickled outside of its scope.
        ScopeClosedError: If the handle is used after its scope was closed, or its name erased.
        UninitializedError: If the value was read before it was set.

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
        fix = "Write `scope.var(name)`, or `br.parameter(name, shape)` in a program."
        raise OwnershipError("variables are created by scopes only.", fix=fix)

    @classmethod
    def _of(cls, name: str, path: str, turn: threading.RLock) -> Variable:
        variable = object.__new__(cls)
        variable._turn = turn
        variable._name, variable._path, variable._raw, variable._ended = name, path, None, None
        return variable

    @property
    def name(self) -> str:
        """The name in its scope."""
        self._check()
        return self._name

    @property
    def initialized(self) -> bool:
        """True if the variable has a value."""
        raw = self._raw  # read before the check, as `_end` clears it last
        self._check()
        return raw is not None

    @property
    def value(self) -> Any:
        """A copy of the value as a NumPy array, or a list of arrays; runs do not change it."""
        try:
            return copy_value(self.raw)
        except RuntimeError:  # donated to a run of another thread, which is not done
            with self._turn:
                return copy_value(self.raw)

    def set(self, value: object, *, copy: bool = True) -> None:
        """Set the variable to a copy of `value`, or with `copy=False` to its memory.

        Args:
            value: An array (of NumPy, JAX, PyTorch, or convertible by NumPy or DLPack), a
                number, or nested lists. Arrays and NumPy scalars keep their dtype; Python
                floats become float32, integers int64, booleans bool, complex numbers complex64.
            copy: Whether to copy the value. If not, do not write to it while the variable
                holds it; runs do not either. A compiled run, or one on another device, makes
                its own copy.

        Raises:
            DTypeError: If the dtype is not supported, or a number is out of range; or with
                `copy=False`, the memory cannot be shared.
            ShapeError: If nested lists differ in length.

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
        self.put(convert_value(value, at) if copy else share_value(value, at))

    def __dlpack__(self, **options: Any) -> Any:
        """Export the value to another library without a copy; `options` are the protocol's.

        Raises:
            BufferError: If DLPack does not support the value, as for 8-bit floats.
        """
        try:
            return export_array(self._array("memory to share"), **options)
        except RuntimeError:  # as for `value`
            with self._turn:
                return export_array(self._array("memory to share"), **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the device of the value, as DLPack encodes it."""
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
        """The size of the value in bytes; for a list, that of its arrays."""
        return bytes_of(self.raw)

    @property
    def raw(self) -> Any:
        """For the executor: the value itself, not copied.

        Do not change it, and do not keep it beyond the next run, which may reuse its memory.
        """
        raw = self._raw
        if raw is None or self._ended is not None:
            self._refuse()
        return raw

    def put(self, raw: Any) -> None:
        """For the executor: store an array or a list of arrays without a copy."""
        self._raw = raw
        if self._ended is not None:  # checked last, so that a concurrent close wins
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
            reason, fix = self._ended
            raise ScopeClosedError(
                f"variable `{self._name}` no longer exists: {reason}.", at=at, fix=fix
            )
        fix = "Run `Executor.init` on the program first, or `set` a value."
        raise UninitializedError(f"uninitialized variable `{self._name}`.", at=at, fix=fix)

    def _array(self, wanted: str) -> Any:
        raw = self.raw
        if is_list(raw):
            message = f"variable `{self._name}` holds a list, which has no {wanted}."
            fix, given = "Read `value`, the list of arrays.", type_text(raw)
            raise DTypeError(message, at=f"scope {self._path}", given=given, fix=fix)
        return raw

    def _text(self) -> str:
        raw = self._raw
        if self._ended is not None:
            return f"deleted, {self._ended[0]}"
        return value_text(raw)

    def __repr__(self) -> str:
        return f"<Variable `{self._name}` of scope {self._path}: {self._text()}>"

    def __reduce__(self) -> NoReturn:
        message = f"variable `{self._name}` of a scope cannot be copied or pickled."
        raise OwnershipError(message, at=f"scope {self._path}", fix="Copy its `value`.")
