"""Errors that name the cause: states, foreign operators, kernels, foreign tensors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import braces as br
from braces.cli.main import main
from braces.extend.operators import OPS
from braces.extend.programs import serde
from braces.passes.core.untrusted_input import op_modules

# ---- updates ---------------------------------------------------------------------------------


def test_a_program_is_updated_by_variables_or_by_their_names() -> None:
    with br.Program() as program:
        count, total = br.state("count", []), br.state("total", [])
        program.update(count, count + 1.0)
        program.update("total", (total + 2.0).name)
    scope = br.Scope()
    br.Executor().init(program, scope)
    br.Executor().run(program, scope)
    assert [scope.var(name).value for name in ("count", "total")] == [1.0, 2.0]


@pytest.mark.parametrize("wrong", [3, None, 1.5, ["count"], np.ones(2)])
def test_what_is_no_variable_updates_nothing(wrong: Any) -> None:
    with br.Program() as program:
        count = br.state("count", [])
        for pair in [(count, wrong), (wrong, count)]:
            with pytest.raises(br.ProgramError, match="not a variable of this program"):
                program.update(*pair)
    assert not program.updates


def test_a_variable_of_another_program_or_none_at_all_updates_nothing() -> None:
    with br.Program():
        other = br.constant(1.0)
    with br.Program() as program:
        count = br.state("count", [])
        with pytest.raises(br.ProgramError, match="not a variable of this program"):
            program.update(count, other)
        with pytest.raises(br.UnknownNameError, match="`cuont`"):
            program.update(count, "cuont")
    assert not program.updates


# ---- operators that are not there ------------------------------------------------------------


def test_the_error_of_a_missing_operator_names_its_module(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_operators.py").write_text(
        "import braces as br\n"
        "@br.op()\n"
        "def squared(x: br.Tensor) -> br.Tensor:\n"
        "    return x * x\n"
        "with br.Program() as program:\n"
        "    x = br.data('x', [2])\n"
        "    loss = br.sum(squared(x))\n"
        "    br.gradients([loss], [x])\n"
        "program.save('as_module.brc')\n"
    )
    run = {"cwd": tmp_path, "check": True}
    subprocess.run([sys.executable, "-c", "import my_operators"], **run)
    with pytest.raises(br.BracesError) as refused:
        br.Program.load(tmp_path / "as_module.brc")
    message = str(refused.value)
    assert "unknown operator `squared`" in message
    assert "was defined in my_operators" in message
    assert "Import my_operators, or" in message
    assert "square`" not in message.replace("squared`", "")
    assert "my_operators" not in sys.modules
    assert main(["check", str(tmp_path / "as_module.brc")]) == 1
    told = capsys.readouterr()
    assert "was defined in my_operators" in told.out + told.err
    subprocess.run([sys.executable, "my_operators.py"], **run)
    with pytest.raises(br.BracesError, match=r"was defined in my_operators\.py"):
        br.Program.load(tmp_path / "as_module.brc")


def test_no_module_is_written_for_operators_that_come_with_braces() -> None:
    known = {type_ for type_, one in OPS.definitions.items() if _is_ours(one.kernel)}
    assert known.isdisjoint(op_modules())
    with br.Program() as program:
        br.tanh(br.data("x", [2]))
    main_def, _ = serde.program_from_bytes(program.to_bytes())
    assert main_def.modules == {}


@pytest.mark.usefixtures("registry")
def test_an_operator_of_code_without_a_module_name_is_one_of_a_script() -> None:
    code = "def doubled(x: br.Tensor) -> br.Tensor:\n    return x * 2\nbr.op()(doubled)"
    exec(compile(code, "folder/script.py", "exec"), {"br": br})
    assert op_modules()["doubled"] == "folder/script.py"


def _is_ours(kernel: Any) -> bool:
    return kernel.__module__.startswith("braces.")


def test_a_name_of_a_module_that_could_harm_a_terminal_is_refused() -> None:
    from braces.ir.proto import program_pb2 as pb

    with br.Program() as program:
        br.data("x", [2])
    desc = pb.ProgramDesc.FromString(program.to_bytes())
    desc.op_modules["x"] = "\x1b[31mred"
    with pytest.raises(br.FileFormatError, match="invalid module name"):
        br.Program.from_bytes(desc.SerializeToString())


# ---- kernels ---------------------------------------------------------------------------------


def misled_if(x: br.Tensor) -> br.Tensor:
    if x.sum() > 0:  # the line
        return x
    return -x


def misled_while(x: br.Tensor) -> br.Tensor:
    while x[0] > 1:  # the line
        x = x / 2
    return x


def misled_float(x: br.Tensor) -> br.Tensor:
    return x * float(x[0])  # the line


def misled_index(x: br.Tensor) -> br.Tensor:
    return x * [1, 2, 3][x.astype("int32")[0]]  # the line


def misled_numpy(x: br.Tensor) -> br.Tensor:
    return np.sort(x)  # the line


def misled_late(x: br.Tensor) -> br.Tensor:
    return x if x[0] > 0 else -x  # the line


def misled_gradient(x: br.Tensor) -> br.Tensor:
    return x * 1.0


def misled_gradient_vjp(x: br.Tensor, out_grad: br.Tensor) -> br.Tensor:
    return out_grad if x[0] > 0 else -out_grad  # the line


BUILT = [misled_if, misled_while, misled_float, misled_index, misled_numpy]


@pytest.fixture
def kernels(registry: None) -> dict[str, Any]:
    """Operators whose kernels ask for values; they end with the test."""
    del registry
    found = {kernel.__name__: br.op()(kernel) for kernel in (*BUILT, misled_gradient)}
    found["misled_gradient"].vjp(misled_gradient_vjp)
    found["misled_late"] = br.op(infer=lambda context, x: x)(misled_late)
    return found


def check_says_kernel(error: BaseException, *words: str) -> None:
    text = str(error)
    for word in ("the kernel of misled_", "known only at run time", "# the line", *words):
        assert word in text
    assert f"{Path(__file__).name}:" in text
    assert "jnp.where" in text
    assert "Tracer" not in text
    assert "built at" in text


@pytest.mark.parametrize("name", [kernel.__name__ for kernel in BUILT])
def test_a_kernel_that_asks_for_a_value_is_refused_with_its_line(
    name: str, kernels: dict[str, Any]
) -> None:
    with br.Program() as program:
        x = br.data("x", [3])
        with pytest.raises(br.OpDefinitionError) as refused:
            kernels[name](x)
    check_says_kernel(refused.value, name)
    assert not program.definition.main.ops


def test_a_gradient_that_asks_for_a_value_is_refused_with_its_line(
    kernels: dict[str, Any],
) -> None:
    with br.Program() as program:
        x = br.data("x", [3])
        out = kernels["misled_gradient"](x)
        with pytest.raises(br.OpDefinitionError) as refused:
            br.gradients([out], [x])
    check_says_kernel(refused.value, "misled_gradient.vjp")
    assert [op.type for op in program.definition.main.ops] == ["misled_gradient"]


@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_a_kernel_that_asks_for_a_value_fails_in_the_run_where_no_build_ran_it(
    mode: Any, kernels: dict[str, Any]
) -> None:
    with br.Program() as program:
        x = br.data("x", [3])
        out = kernels["misled_late"](x)
        count = br.state("count", [])
        program.update(count, count + 1.0)
    scope, exe = br.Scope(), br.Executor(mode=mode)
    exe.init(program, scope)
    with pytest.raises(br.OpDefinitionError) as refused:
        exe.run(program, scope, feed={"x": np.ones(3, "float32")}, fetch=out)
    check_says_kernel(refused.value, "misled_late")
    assert scope.var("count").value == 0.0


# ---- tensors of other libraries --------------------------------------------------------------


class Tensor:
    """What NumPy sees of a tensor of PyTorch that takes part in a gradient, or is on a GPU."""

    dtype, shape = np.dtype("float32"), (3,)

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise self.error

    def detach(self) -> Any:
        return self


ERRORS = [
    RuntimeError(
        "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
    ),
    TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first."),
]


@pytest.mark.parametrize("error", ERRORS, ids=["requires_grad", "cuda"])
def test_a_tensor_that_numpy_cannot_read_is_refused_with_what_to_write(
    error: Exception,
) -> None:
    scope, tensor = br.Scope(), Tensor(error)
    scope.var("w").set(1.0)
    with br.Program() as program:
        x = br.data("x", [3])
        out = x * 2.0
        doors = {
            "feed": lambda: br.Executor().run(program, scope, feed={"x": tensor}, fetch=out),
            "list": lambda: br.Executor().run(program, scope, feed={"x": [tensor]}, fetch=out),
            "scope": lambda: scope.var("w").set(tensor),
            "constant": lambda: br.constant(tensor),
            "operand": lambda: x + tensor,
            "init": lambda: br.parameter("p", [3], init=tensor),
        }
        for door, use in doors.items():
            with pytest.raises(br.BracesError) as refused:
                use()
            assert "tensor.detach().cpu().numpy()" in str(refused.value), door
    assert scope.var("w").value == 1.0


# ---- declarations ----------------------------------------------------------------------------


def test_a_declaration_has_a_shape_and_a_dtype() -> None:
    with br.Program() as program:
        br.parameter("w", [3, 2], dtype="float64")
        br.data("x", ["batch", 3])
    (info,) = program.parameters
    assert (info.shape, info.dtype) == ((3, 2), np.dtype("float64"))
    assert [str(size) for size in program.vars["x"].shape] == ["batch", "3"]


def test_the_declaration_of_a_list_has_no_shape() -> None:
    program = br.parse(
        'program { l: list<f32[2]> = list_empty() {dtype=f32, shape=[2], history="h"} }'
    )
    for name in ("shape", "dtype"):
        with pytest.raises(br.DTypeError, match="the list `l`"):
            getattr(program.vars["l"], name)
