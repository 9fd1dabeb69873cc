"""Values handed to other libraries and taken from them, without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import braces as br
from braces.errors import DTypeError, FeedError, UninitializedError
from braces.scope import Scope

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


class Tensor:
    """An array of another library: it lends its memory, and NumPy cannot read it otherwise."""

    def __init__(self, array: Any, *, readable: bool = False, versions: bool = True) -> None:
        self.array, self.versions = array, versions
        self.dtype, self.shape = str(array.dtype), array.shape
        if not readable:
            self.__dict__["__array__"] = None

    def __dlpack__(self, **options: Any) -> Any:
        if options and not self.versions:
            raise TypeError("unexpected keyword argument")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Refusing(Tensor):
    """As PyTorch's tensors of bfloat16, which NumPy asks for an array in vain."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError("Got unsupported ScalarType BFloat16")


class Elsewhere(Refusing):
    """As a tensor in the memory of a GPU."""

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("This lies on another device.")


def address(array: Any) -> int:
    """Return the address of the data of an array."""
    return array.ctypes.data if type(array) is np.ndarray else array.unsafe_buffer_pointer()


@pytest.fixture
def scope() -> Scope:
    return Scope()


VALUES = [
    np.arange(6, dtype=np.float32).reshape(2, 3),
    np.arange(6.0).reshape(2, 3).T,
    np.arange(6)[::2],
    np.float16([1.5, 2.5]),
    np.array([True, False]),
    np.complex64([1j]),
    np.zeros((2, 0)),
    np.array(3.5),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype}{value.shape}")
def test_numpy_looks_at_a_value_without_a_copy(scope: Scope, value: Any) -> None:
    w = scope.var("w")
    w.put(value)
    seen = np.from_dlpack(w)
    assert address(seen) == address(value)
    np.testing.assert_array_equal(seen, value, strict=True)
    w.put(jnp.asarray(value, copy=True))
    seen = np.from_dlpack(w)
    assert address(seen) == address(w.raw)
    np.testing.assert_array_equal(seen, w.value, strict=True)


@pytest.mark.parametrize("make", [np.asarray, jnp.asarray])
def test_bfloat16_is_lent_though_numpy_does_not_know_it(scope: Scope, make: Any) -> None:
    w, value = scope.var("w"), make(np.arange(64, dtype=BFLOAT16).reshape(8, 8))
    w.put(value)
    seen = jnp.from_dlpack(w)
    assert (seen.dtype, seen.shape) == (BFLOAT16, (8, 8))
    np.testing.assert_array_equal(seen, w.value)
    other = scope.var("other")
    other.set(w, copy=False)
    assert address(other.raw) == address(value)
    np.testing.assert_array_equal(other.value, w.value, strict=True)


def test_values_that_cannot_be_shared_are_errors(scope: Scope) -> None:
    w = scope.var("w")
    for look in (np.from_dlpack, jnp.from_dlpack):
        with pytest.raises(UninitializedError, match="uninitialized variable `w`"):
            look(w)
    w.put([np.ones(2)])
    with pytest.raises(DTypeError, match="holds a list"):
        np.from_dlpack(w)
    w.set(np.zeros(2, ml_dtypes.float8_e5m2))
    with pytest.raises(BufferError, match="DLPack only supports"):
        np.from_dlpack(w)
    fixed = np.ones(2)
    fixed.flags.writeable = False
    w.put(fixed)
    assert not np.from_dlpack(w).flags.writeable


# ---- in ----

LENT = [*VALUES, np.arange(4, dtype=BFLOAT16), np.arange(6, dtype=BFLOAT16).reshape(2, 3)]


@pytest.mark.parametrize("kind", [Tensor, Refusing])
@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("value", LENT, ids=lambda value: f"{value.dtype}{value.shape}")
def test_what_another_library_lends_is_copied_or_shared(
    scope: Scope, kind: type[Tensor], versions: bool, value: Any
) -> None:
    if value.dtype == BFLOAT16:
        value = jnp.asarray(value)
    given, w = kind(value, versions=versions), scope.var("w")
    w.set(given)
    np.testing.assert_array_equal(w.value, np.asarray(value), strict=True)
    assert value.size == 0 or address(w.raw) != address(value)
    w.set(given, copy=False)
    np.testing.assert_array_equal(w.value, np.asarray(value), strict=True)
    assert address(w.raw) == address(value)


def test_an_array_of_numpy_or_jax_is_shared_on_request(scope: Scope) -> None:
    w = scope.var("w")
    for given in (np.ones((2, 3)), np.ones(3, BFLOAT16), jnp.ones(3), jnp.ones(3, BFLOAT16)):
        w.set(given, copy=False)
        assert address(w.raw) == address(given)
        w.set(given)
        assert address(w.raw) != address(given)


@pytest.mark.parametrize(
    "given",
    [[1.0], 2.0, None, "text", np.ones(2, ">f4"), np.ones(2, "datetime64[D]"), np.float32(1.0)],
)
def test_what_cannot_be_shared_is_refused_and_the_old_value_stays(
    scope: Scope, given: Any
) -> None:
    w = scope.var("w")
    w.set(7)
    with pytest.raises(DTypeError, match="variable `w` of scope root"):
        w.set(given, copy=False)
    assert w.value == 7


def test_an_array_on_another_device_is_refused(scope: Scope) -> None:
    w, given = scope.var("w"), Elsewhere(np.ones(2))
    for copy in (True, False):
        with pytest.raises(DTypeError):
            w.set(given, copy=copy)
    assert not w.initialized
    with br.Program() as prog:
        y = br.data("x", [2], dtype="float64") * 2.0
    with pytest.raises(FeedError, match="cannot convert the feed `x`"):
        br.Executor(mode="interpret").run(prog, scope, {"x": given}, y)


# ---- runs ----


@pytest.fixture(scope="module")
def step() -> br.Program:
    """A program that replaces `w` and reads `b`, which stays."""
    with br.Program() as prog:
        w, b = br.parameter("w", [4, 256]), br.parameter("b", [256])
        prog.updates["w"] = (w * 2.0 + b).name
    return prog


def lent_by_numpy(value: Any) -> Any:
    return Tensor(value)


MAKERS: dict[str, Callable[[Any], Any]] = {
    "numpy": lambda x: x, "jax": jnp.asarray, "another library": lent_by_numpy
}  # fmt: skip


@pytest.mark.parametrize("maker", MAKERS)
def test_no_run_writes_to_memory_that_is_shared(
    step: br.Program, scope: Scope, mode: str, maker: str
) -> None:
    exe, base, bias = br.Executor(mode=mode), np.ones((4, 256), "f"), np.ones(256, "f")
    given = MAKERS[maker](base.copy()), MAKERS[maker](bias.copy())
    for name, one in zip("wb", given, strict=True):
        scope.var(name).set(one, copy=False)
    views = [np.from_dlpack(scope.var(name)) for name in "wb"]
    for trip in range(1, 4):
        exe.run(step, scope)
        views.append(np.from_dlpack(scope.var("w")))
        np.testing.assert_array_equal(scope["w"], np.full((4, 256), 2.0 ** (trip + 1) - 1))
    for i, view in enumerate([views[0], *views[2:]]):
        np.testing.assert_array_equal(view, np.full((4, 256), 2.0 ** (i + 1) - 1))
    for one, value in zip(given, (base, bias), strict=True):
        np.testing.assert_array_equal(np.asarray(getattr(one, "array", one)), value)
    np.testing.assert_array_equal(views[1], bias)


def test_what_is_lent_outlives_run_erasure_and_scope(step: br.Program, mode: str) -> None:
    scope, exe = Scope(), br.Executor(mode=mode)
    scope.update({"w": np.ones((4, 256), "f"), "b": np.ones(256, "f")})
    exe.run(step, scope)
    views = [np.from_dlpack(scope.var("w")), jnp.from_dlpack(scope.var("w"))]
    exe.run(step, scope)
    scope.erase("w")
    scope.close()
    del scope
    jax.block_until_ready([jnp.full((4, 256), float(i)) for i in range(20)])
    for view in views:
        np.testing.assert_array_equal(view, np.full((4, 256), 3.0))


def test_feeds_come_from_other_libraries_without_a_copy(mode: str, scope: Scope) -> None:
    with br.Program() as prog:
        x = br.data("x", ["n"], dtype="bfloat16")
        y = br.cast(x, "float32") + br.data("z", ["n"])
    exe, half = br.Executor(mode=mode), jnp.arange(3, dtype=BFLOAT16)
    for kind in (Tensor, Refusing):
        z = np.float32([1.0, 2.0, 3.0])
        found = exe.run(prog, scope, {"x": kind(half), "z": kind(z)}, y)
        np.testing.assert_array_equal(found, np.float32([1.0, 3.0, 5.0]), strict=True)
        np.testing.assert_array_equal(z, [1.0, 2.0, 3.0])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_feeds_on_an_accelerator_are_imported_by_jax(
    mode: str, scope: Scope, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Any) -> Any:
        raise BufferError("Unsupported device in DLTensor.")

    monkeypatch.setattr(
        "braces.runtime.inputs.feeds.as_numpy", refuse
    )  # NumPy reads the memory of a CPU only
    with br.Program() as prog:
        y = br.data("x", ["n"], dtype=dtype) * 2
    with jax.enable_x64(True):
        tensor = Tensor(jnp.arange(3, dtype=dtype))
    got = br.Executor(mode=mode).run(prog, scope, {"x": tensor}, y)
    np.testing.assert_array_equal(got, np.array([0, 2, 4], dtype), strict=True)


def test_a_feed_that_no_library_reads_is_refused(scope: Scope) -> None:
    with br.Program() as prog:
        y = br.data("x", ["n"]) * 2.0
    with pytest.raises(br.FeedError, match=r"cannot convert the feed `x`.*\n.*Elsewhere"):
        br.Executor().run(prog, scope, {"x": Elsewhere(np.ones(2, "f"))}, y)


def test_what_a_run_gives_is_lent_on(mode: str, scope: Scope) -> None:
    with br.Program() as prog:
        y = br.data("x", [3]) * 2.0
    found = br.Executor(mode=mode).run(prog, scope, {"x": np.ones(3, "f")}, y)
    assert address(np.from_dlpack(found)) == address(found)
