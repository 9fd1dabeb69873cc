"""Checks that a checkpoint belongs to the run that resumes from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from braces.builder.builder import Builder
from braces.builder.source_line import warn_user
from braces.dtypes import TensorType, Type
from braces.errors import ProgramError
from braces.fitting.steps.position import json_encoded
from braces.ir.fingerprint import fingerprint

_MOST_NAMED = 4


def check_same_run(folder: Path, step: int, stored: Any, run: Mapping[str, Any]) -> None:
    """Refuse to resume from the checkpoint of a run with other data or seeds.

    Raises:
        ProgramError: If the runs differ; the error lists the differences.
    """
    if not isinstance(stored, Mapping) or not isinstance(stored.get("run"), Mapping):  # pyright: ignore[reportUnknownMemberType]
        raise _refused(folder, step, "it was not written by br.training or br.fit")
    differences = list(_differences("", stored["run"], json_encoded(run)))
    if differences:
        raise _refused(folder, step, _difference_text(differences))


def program_hash(program: Builder) -> str:
    """Return the fingerprints of a program and of its initial values."""
    return fingerprint(program) + fingerprint(program.startup)


def warn_of_other_program(step: int, stored: Mapping[str, Any], program: str) -> None:
    """Warn if the program of a checkpoint, whose position has its fingerprint, is another."""
    before = stored.get("program")
    if isinstance(before, str) and before != program:
        warn_user(
            f"the program, or an initial value such as the learning rate, differs from that of "
            f"the checkpoint of step {step}. Training resumes with this program and with the "
            "values of the checkpoint."
        )


def check_same_variables(
    folder: Path,
    step: int,
    stored: Mapping[str, TensorType],
    declared: Mapping[str, Type],
) -> None:
    """Refuse to resume from a checkpoint without the variables of the program.

    Raises:
        ProgramError: If a variable is missing or has another type.
    """
    differences = [
        f"`{name}` is {stored.get(name, 'missing')} in the checkpoint, {type_} in the program"
        for name, type_ in declared.items()
        if name not in stored or not _same_type(stored[name], type_)
    ]
    if differences:
        raise _refused(folder, step, _difference_text(differences))


def _same_type(stored: TensorType, declared: Type) -> bool:
    if not isinstance(declared, TensorType):
        return False
    sizes = zip(stored.shape, declared.shape, strict=False)
    return (
        stored.dtype == declared.dtype
        and len(stored.shape) == len(declared.shape)
        and all(left == right for left, right in sizes if isinstance(right, int))
    )


def _differences(prefix: str, stored: Any, wanted: Any) -> Iterator[str]:
    if isinstance(stored, Mapping) and isinstance(wanted, Mapping):
        names: list[str] = sorted({*stored, *wanted})  # pyright: ignore[reportUnknownArgumentType]
        for name in names:
            before, now = stored.get(name), wanted.get(name)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            yield from _differences(f"{prefix}{name}.", before, now)
    elif stored != wanted:
        yield f"{prefix[:-1]} was {stored!r:.60}, is {wanted!r:.60}"


def _difference_text(differences: list[str]) -> str:
    more = len(differences) - _MOST_NAMED
    text = "; ".join(differences[:_MOST_NAMED])
    return f"{text}; and {more} more" if more > 0 else text


def _refused(folder: Path, step: int, differences: str) -> ProgramError:
    return ProgramError(
        f"the checkpoint of step {step} belongs to another run.",
        given=f"folder {folder}: {differences}",
        fix="Resume with the same program, data and seed, use another folder, or pass "
        "fresh=True, which removes the checkpoints.",
    )
