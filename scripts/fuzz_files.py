"""Damage valid files in many ways, and load them: each is refused, or loads and verifies.

    python scripts/fuzz_files.py --count 200000 --seed 0

An exception other than `BracesError` is a finding, and so is a case that runs long, takes much
memory, opens a file to write, starts a process, opens a connection, or runs code. A case is
identified by its number and the seed: `--first N --count 1` repeats it. The exit status is 1 if
there are findings, else 0.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import braces as br
import mutations as m
import program_mutations as pm
from braces.ir.fingerprint import fingerprint
from braces.passes.verifier.program import verify
from braces.storage.model_files import read_programs

MEMORY = 1 << 29
"""Bytes of address space that a case may add."""
FORBIDDEN = (
    "os.",
    "shutil.",
    "subprocess.",
    "socket.",
    "exec",
    "ctypes.",
    "pickle.",
    "marshal.",
    "urllib.",
)
_PLAIN = {"os.listdir", "os.scandir"}


# ---- what is done with a file ----------------------------------------------------------------


def load_program(path: Path) -> None:
    """Read the bytes of a program, as commands do."""
    _use(br.Program.from_bytes(path.read_bytes()))


def load_text(path: Path) -> None:
    """Read the text of a program."""
    _use(br.parse(path.read_bytes().decode(errors="replace")))


def load_model(path: Path) -> None:
    """Read the programs of a model, then the whole model."""
    for one in read_programs(path).values():
        _use(one.program)
    br.load_model(path)


def load_parameters(path: Path) -> None:
    """Read parameters into a scope."""
    br.load_parameters(br.Scope(), path)


def _use(program: br.Program) -> None:
    verify(program, all=True)
    text = str(program)
    fingerprint(program.definition)
    again = br.Program.from_bytes(program.to_bytes())
    assert str(again) == text, "another program after writing and reading"
    names = [n for op in program.definition.main.ops for n in op.binds()]
    if names:
        br.prune(program, [names[-1]])
    program.for_test()


Loaders: TypeAlias = "Mapping[str, tuple[Callable[[Path], None], Sequence[m.Mutation]]]"
"""By kind of file: what reads it, and how it is damaged."""

LOADERS: Loaders = {
    "program": (load_program, (*m.BYTES, *[m.mutate_fields] * 5, *[pm.mutate_program] * 8)),
    "text": (load_text, (*m.BYTES, *[m.mutate_words] * 8)),
    "model": (load_model, (*m.BYTES, *[m.mutate_header] * 5, *[pm.mutate_programs_inside] * 5)),
    "parameters": (load_parameters, (*m.BYTES, *[m.mutate_header] * 8)),
}


# ---- one case --------------------------------------------------------------------------------


class TooLongError(BaseException):
    """A case that exceeded the time limit."""


class ForbiddenError(BaseException):
    """A case with a forbidden action."""


@dataclass
class Outcome:
    """The results of all cases."""

    counts: Counter[str] = field(default_factory=Counter[str])
    refusals: Counter[str] = field(default_factory=Counter[str])
    findings: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    traces: dict[str, str] = field(default_factory=dict[str, str])
    slowest: tuple[float, int] = (0.0, -1)


_watching = [False]


def watching() -> bool:
    """Whether a case is being loaded."""
    return _watching[0]


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching[0] or event in _PLAIN:
        return
    writes = event == "open" and (
        set(str(arguments[1] or "r")) & set("wax+") or _flags(arguments)
    )
    if writes or (event.startswith(FORBIDDEN) and not importing(event)):
        raise ForbiddenError(f"{event} {arguments!r:.200}")


def _flags(arguments: tuple[Any, ...]) -> bool:
    return (
        bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if arguments[1] is None
        else False
    )


def importing(event: str) -> bool:
    """Return whether Python runs a module that is imported for the first time."""
    frame = sys._getframe()  # the import system is above a late import of our own
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def watched(limit_s: float) -> Any:
    """Limit time and forbid writing inside the context."""
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    faulthandler.dump_traceback_later(limit_s * 20, exit=True)
    _watching[0] = True
    try:
        yield
    finally:
        _watching[0] = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()


def _stop(*_: object) -> None:
    raise TooLongError


def run_case(
    number: int,
    seed: int,
    seeds: Sequence[tuple[str, bytes]],
    path: Path,
    limit_s: float,
    outcome: Outcome,
    loaders: Loaders = LOADERS,
) -> None:
    """Damage one file and load it."""
    rng = Random(f"{seed}/{number}")
    kind, data = rng.choice(seeds)
    load, mutations = loaders[kind]
    mutation = rng.choice(mutations)
    damaged = mutation(rng, data)
    path.write_bytes(damaged)
    observe(number, kind, mutation.__name__, partial(load, path), limit_s, outcome)


def observe(
    number: int,
    kind: str,
    how: str,
    use: Callable[[], None],
    limit_s: float,
    outcome: Outcome,
) -> None:
    """Run one case, and add its result."""
    start, said = time.process_time(), "loaded"
    try:
        with watched(limit_s):
            use()
    except br.BracesError as error:
        said = "refused"
        outcome.refusals[getattr(error, "code", type(error).__name__)] += 1
    except (Exception, TooLongError, ForbiddenError) as error:
        said = "found"
        _note(outcome, number, f"{kind}, {how}", error)
    outcome.counts[f"{kind} {said}"] += 1
    outcome.slowest = max(outcome.slowest, (time.process_time() - start, number))


def _note(outcome: Outcome, number: int, how: str, error: BaseException) -> None:
    frames = traceback.extract_tb(error.__traceback__)
    last = next((f for f in reversed(frames) if "braces" in f.filename), frames[-1])
    key = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
    outcome.findings.setdefault(key, []).append(number)
    shown = "".join(traceback.format_exception(error)[-8:])[-3000:]
    outcome.traces.setdefault(key, f"case {number} ({how})\n{shown}")


# ---- the files that are damaged --------------------------------------------------------------


def write_seeds(folder: Path) -> None:
    """Valid files: small ones, so that most damage is somewhere interesting."""
    scope = br.Scope()
    for name, build in (("plain", _plain), ("nested", _nested), ("rows", _rows)):
        program, out = build()
        br.Executor().init(program, scope)
        program.save(folder / f"{name}.program")
        (folder / f"{name}.text").write_text(str(program), encoding="utf-8")
        if name != "rows":
            br.save_model(folder / f"{name}.model", program, scope, ["x"], [out])
    br.save_parameters(scope, folder / "all.parameters")


def _plain() -> tuple[br.Program, br.Var]:
    with br.Program() as program:
        x = br.data("x", ["b", 4])
        hidden = br.fc(x, 3, act="tanh", name="fc")
        out = br.softmax(br.reshape(br.dropout(hidden, 0.5), [-1, 3]), axis=-1)
        parts = br.einsum("ij,kj->ik", out, hidden)
        loss = br.mean(br.pad(br.concat([out, parts[:, :1]], axis=1), [[0, 0], [1, 1]]))
        br.optimizer.sgd(learning_rate=0.1).minimize(loss)
    return program, out


def _nested() -> tuple[br.Program, br.Var]:
    with br.Program() as program:
        x = br.data("x", ["t", 3])
        w = br.parameter("w", [3, 3])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            step, h = net.add_input(x), net.add_memory(init=br.zeros([3]))
            loop = br.create_while(max_trips=9)
            with loop.block() as body:
                s = body.add_memory(init=step)
                body.set_condition(br.sum(s) < 2.0)
                s.update(s + br.exp(s @ w))
            h.update(br.tanh(h + loop.final(s)))
            net.add_output(h.pre(1))
        rows, last = rnn(), rnn.final(h)
        choice = br.create_if_else(br.sum(last) > 0.0)
        with choice.true_block() as t:
            t.add_output(br.sum(rows) * 2.0)
        with choice.false_block() as f:
            f.add_output(br.sum(last @ w))
        out = choice()
        br.optimizer.sgd(learning_rate=0.1).minimize(out)
    return program, out


def _rows() -> tuple[br.Program, br.Var]:
    with br.Program() as program:
        x = br.data("x", ["b", 3])
        choice = br.create_if_else(br.sum(x, axis=1) > 0.0)
        with choice.true_block() as t:
            t.add_output(br.sqrt(t.add_input(x)))
        with choice.false_block() as f:
            f.add_output(f.add_input(x) * 0.5)
        out = br.sum(choice())
        br.gradients([out], [x])
    return program, out


# ---- all cases -------------------------------------------------------------------------------


def fuzz(first: int, count: int, seed: int, limit_s: float) -> Outcome:
    """Run cases in a folder of their own, in which nothing may appear."""
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as empty:
        here = [sys.executable, __file__, "--write-seeds", made]
        subprocess.run(here, check=True)
        seeds = [(p.suffix[1:], p.read_bytes()) for p in sorted(Path(made).iterdir())]
        os.chdir(empty)
        limit_memory()
        for number in range(first, first + count):
            run_case(number, seed, seeds, Path(made, "case"), limit_s, outcome)
            if number % 20_000 == 19_999:
                tell(outcome, number + 1)
        left = os.listdir(empty)
        assert not left, f"files were written: {left}"
        os.chdir("/")
    assert "jax" not in sys.modules, "loading imported JAX"
    return outcome


def stop_late_cases() -> None:
    """Raise an error in a case that exceeds its time limit."""
    signal.signal(signal.SIGPROF, _stop)


def limit_memory() -> None:
    """Monitor the process from now on, and limit its memory."""
    stop_late_cases()
    sys.addaudithook(_watch)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def tell(outcome: Outcome, done: int) -> None:
    """Print the number of finished cases, and their results."""
    print(
        f"{done:,}: {dict(sorted(outcome.counts.items()))}, {len(outcome.findings)} findings",
        flush=True,
    )


def report(outcome: Outcome, done: int) -> int:
    """Print all findings; return the exit status."""
    for key, trace in outcome.traces.items():
        print(f"\n==== {key}: {len(outcome.findings[key])} cases\n{trace}")
    tell(outcome, done)
    print(f"refusals: {dict(outcome.refusals.most_common())}")
    print(f"slowest: {outcome.slowest[0]:.2f} s, case {outcome.slowest[1]}")
    return 1 if outcome.findings else 0


def command_line(doc: str | None, count: int, limit_s: float) -> argparse.ArgumentParser:
    """The arguments of all fuzzers."""
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=count, help="how many cases")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--limit", type=float, default=limit_s, help="seconds of CPU for a case"
    )
    return parser


def main() -> int:
    """Run the command line."""
    parser = command_line(__doc__, count=20_000, limit_s=3.0)
    parser.add_argument("--write-seeds", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write_seeds:
        write_seeds(options.write_seeds)
        return 0
    outcome = fuzz(options.first, options.count, options.seed, options.limit)
    return report(outcome, options.first + options.count)


if __name__ == "__main__":
    sys.exit(main())
