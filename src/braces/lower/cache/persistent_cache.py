"""What XLA compiled, kept for the next process that compiles the same.

JAX can keep it in a folder (its persistent compilation cache). Which folder is a setting of the
process, and JAX looks at it once: whatever is compiled afterwards goes there, too. So the
setting is made when compiling begins, and taken back when it ends; where a program is
interpreted, which compiles an operator here and there, that is its first run. What the process
compiles with JAX at other times is kept nowhere, as before; a user who names a folder, sooner
or later, has it to themself; and a run that compiles nothing pays nothing.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path
from threading import Lock, local
from typing import Any

from braces.ir.records import Op
from braces.lazy import compilation_cache, jax
from braces.lower.cache.cache_directory import (
    JAX_VARIABLE,
    let_go_of,
    made_ready,
    named_folder,
    processor,
    trim,
)

_FOLDER, _ENABLED = "jax_compilation_cache_dir", "jax_enable_compilation_cache"
_LEAST_S, _RAISES = (
    "jax_persistent_cache_min_compile_time_secs",
    "jax_raise_persistent_cache_errors",
)
_WARNED = "Error (reading|writing) persistent compilation cache entry"
"""What JAX says of an entry where it does not raise; it then compiles."""
_HIT = "/jax/compilation_cache/cache_hits"
_TRIMMED_EACH = 64
"""The size of the folder is looked at before the first of so many compilations."""


def code_name(ops: Iterable[Op], arguments: Iterable[Any]) -> str:
    """What compiled code is called: the same in each process, and another for most programs."""
    told = [op.type for op in ops], [(x.shape, str(x.dtype)) for x in arguments]
    return f"braces_{sha256(repr(told).encode()).hexdigest()[:16]}"


def compile_or_read(lowered: Any, name: str) -> Any:
    """What XLA makes of a computation, or has made of it for another process.

    Args:
        lowered: The computation, as JAX lowered it.
        name: What its function is called; see `code_name`.
    """
    keeper = the_keeper()
    with keeper.keeping(raises=True) as folder:
        try:
            return lowered.compile()
        except Exception:
            if folder is None:
                raise
            keeper.give_up(folder, name)
    return lowered.compile()  # if the program is what is wrong, it says so again


class _Reads(local):
    """How often this thread read code that was kept."""

    count = 0


_reads = _Reads()


def code_reads() -> int:
    """The number of times that this thread read code in place of compiling it."""
    _listen()
    return _reads.count


@cache
def _listen() -> None:
    """Let JAX say when it reads code that was kept."""

    def note(event: str, **more: Any) -> None:
        del more
        if event == _HIT:
            _reads.count += 1

    jax.monitoring.register_event_listener(note)


@cache
def the_keeper() -> Keeper:
    """The one of this process, whose settings it makes."""
    return Keeper()


class Keeper:
    """Lets JAX keep what it compiles, as long as somebody compiles who wants that.

    The settings are those of the process: what other threads compile with JAX in these moments
    is kept too.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._folder: Path | None = None
        self._ours: dict[str, Any] = {}
        self._before: dict[str, Any] = {}
        self._openings = 0
        self._gave_up = False

    @contextmanager
    def keeping(self, raises: bool = False) -> Generator[Path | None]:
        """The folder in which code is kept meanwhile; `None` where there is none of ours.

        Args:
            raises: Whether compiling may raise where an entry cannot be read or written. Where
                somebody else compiles meanwhile and could not bear that, it does not.
        """
        with self._lock:
            if self._users == 0:
                self._open()
            self._users += 1
            if self._folder is not None and not raises:
                self._be_lenient()
        try:
            yield self._folder
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    self._close()

    def give_up(self, folder: Path, name: str) -> None:
        """Keep nothing any more in this process: an entry could not be read, or not written.

        What there is of this computation may be broken, and JAX would never write it anew.
        """
        self._gave_up = True
        let_go_of(folder, f"jit_{name}-")

    def _open(self) -> None:
        self._folder = None
        whole = None if self._gave_up or _is_chosen() else named_folder()
        if whole is None or not made_ready(whole):
            return
        if self._openings % _TRIMMED_EACH == 0:
            trim(whole)
        self._openings += 1
        self._folder = whole / processor()
        self._ours = {_FOLDER: str(self._folder), _LEAST_S: 0.0, _RAISES: True}
        self._before = {name: _setting(name) for name in self._ours}
        _tell(self._ours)

    def _be_lenient(self) -> None:
        warnings.filterwarnings("ignore", _WARNED)
        self._ours[_RAISES] = False
        jax.config.update(_RAISES, False)

    def _close(self) -> None:
        if self._folder is not None:  # what somebody else has set meanwhile stays
            ours = self._ours.items()
            _tell({name: self._before[name] for name, value in ours if _setting(name) == value})


def _setting(name: str) -> Any:
    return getattr(jax.config, name)


def _tell(settings: Mapping[str, Any]) -> None:
    """Make settings, and let JAX look at them again."""
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def _is_chosen() -> bool:
    """Whether the user has told JAX where to keep code, or to keep none."""
    named = JAX_VARIABLE in os.environ or _setting(_FOLDER) is not None
    return named or not _setting(_ENABLED)
