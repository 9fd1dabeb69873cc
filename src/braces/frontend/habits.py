"""What people type by habit on programs, scopes, executors and models, and the answer."""

from __future__ import annotations

from collections.abc import Iterable

from braces.errors import suggest

_RUN = "exe.run(prog, scope, feed={...}, fetch=[...])"
_TRAIN = "br.optimizer.adam(1e-3).minimize(loss) once, and exe.run for each batch"
_DEVICE = "br.Executor(device=...): a run chooses"

HABITS: dict[str, dict[str, str]] = {
    "Program": {
        "all_parameters": "prog.parameters",
        "backward": "br.append_backward(loss)",
        "clone": "br.for_test(prog), or br.prune(prog, targets)",
        "compile": "br.Executor(): it compiles",
        "copy": "br.Program.from_bytes(prog.to_bytes())",
        "cpu": _DEVICE,
        "cuda": _DEVICE,
        "eval": "br.for_test(prog)",
        "fit": _TRAIN,
        "forward": _RUN,
        "global_block": "prog.block(0)",
        "list_vars": "prog.vars",
        "load_state_dict": "br.load_parameters(scope, path)",
        "num_blocks": "len(prog.blocks)",
        "ops": "prog.block(0).ops",
        "parse_from_string": "br.Program.from_bytes(data)",
        "predict": _RUN,
        "random_seed": "exe.init(prog, scope, seed=0)",
        "run": _RUN,
        "serialize_to_string": "prog.to_bytes()",
        "state_dict": "br.save_parameters(scope, path)",
        "summary": "print(prog), or prog.to_html(path)",
        "to": _DEVICE,
        "train": _TRAIN,
        "trainable_variables": "prog.parameters",
        "trainable_weights": "prog.parameters",
        "variables": "prog.vars",
        "weights": "prog.parameters",
    },
    "Scope": {
        "delete": "scope.erase(name)",
        "drop": "scope.erase(name)",
        "find": "scope.find_var(name)",
        "get": "scope.find_var(name)",
        "items": "scope.names() and scope.var(name).value",
        "keys": "scope.names()",
        "list": "scope.names()",
        "load": "br.load_parameters(scope, path)",
        "pop": "scope.erase(name)",
        "remove": "scope.erase(name)",
        "run": "exe.run(prog, scope): a scope holds values and runs nothing",
        "save": "br.save_parameters(scope, path)",
        "set": "scope.var(name).set(array)",
        "state_dict": "br.save_parameters(scope, path)",
        "values": "scope.names() and scope.var(name).value",
        "vars": "scope.names()",
    },
    "Executor": {
        "eval": "br.for_test(prog), and exe.run of that",
        "evaluate": "br.for_test(prog), and exe.run of that",
        "fit": _TRAIN,
        "forward": _RUN,
        "jit": "exe.run: it compiles",
        "predict": _RUN,
        "reset": "exe.init(prog, scope, seed=0)",
        "step": _RUN,
        "train": _TRAIN,
    },
    "Model": {
        "eval": "model.run(x=xs): it predicts and trains nothing",
        "evaluate": "model.run(x=xs)",
        "fit": "model.run_program('train', x=xs, y=ys) for each batch",
        "forward": "model.run(x=xs)",
        "inputs": "model.feeds",
        "load_state_dict": "br.load_parameters(model.scope, path)",
        "outputs": "model.fetches",
        "parameters": "model.scope.names()",
        "predict": "model.run(x=xs)",
        "state_dict": "br.save_parameters(model.scope, path)",
        "train": "model.run_program('train', x=xs, y=ys) for each batch",
        "weights": "model.scope.names()",
    },
}


def no_member(kind: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for `x.NAME` of a program, scope, executor or model: what to type instead.

    Args:
        kind: What `x` is, as `HABITS` spells it.
        name: What was asked for.
        known: What there is.
    """
    hint = HABITS[kind].get(name.lower())
    near = suggest(name, (one for one in known if not one.startswith("_")))
    fix = f"Use {hint}." if hint else near if near.startswith("Did") else "See help() of it."
    return AttributeError(f"{kind} has no `{name}`. {fix}", name=name)
