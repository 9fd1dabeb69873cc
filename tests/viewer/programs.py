"""Programs that pictures are tested with."""

from __future__ import annotations

import braces as br
from braces.dtypes import parse_type
from braces.extend.programs import Body, Op, ProgramDef, Source, VarInfo

HOSTILE = '</script><!--<img src=x onerror="alert(1)">&lt;\u2028{{script}}{{style}}'
F32 = parse_type("f32[4]")


def nested() -> br.Program:
    with br.Program() as prog:
        x = br.data("x", ["t", "batch", 4])
        w = br.parameter("w", [4, 4])
        rnn = br.create_rnn()
        with rnn.stepnet() as net:
            row = net.add_input(x)
            h = net.add_memory(shape=[4], batch_like=x, batch_axis=1)
            h.update(br.tanh(br.matmul(row, w) + h))
        br.append_backward(br.mean(rnn.final(h)))
    return prog


def strange() -> br.Program:
    """What a file from a stranger could hold, and worse."""
    infos = {HOSTILE: VarInfo(HOSTILE, F32), "x": VarInfo("x", F32, "data")}
    inputs, outputs = {HOSTILE: ("x", "nowhere")}, {"out": (HOSTILE,)}
    op = Op(HOSTILE, HOSTILE, inputs, outputs, {HOSTILE: HOSTILE}, Source(HOSTILE, 1))
    inner = Body((), (HOSTILE,), infos, (op,))
    owner = Op(
        "odd", "odd_0", {"captures": (HOSTILE,)}, {}, {"a": inner, HOSTILE: (inner, inner)}
    )
    return br.Program(ProgramDef(Body((), (), infos, (op, owner)), {HOSTILE: "x"}))


def many(ops: int) -> br.Program:
    infos = {f"v{i}": VarInfo(f"v{i}", F32) for i in range(ops + 1)}
    body = tuple(
        Op("tanh", f"op{i}", {"x": (f"v{i}",)}, {"out": (f"v{i + 1}",)}) for i in range(ops)
    )
    return br.Program(ProgramDef(Body((), (), infos, body), {}))


def deep(loops: int, ops: int) -> br.Program:
    """Loops one after the other, each with many operators in its body."""
    with br.Program() as prog:
        x = br.data("x", ["batch", 4])
        for _ in range(loops):
            rnn = br.create_rnn()
            with rnn.stepnet() as net:
                row = net.add_input(br.stack([x, x], axis=1), axis=1)
                h = net.add_memory(shape=[4], batch_like=x)
                y = h.pre(1)
                for _ in range(ops):
                    y = br.tanh(y + row)
                h.update(y)
            x = rnn.final(h)
    return prog
