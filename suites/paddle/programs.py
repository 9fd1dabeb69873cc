"""Cases: a program that Paddle writes, with Paddle's values and gradients.

Paddle needs another NumPy than JAX. The programs are therefore written in an environment of
their own, by the Python that `PADDLE_PYTHON` names, into `.suites/paddle`.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import braces as br
from braces.exchange.onnx.runtime import session
from suites.case import Check, Excluded, Group, attempt
from suites.comparison import Imported, difference, value_checks
from suites.paddle.generator import cases
from suites.runner import ROOT

CACHE = ROOT / ".suites" / "paddle"
AT_ONCE = 12
"""The number of cases that one process of Paddle writes."""
LARGEST = 64 << 20
"""Files of a case that are larger in bytes are removed after its checks."""
Arrays = Mapping[str, Any]


# ---- programs of Paddle ----------------------------------------------------------------------


def written(group: str, name: str) -> Path:
    """Return the folder of a case, which Paddle writes if it does not exist.

    Raises:
        Excluded: If Paddle cannot compute or save the case.
    """
    folder = CACHE / group / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_done(folder):
            _write(group, name)
    if not (folder / "case.npz").exists():
        raise Excluded(f"Paddle: {_reason(folder)}")
    return folder


def _is_done(folder: Path) -> bool:
    return (folder / "error.txt").exists() or (folder / "case.npz").exists()


def _write(group: str, name: str) -> None:
    """Write a case, and some of those that follow."""
    python = os.environ.get("PADDLE_PYTHON")
    if not python:
        raise Excluded("PADDLE_PYTHON names no Python with Paddle")
    names = list(cases.cases_of(group))
    count = 1 if group == "vision" else AT_ONCE
    later = names[names.index(name) : names.index(name) + count]
    missing = [one for one in later if not _is_done(CACHE / group / one)]
    command = [python, "-W", "ignore", "-m", "generator.write", str(CACHE), group, *missing]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    subprocess.run(command, env=environment, timeout=400, capture_output=True, check=False)


def _reason(folder: Path) -> str:
    """Return the last line of an error of Paddle."""
    path = folder / "error.txt"
    lines = path.read_text().strip().splitlines() if path.exists() else ["no program written"]
    errors = [line.strip() for line in lines if "Error" in line]
    return (errors or lines)[-1]


# ---- comparisons -----------------------------------------------------------------------------


def run(group: str, name: str) -> Iterator[Check]:
    """Compare values in both modes, a save and load, the text, and gradients with Paddle."""
    folder = written(group, name)
    with np.load(folder / "case.npz") as file:
        arrays = {key: file[key] for key in file}
    program, values = br.from_paddle(folder)
    made = Imported(program, values, _feed(program, arrays))
    wanted = [arrays[f"fetch/{at}"] for at in range(len(program.fetches))]
    scale = max([1.0, *(float(np.max(np.abs(one))) for one in wanted if _is_finite(one))])
    yield from value_checks(made, wanted, rtol=1e-3, atol=1e-5 * scale)
    if "no_gradient" in arrays:
        yield attempt("gradient", partial(_excluded, str(arrays["no_gradient"])))
    elif any(key.startswith("gradient/") for key in arrays):
        yield attempt("gradient", lambda: gradient_difference(made, arrays))
    if sum(path.stat().st_size for path in folder.iterdir()) > LARGEST:
        shutil.rmtree(folder)


def _is_finite(array: Any) -> bool:
    return bool(array.dtype.kind == "f" and array.size and np.isfinite(array).all())


def _feed(program: br.Program, arrays: Arrays) -> dict[str, Any]:
    given = {key[5:]: value for key, value in arrays.items() if key.startswith("feed/")}
    return {name: given[name] for name in program.feeds}


def _excluded(reason: str) -> str:
    raise Excluded(reason)


def gradient_difference(made: Imported, arrays: Arrays) -> str:
    """Return the difference of the gradients of a weighted sum of the results.

    Where Paddle's gradient is not the slope of Paddle's own values, but that of the import is,
    Paddle has a defect.
    """
    wanted = {key[9:]: value for key, value in arrays.items() if key.startswith("gradient/")}
    wanted = {name: value for name, value in wanted.items() if value.dtype.kind == "f"}
    found = gradients(made, arrays, list(wanted))
    texts = list[str]()
    for name, value in wanted.items():
        gradient = found.get(name, np.zeros_like(value))
        most = max(float(np.max(np.abs(value), initial=0)), 1.0)
        text = difference(gradient, value, rtol=2e-3, atol=2e-4 * most)
        slope = arrays.get(f"slope/{name}")
        if text and slope is not None and _is_slope(gradient, slope) > _is_slope(value, slope):
            raise Excluded(f"the gradient of `{name}` is not the slope of the values in Paddle")
        texts += [f"{name}: {text}"] if text else []
    return "; ".join(texts)


def _is_slope(gradient: Any, slope: Any) -> bool:
    most = 0.02 * float(np.max(np.abs(slope), initial=0.1))
    return gradient.shape == slope.shape and bool(np.allclose(gradient, slope, atol=most))


def gradients(made: Imported, arrays: Arrays, names: list[str]) -> dict[str, Any]:
    """Return the gradients of the weighted sum with respect to inputs and parameters."""
    program, weights = made.program, dict[str, Any]()
    with program:
        parts = list[Any]()
        for at, name in enumerate(program.fetches):
            if f"weight/{at}" not in arrays:
                continue
            result = program.var(name)
            weight = br.data(f"weight_{at}", list(result.shape), dtype=result.dtype)
            weights[weight.name] = arrays[f"weight/{at}"]
            parts.append(br.cast(br.sum(result * weight), "float32"))
        total = sum(parts[1:], parts[0])
    known = [name for name in names if name in {*program.feeds, *made.values}]
    made.feed.update(weights)
    return dict(zip(known, made.gradients(total, known), strict=True))


# ---- export to ONNX --------------------------------------------------------------------------


def run_exported(group: str, name: str) -> Iterator[Check]:
    """Compare the values of an import that is exported to ONNX, in ONNX Runtime."""
    folder = written(group, name)
    with np.load(folder / "case.npz") as file:
        arrays = {key: file[key] for key in file}

    def exported() -> str:
        program, values = br.from_paddle(folder)
        scope = br.Scope()
        scope.update(values)
        path = folder / "net.onnx"
        br.to_onnx(program, path, scope=scope)
        found = session(str(path)).run(None, _feed(program, arrays))
        wanted = [arrays[f"fetch/{at}"] for at in range(len(found))]
        pairs = zip(found, wanted, strict=True)
        return next((text for pair in pairs if (text := difference(*pair, rtol=1e-3))), "")

    yield attempt("onnx", exported)


NEEDS = "`PADDLE_PYTHON` names a Python with Paddle 2.6.2; `make suite-paddle` sets it."


def _group(name: str, goal: float, function: Callable[..., Iterator[Check]]) -> Group:
    return Group(
        goal, partial(_names, name), partial(function, name), seconds=420.0, needs=NEEDS
    )


def _names(group: str) -> list[str]:
    return list(cases.cases_of(group))


TITLES = {
    "vision": "paddle.vision.models", "control_flow": "to_static programs",
    "arithmetic": "elementwise functions", "reductions": "reductions and order",
    "shapes": "shapes and indexing", "products": "linear algebra and transforms",
    "windows": "windows and images", "losses": "losses", "layers": "layers",
    "kinks": "gradients at ties and bounds",
}  # fmt: skip
GROUPS = {
    **{title: _group(name, 0.97, run) for name, title in TITLES.items()},
    **{f"{TITLES[name]} as ONNX": _group(name, 0.9, run_exported)
       for name in ("layers", "control_flow")},
}  # fmt: skip
