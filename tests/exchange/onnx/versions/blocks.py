"""Operators with graphs of their own, sequences and optionals."""

from __future__ import annotations

import numpy as np

from tests.exchange.onnx.versions.cases import Case, Table, text

A, B = np.array([1.5, -2.0], "f4"), np.array([0.5, 4.0], "f4")
ROWS = np.arange(6, dtype="f4").reshape(3, 2)
BATCH = np.stack([ROWS, -ROWS])
TRUE, FALSE = np.array(True), np.array(False)

# ---- If --------------------------------------------------------------------------------------

BRANCHES = """g (bool c, float[2] a, float[2] b) => (float[2] y, float[2] z) {
    y, z = If (c) <
        then_branch = t () => (float[2] s, float[2] d) { s = Add(a, b)  d = Sub(a, b) },
        else_branch = e () => (float[2] p, float[2] q) { p = Mul(a, b)  q = Identity(a) }
    >
}"""
NESTED = """g (bool c, bool d, float[2] a) => (float[2] y) {
    y = If (c) <
        then_branch = t () => (float[2] s) {
            s = If (d) <
                then_branch = tt () => (float[2] u) { u = Neg(a) },
                else_branch = te () => (float[2] v) { v = Exp(a) }
            >
        },
        else_branch = e () => (float[2] p) { p = Abs(a) }
    >
}"""
SEQUENCES = """g (bool c, float[2] a, float[2] b) => (float[2] y) {
    s = If (c) <
        then_branch = t () => (seq(float[2]) u) { u = SequenceConstruct(a, b) },
        else_branch = e () => (seq(float[2]) v) { v = SequenceConstruct(b, a) }
    >
    i = Constant<value = int64 {0}>()
    y = SequenceAt(s, i)
}"""
IF = (
    *(text(BRANCHES, inputs={"c": c, "a": A, "b": B}) for c in (TRUE, FALSE)),
    text(BRANCHES.replace("bool c", "bool[1] c"), inputs={"c": TRUE[None], "a": A, "b": B}),
    *(text(NESTED, inputs={"c": TRUE, "d": d, "a": A}) for d in (TRUE, FALSE)),
    text(SEQUENCES, inputs={"c": FALSE, "a": A, "b": B}, since=13),
)

# ---- Loop ------------------------------------------------------------------------------------

BODY = """<
        body = b (int64 i, bool on, float[2] v) => (bool out, float[2] w, float[2] row) {
            k = Cast<to = 1>(i)
            w = Add(v, a)
            row = Mul(w, k)
            out = Identity(on)
        }
    >"""
COUNTED = f"""g (int64 n, float[2] a) => (float[2] y, float[K, 2] rows) {{
    c = Constant<value = bool {{1}}>()
    y, rows = Loop (n, c, a) {BODY}
}}"""
KNOWN = f"""g (float[2] a) => (float[2] y, float[K, 2] rows) {{
    n = Constant<value = int64 {{3}}>()
    y, rows = Loop (n, , a) {BODY}
}}"""
ASKING = """g (bool c, float[2] a) => (float[2] y) {
    y = Loop (, c, a) <
        body = b (int64 i, bool on, float[2] v) => (bool out, float[2] w) {
            w = Add(v, v)
            s = ReduceMax<keepdims = 0>(w)
            most = Constant<value = float {20.0}>()
            out = Less(s, most)
        }
    >
}"""
BOTH = ASKING.replace("(bool c, ", "(int64[1] n, bool[1] c, ").replace("(, c", "(n, c")
COLLECTED = """g (float[2] a) => (float[2] y) {
    n = Constant<value = int64 {3}>()
    e = SequenceEmpty()
    s = Loop (n, , e) <
        body = b (int64 i, bool on, seq(float[2]) v) => (bool out, seq(float[2]) w) {
            k = Cast<to = 1>(i)
            x = Mul(a, k)
            w = SequenceInsert(v, x)
            out = Identity(on)
        }
    >
    last = Constant<value = int64 {-1}>()
    y = SequenceAt(s, last)
}"""
LOOP = (
    *(text(COUNTED, inputs={"n": np.array(n), "a": A}) for n in (3, 0)),
    text(KNOWN, inputs={"a": A}),
    *(text(ASKING, inputs={"c": c, "a": A}) for c in (TRUE, FALSE)),
    text(BOTH, inputs={"n": np.array([2]), "c": TRUE[None], "a": A}),
    text(COLLECTED, inputs={"a": A}, since=13),
)

# ---- Scan ------------------------------------------------------------------------------------

STEP = """<BEFORE
        num_scan_inputs = 1,
        body = b (float[2] s, float[2] x) => (float[2] t, float[2] o) {
            t = Add(s, x)
            o = Mul(t, x)
        }
    >"""
SCANNED = """g (float[2] a, float[3, 2] x) => (float[2] y, float[3, 2] rows) {
    y, rows = Scan(a, x) STEP
}"""
TURNED = """g (float[2] a, float[2, 3] x) => (float[2] y, float[2, 3] rows) {
    y, rows = Scan(a, x) STEP
}"""
OLD = """g (float[2, 2] a, float[2, 3, 2] x) => (float[2, 2] y, float[2, 3, 2] rows) {
    y, rows = Scan(, a, x) STEP
}"""
LONG = OLD.replace("g (", "g (int64[2] n, ").replace("Scan(,", "Scan(n,")
AXES = "scan_input_axes = [1], scan_output_axes = [1], scan_input_directions = [1],"
BACK = "scan_output_directions = [1],"


def step(graph: str, before: str = "") -> str:
    """A scan with attributes."""
    return graph.replace(" STEP", f" {STEP.replace('BEFORE', before)}")


SCAN = (
    text(step(OLD), inputs={"a": ROWS[:2], "x": BATCH}, until=8),
    text(step(OLD, "directions = [1],"), inputs={"a": ROWS[:2], "x": BATCH}, until=8),
    text(
        step(LONG),
        inputs={"n": np.array([3, 2]), "a": ROWS[:2], "x": BATCH},
        until=8,
    ),
    text(
        step(LONG, "directions = [1],"),
        inputs={"n": np.array([1, 2]), "a": ROWS[:2], "x": BATCH},
        until=8,
    ),
    text(step(SCANNED), inputs={"a": A, "x": ROWS}, since=9),
    text(step(TURNED, AXES + BACK), inputs={"a": A, "x": ROWS.T.copy()}, since=9),
    text(
        step(TURNED, AXES.replace("[1]", "[-1]", 2) + BACK),
        inputs={"a": A, "x": ROWS.T.copy()},
        since=11,
    ),
)


# ---- sequences -------------------------------------------------------------------------------


def of_sequence(nodes: str, outputs: str = "float[2] y", **more: object) -> Case:
    """Return the results computed from the sequence s, a and b."""
    graph = f"""g (float[2] a, float[2] b, int64 i) => ({outputs}) {{
        s = SequenceConstruct(a, b)
        {nodes}
    }}"""
    return text(graph, inputs={"a": A, "b": B, "i": np.array(-1)}, **more)


LAST = "k = Constant<value = int64 {-1}>()"
FIRST = "k = Constant<value = int32 {0}>()"
OPTIONAL = "g (float[2] a) => (OUT y) { NODES }"


def optional(nodes: str, out: str = "float[2]", **more: object) -> Case:
    """Return the results computed from an optional."""
    graph = OPTIONAL.replace("NODES", nodes).replace("OUT", out)
    return text(graph, inputs={"a": A}, **more)


TABLE: Table = {
    "If": IF,
    "Loop": LOOP,
    "Scan": SCAN,
    "SequenceConstruct": (of_sequence(f"{LAST} y = SequenceAt(s, k)"),),
    "SequenceAt": (
        of_sequence(f"{FIRST} y = SequenceAt(s, k)"),
        of_sequence("y = SequenceAt(s, i)"),
    ),
    "SequenceEmpty": (
        text("g () => (int64 y) { s = SequenceEmpty() y = SequenceLength(s) }"),
        text("g () => (int64 y) { s = SequenceEmpty<dtype = 7>() y = SequenceLength(s) }"),
    ),
    "SequenceErase": (
        of_sequence("t = SequenceErase(s) y = SequenceAt(t, i)"),
        of_sequence(f"{FIRST} t = SequenceErase(s, k) y = SequenceAt(t, i)"),
        of_sequence("t = SequenceErase(s, i) y = SequenceAt(t, i)"),
    ),
    "SequenceInsert": (
        of_sequence("t = SequenceInsert(s, a) y = SequenceAt(t, i)"),
        of_sequence(f"{LAST} t = SequenceInsert(s, a, k) y = SequenceAt(t, k)"),
        of_sequence("t = SequenceInsert(s, a, i) y = SequenceAt(t, i)"),
    ),
    "SequenceLength": (of_sequence("y = SequenceLength(s)", "int64 y"),),
    "SequenceMap": (
        of_sequence("""t = SequenceMap(s) <
            body = m (float[2] v) => (float[2] w) { w = Mul(v, v) }
        > y = SequenceAt(t, i)"""),
        of_sequence("""t = SequenceMap(s, b) <
            body = m (float[2] v, float[2] c) => (float[2] w) { w = Mul(v, c) }
        > y = SequenceAt(t, i)"""),
    ),
    "ConcatFromSequence": (
        of_sequence("y = ConcatFromSequence<axis = 0>(s)", "float[4] y"),
        of_sequence("y = ConcatFromSequence<axis = 1, new_axis = 1>(s)", "float[2, 2] y"),
        of_sequence("y = ConcatFromSequence<axis = -1>(s)", "float[4] y"),
    ),
    "SplitToSequence": tuple(
        text(
            f"""g (float[3, 2] x) => (float[M{other}] y) {{
                {before}
                i = Constant<value = int64 {{1}}>()
                s = SplitToSequence <{attrs}> (x{split})
                y = SequenceAt(s, i)
            }}""",
            inputs={"x": ROWS},
        )
        for before, attrs, split, other in (
            ("", "keepdims = 1", "", ", L"),
            ("", "axis = 1, keepdims = 0", "", ""),
            ("k = Constant<value = int64[2] {1, 2}>()", "axis = 0", ", k", ", L"),
            ("k = Constant<value = int64 {2}>()", "axis = -2", ", k", ", L"),
        )
    ),
    "Optional": (
        optional("o = Optional(a) y = OptionalGetElement(o)"),
        text(
            "g () => (bool y) { o = Optional<type = float[2]>() y = OptionalHasElement(o) }",
        ),
    ),
    "OptionalGetElement": (
        optional("o = Optional(a) y = OptionalGetElement(o)"),
        optional("y = OptionalGetElement(a)", since=18),
    ),
    "OptionalHasElement": (
        optional("o = Optional(a) y = OptionalHasElement(o)", "bool"),
        optional("y = OptionalHasElement(a)", "bool", since=18),
        text("g () => (bool y) { y = OptionalHasElement() }", since=18),
    ),
}
