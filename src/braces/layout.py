"""Where the parts of values lie when several devices run a program: meshes and layouts.

A mesh gives the devices names of axes. A layout says by the *names* of sizes and of parameters
which axis of a value is cut along which axis of the mesh. No program knows of it: the same one,
the same file and the same fingerprint run on one device and on many.

Nothing here knows JAX or a device: `braces.lower.sharding.sharding` has both.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeAlias, cast, final

from braces.dims import Dim, Shape, Size
from braces.dims.size import terms_of
from braces.errors import DeviceError, LayoutError, suggest

Axes: TypeAlias = tuple[str, ...]
"""Axes of a mesh along which one axis of a value is cut; none where it is whole."""
Spec: TypeAlias = tuple[Axes, ...]
"""For each axis of a value the axes of the mesh."""
Rule: TypeAlias = "str | Sequence[str] | None"
"""The same as users write it."""

MOST_DEVICES = 2**20


class Stored(NamedTuple):
    """What a layout needs to know of a variable of the scope.

    Attributes:
        shape: Its sizes.
        is_float: Whether it holds floating-point numbers.
        axes: The names of its axes, where they have some.
    """

    shape: Shape
    is_float: bool
    axes: Sequence[str | None] = ()


@final
@dataclass(frozen=True)
class Mesh:
    """Devices in a grid whose axes have names.

    Args:
        axes: By name, how many devices an axis has; -1 for one of them: what is left.

    Raises:
        LayoutError: A size is no number from 1, -1 is there twice, or there is no axis.

    Example:
        >>> import braces as br
        >>> br.Mesh({"data": -1, "model": 4})
        Mesh(axes={'data': -1, 'model': 4})
    """

    axes: Mapping[str, int]

    def __post_init__(self) -> None:
        axes = _mapping("axes", self.axes)
        if not axes:
            raise LayoutError("A mesh has axes.", fix='Write br.Mesh({"data": -1}).')
        for name, size in axes.items():
            _check_axis(name, size)
        if list(axes.values()).count(-1) > 1:
            raise LayoutError(
                "Only one axis of a mesh can have what is left of the devices.",
                given=repr(axes),
                fix="Write how many devices the others have.",
            )
        object.__setattr__(self, "axes", axes)

    def __hash__(self) -> int:
        return hash(tuple(self.axes.items()))

    def on(self, devices: int) -> Mesh:
        """This mesh on so many devices, every size a number.

        Raises:
            DeviceError: There are fewer devices, or what is left of them does not divide.
        """
        fixed = math.prod(size for size in self.axes.values() if size != -1)
        left = devices // fixed
        whole = -1 not in self.axes.values() or left * fixed == devices
        if not left or not whole:
            raise DeviceError(
                f"{self!r} does not lie on {devices} device{'s' * (devices != 1)}.",
                given=f"it takes {fixed}{', or a multiple' * (-1 in self.axes.values())}",
                fix="Use other sizes, or more devices: the environment variable "
                "JAX_NUM_CPU_DEVICES=8 makes eight of a processor.",
            )
        return Mesh({name: left if size == -1 else size for name, size in self.axes.items()})

    def size(self, axes: Axes) -> int:
        """How many devices lie along these axes together."""
        return math.prod(self.axes[axis] for axis in axes)


def _check_axis(name: object, size: object) -> None:
    counted = type(size) is int and (size == -1 or 1 <= size <= MOST_DEVICES)
    if not isinstance(name, str) or not name.isidentifier() or not counted:
        raise LayoutError(
            f"{name!r:.40}: {size!r:.40} is no axis of a mesh.",
            fix="An axis has a name like a variable, and a number of devices from 1, or -1.",
        )


@final
@dataclass(frozen=True, init=False)
class Layout:
    """Which axis of which value is cut along which axis of a mesh.

    What a run computes lies by the names of sizes, and so do feeds. A parameter, or another
    variable of the scope, lies by the rule of `params` that matches its name, else by the names
    of its axes, `br.parameter("up.w", [("embed", 16), ("mlp", 32)])`, which values that are
    made of it keep; then `fsdp` cuts the largest axis that is still whole and divides. What an
    optimizer keeps of a parameter, `adam/mu/up.w` of `up.w`, lies as the parameter does. What
    nobody names is whole on each device. Results are those of one device, but for the order of
    additions.

    Args:
        mesh: The devices.
        dims: Name of a size, as `"batch"`, or of an axis, as `"mlp"`, to an axis of the mesh,
            or several. An axis that has no equal parts is whole, and so is what would lie
            along an axis of the mesh for a second time.
        params: Patterns of names, as `"*.up.w"` (with `*`, `?`, `[abc]`), to what each axis is
            cut along: an axis of the mesh, several, or `None`.
        fsdp: The axis of the mesh along which all floating-point variables of the scope are
            cut, parameters and what optimizers keep (fully sharded data parallel).

    Raises:
        LayoutError: An axis is not of the mesh, or used twice for one value.

    Example:
        >>> import braces as br
        >>> layout = br.Layout(
        ...     br.Mesh({"data": 2, "model": 4}),
        ...     dims={"batch": "data"},
        ...     params={"*.up.w": (None, "model"), "*.down.w": ("model", None)},
        ... )
        >>> layout.params["*.up.w"]
        ((), ('model',))
        >>> layout = br.Layout(layout.mesh, dims={"batch": "data", "mlp": "model"})
    """

    mesh: Mesh
    dims: Mapping[str, Axes]
    params: Mapping[str, Spec]
    fsdp: Axes

    def __init__(
        self,
        mesh: Mesh,
        dims: Mapping[str, Rule] | None = None,
        params: Mapping[str, Sequence[Rule]] | None = None,
        fsdp: Rule = None,
    ) -> None:
        of = _checked_mesh(mesh)
        read = {
            "mesh": of,
            "dims": {n: _axes(of, n, rule) for n, rule in _mapping("dims", dims).items()},
            "params": {
                n: _spec(of, n, rules) for n, rules in _mapping("params", params).items()
            },
            "fsdp": _axes(of, "fsdp", fsdp),
        }
        for name, value in read.items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash((self.mesh, tuple(self.dims.items()), tuple(self.params.items())))

    def on(self, devices: int) -> Layout:
        """This layout on so many devices; see `Mesh.on`."""
        return replace(self, mesh=self.mesh.on(devices))

    def without(self, *names: str) -> Layout:
        """This layout without the rules of these sizes or patterns.

        Raises:
            LayoutError: There is no such rule.
        """
        for name in names:
            if name not in self.dims and name not in self.params:
                raise LayoutError(
                    f"This layout has no rule {name!r:.80}.",
                    fix=suggest(str(name), (*self.dims, *self.params)),
                )
        dims = {name: axes for name, axes in self.dims.items() if name not in names}
        params = {name: spec for name, spec in self.params.items() if name not in names}
        return replace(self, dims=dims, params=params)

    def of_value(self, shape: Shape, axes: Sequence[str | None] = ()) -> Spec:
        """How a value lies, by the names of its sizes, or of axes where these are numbers.

        A product, as the rows of all steps, `batch*time`, lies as its first factor that has a
        rule does. What has no equal parts is whole.
        """
        own = axes or (None,) * len(shape)
        pairs = zip(shape, own, strict=True)
        spec = self._named(name or self.name_of(size) for size, name in pairs)
        lies = zip(shape, spec, strict=True)
        return tuple(found if self.divides(size, found) else () for size, found in lies)

    def name_of(self, size: Size) -> str | None:
        """The name by which devices have parts of what has this size; `None` for none."""
        terms = terms_of(size)
        factors = terms[0][0] if len(terms) == 1 else ()
        return next((name for name in self.dims if name in factors), None)

    def _named(self, names: Iterable[str | None]) -> Spec:
        """The axes of the mesh by names; each is used once, where it comes first."""
        found, used = list[Axes](), set[str]()
        for name in names:
            axes = () if name is None else self.dims.get(name, ())
            axes = () if used.intersection(axes) else axes
            used.update(axes)
            found.append(axes)
        return tuple(found)

    def of_stored(self, every: Mapping[str, Stored]) -> dict[str, Spec]:
        """How the variables of the scope lie that a program has.

        Raises:
            LayoutError: A rule has more or fewer axes than a variable that it matches, or cuts
                one into parts that are not equal; or two rules that match differ.
        """
        found = dict[str, Spec]()
        for name, one in every.items():
            leader = _leader(name, every)
            if leader is None:
                found[name] = self._of_own(name, one)
        for name in every.keys() - found.keys():
            found[name] = self._of_follower(name, every, found)
        return found

    def _of_own(self, name: str, one: Stored) -> Spec:
        rules = [pattern for pattern in self.params if fnmatchcase(name, pattern)]
        if len({self.params[pattern] for pattern in rules}) > 1:
            raise LayoutError(
                f"Two rules of the layout say different things of `{name}`.",
                given=", ".join(f"{p!r}: {text_of(self.params[p])}" for p in rules[:3]),
                fix="Write patterns of which one matches.",
            )
        spec = self.params[rules[0]] if rules else self.of_value(one.shape, one.axes)
        if rules:
            self._check(name, rules[0], one.shape, spec)
        return self._fully_sharded(one, spec)

    def _of_follower(
        self, name: str, every: Mapping[str, Stored], found: Mapping[str, Spec]
    ) -> Spec:
        """As what it is kept of, where it has its shape."""
        one, leader = every[name], name
        while (before := _leader(leader, every)) is not None:
            leader = before
        if one.shape == every[leader].shape:
            return found[leader]
        return self._fully_sharded(one, ((),) * len(one.shape))

    def _check(self, name: str, rule: str, shape: Shape, spec: Spec) -> None:
        given = f"{name}: {list(shape)}, {rule!r}: {text_of(spec)}, {self.mesh!r}"
        if len(spec) != len(shape):
            raise LayoutError(
                f"The rule {rule!r} is for {len(spec)} axes, and `{name}` has {len(shape)}.",
                given=given,
                fix="Say of each axis what it is cut along, or None.",
            )
        for axis, (size, axes) in enumerate(zip(shape, spec, strict=True)):
            if not self.divides(size, axes):
                raise LayoutError(
                    f"Axis {axis} of `{name}` has no equal parts on {self.mesh.size(axes)} "
                    "devices.",
                    given=given,
                    fix="Use a size that divides, or leave the axis whole.",
                )

    def divides(self, size: Any, axes: Axes) -> bool:
        """Whether an axis of this size has equal parts; where only a run knows it, yes."""
        return isinstance(size, Dim) or size % self.mesh.size(axes) == 0

    def _fully_sharded(self, one: Stored, spec: Spec) -> Spec:
        """The same, with the largest whole axis that divides cut along `fsdp`."""
        used = {axis for axes in spec for axis in axes}
        free = [
            (size, -i)
            for i, (size, axes) in enumerate(zip(one.shape, spec, strict=True))
            if not axes and isinstance(size, int) and size and self.divides(size, self.fsdp)
        ]
        if not self.fsdp or not one.is_float or not free or used.intersection(self.fsdp):
            return spec
        at = -max(free)[1]
        return tuple(self.fsdp if i == at else axes for i, axes in enumerate(spec))

    def check_used(self, sizes: Collection[str] | None, stored: Collection[str]) -> None:
        """Refuse rules that are for nothing.

        Args:
            sizes: The names of sizes and axes that a program has; `None` where it has no data.
            stored: The variables of the scope, of program and scope.

        Raises:
            LayoutError: A rule of `dims` or of `params` matches none of them.
        """
        for name in self.dims:
            if sizes is not None and name not in sizes:
                raise LayoutError(
                    f"The layout has a rule for sizes {name!r}, and this program has none.",
                    fix=f"{suggest(name, sizes)} Or use layout.without({name!r}).",
                )
        for pattern in self.params:
            if not any(fnmatchcase(name, pattern) for name in stored):
                raise LayoutError(
                    f"The rule {pattern!r} of the layout matches no variable of the scope.",
                    fix=f"{suggest(pattern, stored)} Or use layout.without({pattern!r}).",
                )


def text_of(spec: Spec) -> str:
    """A spec as users write it."""
    return repr(tuple(axes[0] if len(axes) == 1 else axes or None for axes in spec))


def _leader(name: str, every: Collection[str]) -> str | None:
    """The variable of which this one is kept: the longest name that follows a slash in it."""
    while "/" in name:
        name = name.partition("/")[2]
        if name in every:
            return name
    return None


_EXAMPLES = {
    "axes": 'br.Mesh({"data": -1})',
    "dims": 'dims={"batch": "data"}',
    "params": 'params={"*.up.w": (None, "model")}',
}


def _mapping(what: str, given: Any) -> dict[str, Any]:
    found: Any = {} if given is None else given
    if not isinstance(found, Mapping):
        raise LayoutError(
            f"{what}={given!r:.80} is no dict with names.",
            fix=f"Write {_EXAMPLES[what]}.",
        )
    return {_text(what, name): value for name, value in cast("Any", found).items()}


def _text(what: str, name: object) -> str:
    if not isinstance(name, str):
        raise LayoutError(f"{what}: {name!r:.80} is no name.", fix="Use a text.")
    return name


def _checked_mesh(mesh: object) -> Mesh:
    if not isinstance(mesh, Mesh):
        raise LayoutError(f"{mesh!r:.80} is no mesh.", fix='Write br.Mesh({"data": -1}).')
    return mesh


def _spec(mesh: Mesh, name: str, rules: Any) -> Spec:
    if isinstance(rules, str) or not isinstance(rules, Sequence):
        raise LayoutError(
            f"{name!r}: {rules!r:.80} does not say what each axis is cut along.",
            fix=f'Write {{{name!r}: (None, "{next(iter(mesh.axes))}")}}.',
        )
    spec = tuple(_axes(mesh, name, rule) for rule in cast("Sequence[Rule]", rules))
    _refuse_twice(name, [axis for axes in spec for axis in axes])
    return spec


def _axes(mesh: Mesh, name: str, rule: Any) -> Axes:
    given = cast("Sequence[Any]", rule) if isinstance(rule, tuple | list) else (rule,)
    axes = tuple(_axis(mesh, name, axis) for axis in given if axis is not None)
    _refuse_twice(name, axes)
    return axes


def _axis(mesh: Mesh, name: str, axis: object) -> str:
    if not isinstance(axis, str) or axis not in mesh.axes:
        raise LayoutError(
            f"{name!r}: the mesh has no axis {axis!r:.80}.",
            given=repr(mesh),
            fix=suggest(str(axis), mesh.axes),
        )
    return axis


def _refuse_twice(name: str, axes: Sequence[str]) -> None:
    twice = [axis for axis in axes if axes.count(axis) > 1]
    if twice:
        raise LayoutError(
            f"{name!r}: a value is cut along an axis of the mesh once, not twice along "
            f"{twice[0]!r}.",
            fix="Use each axis once.",
        )
