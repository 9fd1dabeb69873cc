"""The compilation cache: XLA code in a folder of the user, for later processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np
import pytest
from jax._src import path as jax_path
from jax.experimental.compilation_cache import compilation_cache

import braces as br
from braces.lower.cache.cache_directory import (
    VARIABLE,
    evict_entries,
    find_cache_folder,
    list_entries,
    prepare_cache,
    processor_name,
)
from braces.lower.cache.persistent_cache import compile_or_read, get_persistent_cache
from tests.lower.cache.cache_settings import JAX_FOLDER, SETTINGS

HIT, MISS = "cache_hits", "cache_misses"


@contextmanager
def counted() -> Generator[Counter[str]]:
    """How often code was found in JAX's folder, and how often it was put there."""
    found = Counter[str]()

    def note(event: str, **_: object) -> None:
        found[event.rpartition("/")[2]] += 1

    jax.monitoring.register_event_listener(note)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_listener(note)


def train(mode: str = "compile") -> float:
    """Compile and run a step, with an executor that knows nothing yet; the loss."""
    with br.Program() as prog:
        x = br.data("x", ["b", 4])
        loss = br.mean(br.square(br.fc(x, 2, name="fc")))
        br.optimizer.sgd(0.1).minimize(loss)
    exe, scope = br.Executor(mode), br.Scope()
    exe.clear()
    exe.init(prog, scope, seed=0)
    feed = {"x": np.ones((3, 4), "f4")}
    return float(exe.run(prog, scope, feed=feed, fetch=loss))


def entries(folder: Path) -> list[Path]:
    """The files of the folder, by name."""
    return sorted(one.path for one in list_entries(folder))


# ---- what is kept ----------------------------------------------------------------------------


def test_what_is_compiled_again_is_read(folder: Path) -> None:
    with counted() as first:
        loss = train()
    with counted() as second:
        assert train() == loss
    assert (first[HIT], first[MISS]) == (0, 2)
    assert (second[HIT], second[MISS]) == (2, 0)
    assert len(entries(folder)) == 2
    assert folder.stat().st_mode & 0o777 == 0o700


SECOND = """
import sys
import jax
import braces as br

events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
with br.Program() as prog:
    x = br.data("x", ["b", 4])
    loss = br.mean(br.square(br.fc(x, 2, name="fc")))
    br.optimizer.adam(0.1).minimize(loss)
exe, scope = br.Executor(), br.Scope()
exe.init(prog, scope, seed=0)
print(exe.run(prog, scope, feed={"x": [[1.0, 2.0, 3.0, 4.0]]}, fetch=loss))
for name in ("cache_hits", "cache_misses"):
    print(sum(event.endswith(name) for event in events))
"""


def started(tmp_path: Path) -> list[str]:
    """What a process prints whose user has a folder for such files, and told JAX nothing."""
    env = {n: v for n, v in os.environ.items() if "CACHE" not in n}
    home = dict.fromkeys(("XDG_CACHE_HOME", "HOME", "LOCALAPPDATA"), str(tmp_path))
    command = [sys.executable, "-W", "error", "-c", SECOND]
    done = subprocess.run(
        command, env={**env, **home}, capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    loss, *first = started(tmp_path)
    assert first == ["0", "2"]
    assert started(tmp_path) == [loss, "2", "0"]


def test_what_others_compile_with_jax_is_kept_nowhere(folder: Path) -> None:
    before = [getattr(jax.config, name) for name in SETTINGS]
    train()
    assert [getattr(jax.config, name) for name in SETTINGS] == before
    kept = entries(folder)
    with counted() as found:
        assert jax.jit(lambda x: x * 3.0 + 1.0)(2.0) == 7.0
    assert not found[HIT] + found[MISS]
    assert entries(folder) == kept


def test_single_operators_are_read_where_they_are_interpreted_again(folder: Path) -> None:
    before = [getattr(jax.config, name) for name in SETTINGS]
    with counted() as first:
        loss = train("interpret")
    with counted() as second:
        assert train("interpret") == loss
    assert first[MISS] > 10
    assert second[HIT] > 10
    assert not second[MISS]
    assert [getattr(jax.config, name) for name in SETTINGS] == before


def test_a_run_that_compiles_nothing_looks_at_no_folder(
    folder: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with br.Program() as prog:
        y = br.data("x", []) * 2.0
    exe, scope = br.Executor(mode), br.Scope()
    exe.clear()
    assert exe.run(prog, scope, feed={"x": 1.0}, fetch=y) == 2.0
    assert entries(folder)
    monkeypatch.setattr(get_persistent_cache(), "keeping", None)
    assert exe.run(prog, scope, feed={"x": 2.0}, fetch=y) == 4.0


# ---- which folder ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"), [(JAX_FOLDER, "mine"), ("jax_enable_compilation_cache", False)]
)
def test_what_a_user_of_jax_has_chosen_wins(
    folder: Path, tmp_path: Path, name: str, value: object
) -> None:
    value = str(tmp_path / value) if isinstance(value, str) else value
    before = getattr(jax.config, name)
    jax.config.update(name, value)
    compilation_cache.reset_cache()
    try:
        train()
        assert getattr(jax.config, name) == value
    finally:
        jax.config.update(name, before)
    assert not folder.exists()


def test_a_folder_of_jax_in_the_environment_wins_also_where_it_is_none(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(JAX_FOLDER.upper(), "")
    train()
    assert not folder.exists()


def test_a_folder_that_is_chosen_while_something_compiles_wins(
    folder: Path, tmp_path: Path
) -> None:
    chosen = str(tmp_path / "chosen")
    with get_persistent_cache().keeping() as found:
        assert found == folder / processor_name()
        jax.config.update(JAX_FOLDER, chosen)
    assert getattr(jax.config, JAX_FOLDER) == chosen
    assert getattr(jax.config, SETTINGS[2]) is False
    with get_persistent_cache().keeping() as found:
        assert found is None


def test_those_who_compile_at_once_share_the_folder(folder: Path) -> None:
    with get_persistent_cache().keeping() as one:
        with get_persistent_cache().keeping() as other:
            assert one == other == folder / processor_name()
        assert getattr(jax.config, JAX_FOLDER) == str(one)
    assert getattr(jax.config, JAX_FOLDER) is None


def test_an_empty_name_keeps_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    with counted() as found:
        train()
    assert not found[HIT] + found[MISS]
    assert not folder.exists()


def test_without_a_name_the_folder_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    assert find_cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/braces/xla")
    usual = Path.home() / ".cache/braces/xla"
    assert find_cache_folder({}) == find_cache_folder({"XDG_CACHE_HOME": "here"}) == usual
    monkeypatch.setattr(sys, "platform", "darwin")
    assert find_cache_folder({}) == Path.home() / "Library/Caches/braces/xla"
    monkeypatch.setattr(sys, "platform", "win32")
    assert find_cache_folder({"LOCALAPPDATA": "/local"}) == Path("/local/braces/xla")


def test_a_named_folder_stays_the_same_wherever_the_process_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_cache_folder({VARIABLE: "here"}) == tmp_path / "here" / "xla"
    assert find_cache_folder({VARIABLE: "~/there"}) == Path.home() / "there" / "xla"


def test_each_kind_of_processor_has_a_separate_folder(tmp_path: Path) -> None:
    paragraph = "processor\t: 0\nmodel name\t: Fast\ncpu MHz\t: {}\nflags\t: sse {}\n"
    names = list[str]()
    for number, (speed, more) in enumerate([(1000, ""), (2000, ""), (1000, "avx512f")]):
        told = tmp_path / f"{number}"
        told.write_text(paragraph.format(speed, more) + "\nprocessor\t: 1\nflags\t: other\n")
        names.append(processor_name(told))
    assert names[0] == names[1] != names[2]
    assert processor_name(tmp_path / "none") == processor_name(tmp_path / "none there")


def test_a_folder_that_cannot_be_made_is_left_alone(folder: Path) -> None:
    folder.parent.write_text("a file")
    with counted() as found:
        train()
    assert not found[HIT] + found[MISS]


def test_a_folder_that_others_can_write_to_is_left_alone(folder: Path) -> None:
    folder.mkdir(parents=True)
    for mode in (0o777, 0o770, 0o702):
        folder.chmod(mode)
        train()
        assert not entries(folder)
    folder.chmod(0o755)
    assert prepare_cache(folder)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner there")
def test_a_folder_of_somebody_else_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
    train()
    assert not entries(folder)


# ---- what is broken --------------------------------------------------------------------------


def test_an_entry_that_was_cut_short_does_no_harm(folder: Path) -> None:
    loss = train()
    whole = {path: path.read_bytes() for path in entries(folder)}
    for path, data in whole.items():
        path.write_bytes(data[: len(data) // 2])
    assert train() == loss  # warnings are errors in tests
    get_persistent_cache.cache_clear()
    train()
    get_persistent_cache.cache_clear()
    train()
    assert {path: len(path.read_bytes()) for path in entries(folder)}.keys() == whole.keys()
    with counted() as found:
        assert train() == loss
    assert (found[HIT], found[MISS]) == (2, 0)


def test_an_operator_whose_entry_was_cut_short_is_compiled_in_silence(folder: Path) -> None:
    loss = train("interpret")
    for path in entries(folder):
        path.write_bytes(path.read_bytes()[:20])
    with counted() as found:
        assert train("interpret") == loss  # warnings are errors in tests
    assert not found[HIT]


def test_who_cannot_bear_an_error_gets_none_from_who_can(folder: Path) -> None:
    with get_persistent_cache().keeping(raises=True) as found:
        assert getattr(jax.config, SETTINGS[2]) is True
        with get_persistent_cache().keeping():
            assert getattr(jax.config, SETTINGS[2]) is False
        assert getattr(jax.config, JAX_FOLDER) == str(found)
    assert getattr(jax.config, JAX_FOLDER) is None
    with get_persistent_cache().keeping(), get_persistent_cache().keeping(raises=True):
        assert getattr(jax.config, SETTINGS[2]) is False


def test_an_entry_that_cannot_be_written_does_no_harm(
    folder: Path, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    # JAX writes through a path of etils where that is installed.
    monkeypatch.setattr(type(jax_path.Path(folder)), "write_bytes", full)
    assert np.isfinite(train(mode))
    assert not entries(folder)


def test_a_program_that_does_not_compile_raises_its_error(folder: Path) -> None:
    told = list[str]()

    class Broken:
        def compile(self) -> None:
            told.append(getattr(jax.config, JAX_FOLDER) or "nowhere")
            raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        compile_or_read(Broken(), "braces_0")
    assert told == [str(folder / processor_name()), "nowhere"]


# ---- how much --------------------------------------------------------------------------------


def test_what_was_used_longest_ago_is_let_go(tmp_path: Path) -> None:
    folder = tmp_path / "xla"
    assert prepare_cache(folder)
    for number, name in enumerate("cab"):
        path = folder / processor_name() / f"{name}-{'0' * 64}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (number, number))
    evict_entries(folder, most_bytes=300)
    assert [path.name[0] for path in entries(folder)] == ["a", "b", "c"]
    evict_entries(folder, most_bytes=299)
    assert [path.name[0] for path in entries(folder)] == ["a", "b"]
    evict_entries(folder, most_files=1)
    assert [path.name[0] for path in entries(folder)] == ["b"]


def test_the_folder_is_trimmed_when_a_process_compiles(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimmed = list[Path]()
    monkeypatch.setattr("braces.lower.cache.persistent_cache.evict_entries", trimmed.append)
    train()
    assert trimmed == [folder]
