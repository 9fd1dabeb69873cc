"""Entries of Braces."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

import braces as br
from benchmarks.surgery_peers.common import X, ratio


class Braces:
    """Programs of Braces."""

    title, package = "Braces", "braces"

    def __init__(self) -> None:
        self.prog, self.exe = self.program(), br.Executor()
        self.scope = self.exe.init(self.prog)
        self.feed = {"x": np.stack([X] * 3)}

    @staticmethod
    def program(train: bool = False) -> br.Program:
        """Return a program with `tanh(x) * 2` outside and inside a loop of 3 iterations."""
        with br.Program() as prog:
            x, rnn = br.data("x", [3, 2, 3]), br.create_rnn()
            w = br.parameter("w", [3], init=0.5)
            outside = br.multiply(br.tanh(x * w, name="before"), 2.0, name="outside")
            with rnn.stepnet() as step:
                row, h = step.add_input(outside), step.add_memory(init=br.zeros([2, 3]))
                act = br.tanh(row + h.pre(1), name="act")
                h.update(br.multiply(act, 2.0, name="inside"))
            loss = br.mean(rnn.final(h), name="loss")
            prog.give(loss.name)
            if train:
                br.optimizer.sgd(0.1).minimize(loss)
        return prog

    @staticmethod
    def gelu(text: str) -> br.Program:
        """Return a program of an expression."""
        with br.Program() as prog:
            x = br.data("x", [2, 3])
            y = (
                x * 0.5 * (1 + br.special.erf(x))
                if text == "same"
                else (br.special.erf(x) + 1) * (0.5 * x)
            )
            prog.give(br.identity(y, name="y").name)
        return prog

    @staticmethod
    def doubled(x: br.Var) -> br.Var:
        """Return the pattern of the program."""
        return br.tanh(x) * 2.0

    def find(self) -> str:
        """Find by type."""
        return f"`prog.find(type=…)`: {len(self.prog.find(type='tanh'))} of 2"

    def matches(self, text: str) -> int:
        """Return the number of matches of a GELU."""
        new = self.gelu(text).rewrite(lambda x: x * 0.5 * (1 + br.special.erf(x)), br.relu)
        assert new.report is not None
        return len(new.report)

    def pattern(self) -> str:
        """Match the same expression."""
        return f"`prog.rewrite`: {self.matches('same')}"

    def commuted(self) -> str:
        """Match the expression with commuted operands."""
        return f"{self.matches('commuted')}"

    def rewritten(self, prog: br.Program, **options: Any) -> br.Program:
        """Replace the pattern by a sigmoid."""
        return prog.rewrite(self.doubled, br.sigmoid, **options)

    def inside(self) -> str:
        """Match in the body of a loop."""
        new = self.rewritten(self.prog)
        assert new.report is not None
        return f"{len(new.report)} of 2 (loop)"

    def elsewhere(self) -> str:
        """Match where an inner value has another reader."""
        with br.Program() as prog:
            t = br.tanh(br.data("x", [2, 3]), name="t")
            prog.give(br.multiply(t, 2.0, name="y").name)
            prog.give(t.name)
        new = self.rewritten(prog)
        assert new.report is not None
        _, t = self.exe.run(new, br.Scope(), {"x": X})
        assert np.allclose(t, np.tanh(X), atol=1e-6)
        return f"{len(new.report)}, the value stays"

    def parameters(self) -> str:
        """Insert a parameter at two places."""

        def after(x: br.Var, *, match: Any) -> br.Var:
            del match
            return br.sigmoid(x) * br.parameter(None, [3], init=3.0)

        new = self.prog.rewrite(self.doubled, after)
        added = {info.name for info in new.persistable_infos} - {"w"}
        scope = self.exe.init(new)
        assert all(np.all(scope.var(name).value == 3.0) for name in added)
        return f"{len(added)} for 2 places, with initial values"

    def gradients(self) -> str:
        """Replace an operator of a training step."""
        train = self.program(train=True)
        anew = self.rewritten(self.program())
        with anew:
            br.optimizer.sgd(0.1).minimize(anew.var("loss"))
        steps = [self.exe.init(p) for p in (self.rewritten(train), anew)]
        self.exe.run(self.rewritten(train), steps[0], self.feed)
        self.exe.run(anew, steps[1], self.feed)
        assert np.allclose(*(scope["w"] for scope in steps), atol=1e-6)
        exact = train.rewrite(self.doubled, lambda x: 2.0 * br.tanh(x), exact=True)
        runs = [self.exe.run(p, self.exe.init(p), self.feed) for p in (train, exact)]
        assert np.allclose(runs[0], runs[1], atol=1e-6)
        return "differentiated again; in place with `exact=True`"

    def step(self) -> str:
        """Insert a parameter into a loop of a training step, and continue the step."""
        train = self.program(train=True)
        scope = self.exe.init(train)
        self.exe.run(train, scope, self.feed)
        new = train.insert_after(
            "loop_0/body/act", lambda v: v * br.parameter("gain", [3], init=1.0)
        )
        self.exe.init(new, scope, missing_only=True)
        before = {name: np.array(scope[name]) for name in ("w", "gain")}
        self.exe.run(new, scope, self.feed)
        trained = [name for name, value in before.items() if np.any(scope[name] != value)]
        return f"the step follows: {len(trained)} of 2 are trained"

    def failing(self) -> str:
        """Rewrite, and remove a result, in one transaction."""
        text = str(self.prog)
        with contextlib.suppress(br.ProgramError), self.prog.edit() as edits:
            edits.rewrite(self.doubled, br.sigmoid)
            edits.remove("loss")
        assert str(self.prog) == text
        kept = edits.program is self.prog
        return "`prog.edit()`: " + ("none happens" if kept else "the first stays")

    def near(self) -> str:
        """Read the report."""
        new = self.prog.rewrite(lambda x: br.tanh(x) * 3.0, br.sigmoid)
        assert new.report is not None
        return f"`report.near`: {len(new.report.near)} with reasons"

    def read(self) -> str:
        """Fetch by path."""
        act = self.exe.run(self.prog, self.scope, self.feed, fetch="before")
        assert np.allclose(act, np.tanh(self.feed["x"] * 0.5), atol=1e-6)
        return "`fetch=path`"

    def thrice(self) -> str:
        """Fetch a value of a loop."""
        act = self.exe.run(self.prog, self.scope, self.feed, fetch="loop_0/body/act")
        return f"{np.shape(act)[0]} values, stacked by iteration"

    def patch(self) -> str:
        """Patch a value in one iteration."""
        patch = {"loop_0/body/act": br.patch(0.0, trips=2)}
        loss = self.exe.run(self.prog, self.scope, self.feed, patch=patch)
        assert np.allclose(loss, 0.0)
        return "`patch={path: value}`, by iteration"

    def order(self) -> str:
        """Fetch a late value before an early one."""
        fetch = ["loss", "loop_0/body/act", "before"]
        assert len(self.exe.run(self.prog, self.scope, self.feed, fetch=fetch)) == 3
        return "yes"

    def cut(self) -> str:
        """Cut at a value."""
        first, rest = br.cut(self.prog, at=["outside"])
        middle = self.exe.run(first, self.scope, self.feed, fetch="outside")
        loss = self.exe.run(rest, self.scope, {"outside": middle})
        assert np.allclose(loss, self.exe.run(self.prog, self.scope, self.feed), atol=1e-6)
        return "`br.cut`: 2 programs"

    def diff(self) -> str:
        """Compare a program with a changed one."""
        start, _, end = str(self.prog).rpartition("= tanh(")
        other = br.parse(f"{start}= sin({end}")
        other.startup = self.prog.startup
        values = br.compare_values(self.prog, other, self.scope, self.feed)
        assert values.first is not None
        changes = len(br.diff(self.prog, other))
        return f"`br.diff`: {changes} change; `br.compare_values`: `{values.first.path}`"

    def cost(self) -> str:
        """Measure a run with an inner value fetched."""
        both = ["loss", "loop_0/body/act"]
        calls = [
            lambda f=f: np.asarray(self.exe.run(self.prog, self.scope, self.feed, fetch=f)[0])
            for f in (both, ["loss"])
        ]
        for call in calls:
            call()
        return ratio(*calls)
