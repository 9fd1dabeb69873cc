"""Entries of onnxscript."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.surgery_peers.common import NONE, X, load, ratio


class OnnxScript:
    """The rewriter of onnxscript: graphs of ONNX."""

    title, package = "onnxscript", "onnxscript"
    branch = """t = Tanh(x) s = Sigmoid(x) z = Mul(t, s) c = Constant <value = bool {1}> ()
      y = If (c) <then_branch = a () => (float[2, 3] p) { t2 = Tanh(z) s2 = Sigmoid(z)
      p = Mul(t2, s2) }, else_branch = b () => (float[2, 3] q) { q = Identity(z) }>"""
    loop = """n = Constant <value = int64 {3}> () c = Constant <value = bool {1}> ()
      y = Loop (n, c, x) <body = step (int64 i, bool go, float[2, 3] h) =>
      (bool more, float[2, 3] act) { more = Identity(go) act = Tanh(h) }>"""

    def __init__(self) -> None:
        self.onnx, self.ir = load("onnx"), load("onnx_ir")
        load("onnx.parser"), load("onnx.utils")
        self.rules = load("onnxscript.rewriter.pattern")
        self.runtime = load("onnxruntime")

    def proto(self, body: str) -> Any:
        """Return a model of one graph."""
        text = f"""<ir_version: 8, opset_import: ["" : 18]>
          net (float[2, 3] x) => (float[2, 3] y) {{ {body} }}"""
        return self.onnx.parser.parse_model(text)

    def model(self, body: str) -> Any:
        """Return a model as the rewriter reads it."""
        return self.ir.serde.deserialize_model(self.proto(body))

    def count(self, body: str, after: Any = None, **options: Any) -> tuple[int, Any]:
        """Rewrite `Tanh(x) * Sigmoid(x)`; return the number of matches and the model."""
        commute = options.pop("commute", False)

        def before(op: Any, x: Any) -> Any:
            return op.Mul(op.Tanh(x), op.Sigmoid(x))

        rule = self.rules.RewriteRule(before, after or (lambda op, x: op.Relu(x)), **options)
        model = self.model(body)
        rules = self.rules.RewriteRuleSet([rule], commute=commute)
        return rules.apply_to_model(model), model

    def run(self, proto: Any, *names: str) -> list[Any]:
        """Run a model with ONNX Runtime."""
        providers = ["CPUExecutionProvider"]
        options = self.runtime.SessionOptions()
        options.log_severity_level = 4
        session = self.runtime.InferenceSession(
            proto.SerializeToString(), options, providers=providers
        )
        return session.run(list(names), {"x": X})

    def find(self) -> str:
        """Find by a walk."""
        nodes = self.ir.traversal.RecursiveGraphIterator(self.model(self.branch).graph)
        return f"a loop over nodes: {sum(n.op_type == 'Tanh' for n in nodes)} of 2"

    def pattern(self) -> str:
        """Match an expression."""
        return f"`RewriteRule`: {self.count('t = Tanh(x) s = Sigmoid(x) y = Mul(t, s)')[0]}"

    def commuted(self) -> str:
        """Match an expression with commuted operands."""
        body = "t = Tanh(x) s = Sigmoid(x) y = Mul(s, t)"
        counts = self.count(body)[0], self.count(body, commute=True)[0]
        return f"{counts[0]}; {counts[1]} with `commute=True`, which copies rules"

    def inside(self) -> str:
        """Match in a branch."""
        return f"{self.count(self.branch)[0]} of 2 (`If`)"

    def elsewhere(self) -> str:
        """Match where an inner value has another reader."""
        body = "t = Tanh(x) s = Sigmoid(x) m = Mul(t, s) y = Add(m, t)"
        counts = self.count(body)[0], self.count(body, remove_nodes=False)[0]
        return f"{counts[0]}; {counts[1]} with `remove_nodes=False`"

    def parameters(self) -> str:
        """Insert an initializer at two places."""
        body = """t = Tanh(x) s = Sigmoid(x) z = Mul(t, s)
          t2 = Tanh(z) s2 = Sigmoid(z) y = Mul(t2, s2)"""

        def after(op: Any, x: Any) -> Any:
            ones = self.ir.tensor(np.ones(3, "float32"), name="w")
            return op.Mul(op.Relu(x), op.initializer(ones))

        matches, model = self.count(body, after)
        return f"{len(model.graph.initializers)} for {matches} places: one name"

    def gradients(self) -> str:
        """Look for a gradient."""
        return "yes" if hasattr(load("onnxscript"), "grad") else "no gradients"

    def step(self) -> str:
        """Name a notion that does not exist."""
        return NONE

    def failing(self) -> str:
        """Rewrite by two rules, of which the second raises an error."""

        def failed(op: Any, x: Any) -> Any:
            raise ValueError(op, x)

        rules = self.rules.RewriteRuleSet(
            [
                self.rules.RewriteRule(lambda op, x: op.Tanh(x), lambda op, x: op.Relu(x)),
                self.rules.RewriteRule(lambda op, x: op.Sigmoid(x), failed),
            ]
        )
        model = self.model("t = Tanh(x) y = Sigmoid(t)")
        try:
            rules.apply_to_model(model)
        except Exception:
            stays = any(node.op_type == "Relu" for node in model.graph)
        else:
            return "no error"
        return "the first stays" if stays else "none happens"

    def near(self) -> str:
        """Look for a tracer of matches."""
        return "`MatchingTracer`" if hasattr(self.rules, "MatchingTracer") else "no"

    def read(self) -> str:
        """Read a value as one more output."""
        proto = self.proto("t = Tanh(x) y = Sin(t)")
        proto.graph.output.append(self.onnx.ValueInfoProto(name="t"))
        assert np.allclose(self.run(proto, "t")[0], np.tanh(X), atol=1e-6)
        return "add an output"

    def thrice(self) -> str:
        """Read a value of a body as one more output."""
        proto = self.proto(self.loop)
        proto.graph.output.append(self.onnx.ValueInfoProto(name="act"))
        try:
            self.run(proto, "act")
        except Exception:
            return "no: an output of the main graph cannot read a body"
        return "yes"

    def patch(self) -> str:
        """Replace a value by edits."""
        model = self.model("t = Tanh(x) y = Sin(t)")
        node = next(iter(model.graph))
        self.ir.convenience.replace_all_uses_with(node.outputs[0], model.graph.inputs[0])
        proto = self.ir.serde.serialize_model(model)
        assert np.allclose(self.run(proto, "y")[0], np.sin(X), atol=1e-6)
        return "edit the graph"

    def order(self) -> str:
        """Read a late value before an early one."""
        proto = self.proto("t = Tanh(x) y = Sin(t)")
        proto.graph.output.append(self.onnx.ValueInfoProto(name="t"))
        y, t = self.run(proto, "y", "t")
        assert np.allclose(y, np.sin(t), atol=1e-6)
        return "yes"

    def cut(self) -> str:
        """Extract the first part."""
        proto = self.onnx.shape_inference.infer_shapes(self.proto("t = Tanh(x) y = Sin(t)"))
        first = self.onnx.utils.Extractor(proto).extract_model(["x"], ["t"])
        assert np.allclose(self.run(first, "t")[0], np.tanh(X), atol=1e-6)
        return "`onnx.utils.Extractor`"

    def diff(self) -> str:
        """Look for a comparison of models."""
        return (
            "yes" if hasattr(self.ir, "diff") or hasattr(load("onnxscript"), "diff") else "no"
        )

    def cost(self) -> str:
        """Measure a model with an output more."""
        body = "a0 = Tanh(x) " + " ".join(f"a{i + 1} = Sin(a{i})" for i in range(50))
        plain = self.proto(f"{body} y = Identity(a50)")
        probed = self.proto(f"{body} y = Identity(a50)")
        probed.graph.output.append(self.onnx.ValueInfoProto(name="a0"))
        sessions = [
            self.runtime.InferenceSession(
                p.SerializeToString(), providers=["CPUExecutionProvider"]
            )
            for p in (probed, plain)
        ]
        return ratio(*(lambda s=s: s.run(None, {"x": X}) for s in sessions))
