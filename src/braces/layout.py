"""Meshes and layouts: the sharding of values on several devices.

A mesh names the axes of a grid of devices. A layout maps *names* of sizes and of parameters to
mesh axes, and so determines the sharding of each value. Programs are independent of layouts:
the same program, file and fingerprint run on one device and on many.

This module does not use JAX or devices: `braces.lower.sharding.sharding` does.
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
from braces.keywords import hint_keywords

MeshAxes: TypeAlias = tuple[str, ...]
"""Mesh axes along which one axis of a value is sharded; empty if it is replicated."""
Spec: TypeAlias = tuple[MeshAxes, ...]
"""The mesh axes of each axis of a value."""
Rule: TypeAlias = "str | Sequence[str] | None"
"""Mesh axes as users write them."""

MAX_DEVICES = 2**20


class StoredVariable(NamedTuple):
    """The facts that a layout needs about a variable of the scope.

    Attributes:
        shape: Its sizes.
        is_float: Whether it holds floating-point numbers.
        axes: The names of its axes, if it has some.
    """

    shape: Shape
    is_float: bool
    axes: Sequence[str | None] = ()


@final
@dataclass(frozen=True)
class Mesh:
    """Devices in a grid with named axes.

    Args:
        axes: The number of devices of each axis, by name; -1 for at most one: all remaining
            devices.

    Raises:
        LayoutError: If a size is neither positive nor -1, -1 occurs twice, or the mesh has no
            axis.

    Example:
        >>> import braces as br
        >>> br.Mesh({"data": -1, "model": 4})
        Mesh(axes={'data': -1, 'model': 4})
    """

    axes: Mapping[str, int]

    def __post_init__(self) -> None:
        axes = _check_mapping("axes", self.axes)
        if not axes:
            raise LayoutError("the mesh has no axes.", fix='Write br.Mesh({"data": -1}).')
        for name, size in axes.items():
            _check_axis(name, size)
        if list(axes.values()).count(-1) > 1:
            raise LayoutError(
                "only one axis of a mesh can have size -1.",
                given=repr(axes),
                fix="Give the number of devices of the others.",
            )
        object.__setattr__(self, "axes", axes)

    def __hash__(self) -> int:
        return hash(tuple(self.axes.items()))

    def on(self, devices: int) -> Mesh:
        """Return this mesh on a number of devices, with every size a number.

        Raises:
            DeviceError: If the mesh has more devices, or the number of devices is not
                divisible.
        """
        fixed = math.prod(size for size in self.axes.values() if size != -1)
        left = devices // fixed
        is_divisible = -1 not in self.axes.values() or left * fixed == devices
        if not left or not is_divisible:
            raise DeviceError(
                f"{self!r} does not fit on {devices} device{'s' * (devices != 1)}.",
                given=f"it needs {fixed}{', or a multiple' * (-1 in self.axes.values())}",
                fix="Use other sizes, or more devices: the environment variable "
                "JAX_NUM_CPU_DEVICES=8 creates eight virtual CPU devices.",
            )
        return Mesh({name: left if size == -1 else size for name, size in self.axes.items()})

    def size(self, axes: MeshAxes) -> int:
        """Return the number of devices along these axes together."""
        return math.prod(self.axes[axis] for axis in axes)


Mesh.__init__ = hint_keywords(Mesh.__init__)


def _check_axis(name: object, size: object) -> None:
    counted = type(size) is int and (size == -1 or 1 <= size <= MAX_DEVICES)
    if not isinstance(name, str) or not name.isidentifier() or not counted:
        raise LayoutError(
            f"invalid mesh axis {name!r:.40}: {size!r:.40}.",
            fix="Use an identifier as the name, and a number of devices from 1, or -1.",
        )


@final
@dataclass(frozen=True, init=False)
class Layout:
    """Mapping from axes of values to axes of a mesh (sharding rules).

    Values computed by a run, and feeds, are sharded by the names of their sizes. A variable of
    the scope, such as a parameter, is sharded by the rule of `params` that matches its name,
    otherwise by the names of its axes, `br.parameter("up.w", [("embed", 16), ("mlp", 32)])`,
    which propagate to derived values. Then `fsdp` shards the largest replicated axis that
    divides. Optimizer state of a parameter, as `adam/mu/up.w` of `up.w`, is sharded like the
    parameter. All other values are replicated. Results are those of one device, except for the
    order of additions.

    Args:
        mesh: The devices.
        dims: Name of a size, as `"batch"`, or of an axis, as `"mlp"`, to one or several mesh
            axes. An axis that does not divide into equal shards is replicated, and so is a
            second axis with the same mesh axis.
        params: Patterns of names, as `"*.up.w"` (with `*`, `?`, `[abc]`), to the mesh axes of
            each axis: one, several, or `None`.
        fsdp: The mesh axis along which all floating-point variables of the scope are sharded,
            parameters and optimizer state (fully sharded data parallel).

    Raises:
        LayoutError: If an axis is not in the mesh, or occurs twice for one value.

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
    dims: Mapping[str, MeshAxes]
    params: Mapping[str, Spec]
    fsdp: MeshAxes

    @hint_keywords
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
            "dims": {
                n: _read_axes(of, n, rule) for n, rule in _check_mapping("dims", dims).items()
            },
            "params": {
                n: _read_spec(of, n, rules)
                for n, rules in _check_mapping("params", params).items()
            },
            "fsdp": _read_axes(of, "fsdp", fsdp),
        }
        for name, value in read.items():
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash((self.mesh, tuple(self.dims.items()), tuple(self.params.items())))

    def on(self, devices: int) -> Layout:
        """Return this layout on a number of devices; see `Mesh.on`."""
        return replace(self, mesh=self.mesh.on(devices))

    def without(self, *names: str) -> Layout:
        """Return this layout without the rules of these sizes or patterns.

        Raises:
            LayoutError: If the layout has no such rule.
        """
        for name in names:
            if name not in self.dims and name not in self.params:
                raise LayoutError(
                    f"this layout has no rule {name!r:.80}.",
                    fix=suggest(str(name), (*self.dims, *self.params)),
                )
        dims = {name: axes for name, axes in self.dims.items() if name not in names}
        params = {name: spec for name, spec in self.params.items() if name not in names}
        return replace(self, dims=dims, params=params)

    def of_value(self, shape: Shape, axes: Sequence[str | None] = ()) -> Spec:
        """Return the spec of a value, by the names of its sizes or axes."""
        own = axes or (None,) * len(shape)
        pairs = zip(shape, own, strict=True)
        spec = self._named(name or self.name_of(size) for size, name in pairs)
        lies = zip(shape, spec, strict=True)
        return tuple(
            mesh_axes if self.divides(size, mesh_axes) else () for size, mesh_axes in lies
        )

    def name_of(self, size: Size) -> str | None:
        """Return the name by which an axis of this size is sharded, or `None`."""
        terms = terms_of(size)
        factors = terms[0][0] if len(terms) == 1 else ()
        return next((name for name in self.dims if name in factors), None)

    def _named(self, names: Iterable[str | None]) -> Spec:
        """Return the mesh axes by names; each is used once, at its first occurrence."""
        spec, used = list[MeshAxes](), set[str]()
        for name in names:
            axes = () if name is None else self.dims.get(name, ())
            axes = () if used.intersection(axes) else axes
            used.update(axes)
            spec.append(axes)
        return tuple(spec)

    def of_stored(self, every: Mapping[str, StoredVariable]) -> dict[str, Spec]:
        """Return the specs of the scope variables of a program.

        Raises:
            LayoutError: If the rank of a rule differs from that of a matching variable, its
                shards differ in size, or two matching rules differ.
        """
        specs = dict[str, Spec]()
        for name, variable in every.items():
            leader = _find_leader(name, every)
            if leader is None:
                specs[name] = self._of_own(name, variable)
        for name in every.keys() - specs.keys():
            specs[name] = self._of_follower(name, every, specs)
        return specs

    def _of_own(self, name: str, variable: StoredVariable) -> Spec:
        rules = [pattern for pattern in self.params if fnmatchcase(name, pattern)]
        if len({self.params[pattern] for pattern in rules}) > 1:
            raise LayoutError(
                f"two rules of the layout conflict for `{name}`.",
                given=", ".join(f"{p!r}: {spec_text(self.params[p])}" for p in rules[:3]),
                fix="Use patterns of which only one matches.",
            )
        spec = self.params[rules[0]] if rules else self.of_value(variable.shape, variable.axes)
        if rules:
            self._check(name, rules[0], variable.shape, spec)
        return self._fully_sharded(variable, spec)

    def _of_follower(
        self, name: str, every: Mapping[str, StoredVariable], specs: Mapping[str, Spec]
    ) -> Spec:
        """Return the spec of the parameter of an optimizer state, if it has the same shape."""
        variable, leader = every[name], name
        while (before := _find_leader(leader, every)) is not None:
            leader = before
        if variable.shape == every[leader].shape:
            return specs[leader]
        return self._fully_sharded(variable, ((),) * len(variable.shape))

    def _check(self, name: str, rule: str, shape: Shape, spec: Spec) -> None:
        given = f"{name}: {list(shape)}, {rule!r}: {spec_text(spec)}, {self.mesh!r}"
        if len(spec) != len(shape):
            raise LayoutError(
                f"the rule {rule!r} has {len(spec)} axes; `{name}` has {len(shape)}.",
                given=given,
                fix="Give one entry per axis: mesh axes, or None.",
            )
        for axis, (size, axes) in enumerate(zip(shape, spec, strict=True)):
            if not self.divides(size, axes):
                raise LayoutError(
                    f"axis {axis} of `{name}` cannot be sharded evenly on "
                    f"{self.mesh.size(axes)} devices.",
                    given=given,
                    fix=f"Use a multiple of {self.mesh.size(axes)}, or do not shard the axis.",
                )

    def divides(self, size: Any, axes: MeshAxes) -> bool:
        """Return whether an axis of this size has equal shards; true for unknown sizes."""
        return isinstance(size, Dim) or size % self.mesh.size(axes) == 0

    def _fully_sharded(self, variable: StoredVariable, spec: Spec) -> Spec:
        """Shard the largest replicated axis that divides along `fsdp`."""
        used = {axis for axes in spec for axis in axes}
        free = [
            (size, -i)
            for i, (size, axes) in enumerate(zip(variable.shape, spec, strict=True))
            if not axes and isinstance(size, int) and size and self.divides(size, self.fsdp)
        ]
        if not self.fsdp or not variable.is_float or not free or used.intersection(self.fsdp):
            return spec
        at = -max(free)[1]
        return tuple(self.fsdp if i == at else axes for i, axes in enumerate(spec))

    def check_used(self, sizes: Collection[str] | None, stored: Collection[str]) -> None:
        """Refuse unused rules.

        Args:
            sizes: The names of sizes and axes of a program; `None` if it has no data.
            stored: The names of the scope variables, of program and scope.

        Raises:
            LayoutError: If a rule of `dims` or of `params` has no match.
        """
        for name in self.dims:
            if sizes is not None and name not in sizes:
                raise LayoutError(
                    f"the layout has a rule for size {name!r}, which is not in the program.",
                    fix=f"{suggest(name, sizes)} Or use layout.without({name!r}).",
                )
        for pattern in self.params:
            if not any(fnmatchcase(name, pattern) for name in stored):
                raise LayoutError(
                    f"the rule {pattern!r} of the layout matches no variable of the scope.",
                    fix=f"{suggest(pattern, stored)} Or use layout.without({pattern!r}).",
                )


def spec_text(spec: Spec) -> str:
    """Return a spec as users write it."""
    return repr(tuple(axes[0] if len(axes) == 1 else axes or None for axes in spec))


def _find_leader(name: str, every: Collection[str]) -> str | None:
    """Return the parameter of an optimizer state: the longest known name after a slash."""
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


def _check_mapping(what: str, argument: Any) -> dict[str, Any]:
    mapping: Any = {} if argument is None else argument
    if not isinstance(mapping, Mapping):
        raise LayoutError(
            f"expected a dict by name for `{what}`, got {argument!r:.80}.",
            fix=f"Write {_EXAMPLES[what]}.",
        )
    return {_check_text(what, name): value for name, value in cast("Any", mapping).items()}


def _check_text(what: str, name: object) -> str:
    if not isinstance(name, str):
        raise LayoutError(
            f"{what}: expected a string as name, got {name!r:.80}.", fix="Use a string."
        )
    return name


def _checked_mesh(mesh: object) -> Mesh:
    if not isinstance(mesh, Mesh):
        raise LayoutError(
            f"expected a br.Mesh, got {mesh!r:.80}.", fix='Write br.Mesh({"data": -1}).'
        )
    return mesh


def _read_spec(mesh: Mesh, name: str, rules: Any) -> Spec:
    if isinstance(rules, str) or not isinstance(rules, Sequence):
        raise LayoutError(
            f"{name!r}: expected one entry per axis, got {rules!r:.80}.",
            fix=f'Write {{{name!r}: (None, "{next(iter(mesh.axes))}")}}.',
        )
    spec = tuple(_read_axes(mesh, name, rule) for rule in cast("Sequence[Rule]", rules))
    _refuse_twice(name, [axis for axes in spec for axis in axes])
    return spec


def _read_axes(mesh: Mesh, name: str, rule: Any) -> MeshAxes:
    rules = cast("Sequence[Any]", rule) if isinstance(rule, tuple | list) else (rule,)
    axes = tuple(_check_mesh_axis(mesh, name, axis) for axis in rules if axis is not None)
    _refuse_twice(name, axes)
    return axes


def _check_mesh_axis(mesh: Mesh, name: str, axis: object) -> str:
    if not isinstance(axis, str) or axis not in mesh.axes:
        raise LayoutError(
            f"{name!r}: unknown mesh axis {axis!r:.80}.",
            given=repr(mesh),
            fix=suggest(str(axis), mesh.axes),
        )
    return axis


def _refuse_twice(name: str, axes: Sequence[str]) -> None:
    twice = [axis for axis in axes if axes.count(axis) > 1]
    if twice:
        raise LayoutError(
            f"{name!r}: duplicate mesh axis {twice[0]!r}.",
            fix="Use each axis once.",
        )
