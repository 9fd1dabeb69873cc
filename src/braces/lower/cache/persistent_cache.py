"""Persistent compilation cache: code compiled by XLA, shared by processes.

JAX can store compiled code in a folder. The folder is a setting of the process that JAX reads
once: all later compilations are stored there, too. So Braces makes the setting when its
compilation starts, and restores it at the end; an interpreted program, which compiles single
operators, does so in its first run. Other JAX compilations of the process are not stored. A
folder chosen by the user, at any time, has priority. A run that compiles nothing has no
overhead.
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
    evict_entries,
    find_cache_folder,
    prepare_cache,
    processor_name,
    remove_entries,
)

_FOLDER, _ENABLED = "jax_compilation_cache_dir", "jax_enable_compilation_cache"
_LEAST_S, _RAISES = (
    "jax_persistent_cache_min_compile_time_secs",
    "jax_raise_persistent_cache_errors",
)
_WARNED = "Error (reading|writing) persistent compilation cache entry"
"""The warning of JAX about an entry if it does not raise; it then compiles."""
_HIT = "/jax/compilation_cache/cache_hits"
_TRIMMED_EACH = 64
"""The number of compilations between two checks of the folder size."""


def code_name(ops: Iterable[Op], arguments: Iterable[Any]) -> str:
    """Return the name of compiled code: equal in all processes, distinct for most programs."""
    key = [op.type for op in ops], [(x.shape, str(x.dtype)) for x in arguments]
    return f"braces_{sha256(repr(key).encode()).hexdigest()[:16]}"


def compile_or_read(lowered: Any, name: str) -> Any:
    """Compile a lowered computation, or read it from the cache.

    Args:
        lowered: The computation, as JAX lowered it.
        name: The name of its function; see `code_name`.
    """
    keeper = get_persistent_cache()
    with keeper.keeping(raises=True) as folder:
        try:
            return lowered.compile()
        except Exception:
            if folder is None:
                raise
            keeper.give_up(folder, name)
    return lowered.compile()  # an error of the program itself is raised again


class _Reads(local):
    """The number of cache hits of this thread."""

    count = 0


_reads = _Reads()


def count_cache_hits() -> int:
    """Return the number of cache hits of this thread."""
    _register_listener()
    return _reads.count


@cache
def _register_listener() -> None:
    """Register a listener for cache hits."""

    def note(event: str, **more: Any) -> None:
        del more
        if event == _HIT:
            _reads.count += 1

    jax.monitoring.register_event_listener(note)


@cache
def get_persistent_cache() -> PersistentCache:
    """Return the persistent cache of the process."""
    return PersistentCache()


class PersistentCache:
    """Enables the persistent cache of JAX during compilations of Braces.

    The settings belong to the process: compilations of other threads in these moments are
    stored too.
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
        """Enable the cache in a block; yields its folder, or `None` if there is none.

        Args:
            raises: Whether compiling may raise if an entry cannot be read or written. It does
                not if a concurrent compilation does not allow that.
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
        """Disable the cache for this process, after an entry could not be read or written.

        Entries of this computation may be broken, and JAX would never rewrite them.
        """
        self._gave_up = True
        remove_entries(folder, f"jit_{name}-")

    def _open(self) -> None:
        self._folder = None
        cache_folder = (
            None if self._gave_up or _is_configured_by_user() else find_cache_folder()
        )
        if cache_folder is None or not prepare_cache(cache_folder):
            return
        if self._openings % _TRIMMED_EACH == 0:
            evict_entries(cache_folder)
        self._openings += 1
        self._folder = cache_folder / processor_name()
        self._ours = {_FOLDER: str(self._folder), _LEAST_S: 0.0, _RAISES: True}
        self._before = {name: _get_setting(name) for name in self._ours}
        _apply_settings(self._ours)

    def _be_lenient(self) -> None:
        warnings.filterwarnings("ignore", _WARNED)
        self._ours[_RAISES] = False
        jax.config.update(_RAISES, False)

    def _close(self) -> None:
        if self._folder is not None:  # settings changed by others meanwhile stay
            ours = self._ours.items()
            _apply_settings(
                {
                    name: self._before[name]
                    for name, value in ours
                    if _get_setting(name) == value
                }
            )


def _get_setting(name: str) -> Any:
    return getattr(jax.config, name)


def _apply_settings(settings: Mapping[str, Any]) -> None:
    """Update settings, and let JAX read them again."""
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def _is_configured_by_user() -> bool:
    """Return whether the user configured the cache of JAX, or disabled it."""
    named = JAX_VARIABLE in os.environ or _get_setting(_FOLDER) is not None
    return named or not _get_setting(_ENABLED)
