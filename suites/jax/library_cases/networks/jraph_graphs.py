"""Graph networks of jraph, on a padded batch of two graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jraph
import numpy as np

from suites.jax.library_cases.case import Cases, LibraryCase

_RANDOM = np.random.default_rng(7)
W = jnp.asarray(_RANDOM.normal(size=(12, 3)) / 3.0, "float32")


def _values(*shape: int) -> Any:
    return jnp.asarray(_RANDOM.normal(size=shape), "float32")


GRAPH = jraph.pad_with_graphs(
    jraph.batch(
        [
            jraph.GraphsTuple(
                nodes=_values(nodes, 3),
                edges=_values(edges, 3),
                senders=jnp.asarray(_RANDOM.integers(0, nodes, edges)),
                receivers=jnp.asarray(_RANDOM.integers(0, nodes, edges)),
                globals=_values(1, 3),
                n_node=jnp.array([nodes]),
                n_edge=jnp.array([edges]),
            )
            for nodes, edges in ((3, 4), (4, 6))
        ]
    ),
    10,
    12,
    4,
)


def _dense(w: Any) -> Callable[..., Any]:
    def update(*features: Any) -> Any:
        x = jnp.concatenate(jax.tree.leaves(features), -1)
        return jnp.tanh(x @ w[: x.shape[-1]])

    return update


def on_graph(build: Callable[[Any], Any]) -> LibraryCase:
    """A network of weights, on the features of the padded graph."""

    def function(w: Any, nodes: Any, edges: Any, whole: Any) -> Any:
        graph = GRAPH._replace(nodes=nodes, edges=edges, globals=whole)
        return build(w)(graph)

    return LibraryCase(function, (W, GRAPH.nodes, GRAPH.edges, GRAPH.globals))


def _attention(w: Any) -> Any:
    return jraph.GAT(
        lambda nodes: nodes @ w[:3],
        lambda sent, received, edges: jax.nn.leaky_relu(
            ((sent + received) * w[3]).sum(-1, keepdims=True)
        ),
    )


def _edge_attention(w: Any) -> Any:
    update = _dense(w)
    return jraph.GraphNetGAT(
        update,
        update,
        lambda edges, sent, received, whole: (edges + sent * received) @ w[:3, :1],
        lambda edges, weights: edges * weights,
        update,
    )


def _readout(w: Any) -> Any:
    def read(graph: Any) -> Any:
        graph = jraph.GraphConvolution(lambda nodes: nodes @ w[:3], add_self_edges=True)(graph)
        sizes = jnp.repeat(jnp.arange(4), graph.n_node, total_repeat_length=10)
        mean = jraph.segment_mean(graph.nodes, sizes, 4)
        most = jraph.segment_max_or_constant(graph.nodes, sizes, 4)
        return mean, most, jnp.where(jraph.get_graph_padding_mask(graph)[:, None], mean, 0.0)

    return read


def _segments(w: Any) -> Any:
    def read(graph: Any) -> Any:
        edges, at = graph.edges @ w[:3], graph.receivers
        return (
            jraph.segment_softmax(edges, at, 10),
            jraph.segment_variance(edges, at, 10),
            jraph.segment_normalize(edges, at, 10),
            jraph.segment_min_or_constant(edges, at, 10),
            jraph.segment_sum(edges, at, 10),
        )

    return read


def _rounds(w: Any) -> Any:
    def run(graph: Any) -> Any:
        layer = jraph.GraphNetwork(_dense(w), _dense(w), _dense(w))
        graph = jax.lax.fori_loop(0, 3, lambda _, graph: layer(graph), graph)
        return graph

    return run


CASES: Cases = {
    "GraphNetwork": on_graph(lambda w: jraph.GraphNetwork(_dense(w), _dense(w), _dense(w))),
    "GraphNetwork in a loop": on_graph(_rounds),
    "GraphNetwork by maxima": on_graph(
        lambda w: jraph.GraphNetwork(
            _dense(w),
            _dense(w),
            _dense(w),
            aggregate_edges_for_nodes_fn=jraph.segment_max_or_constant,
        )
    ),
    "InteractionNetwork": on_graph(lambda w: jraph.InteractionNetwork(_dense(w), _dense(w))),
    "RelationNetwork": on_graph(lambda w: jraph.RelationNetwork(_dense(w), _dense(w))),
    "DeepSets": on_graph(lambda w: jraph.DeepSets(_dense(w), _dense(w))),
    "GAT": on_graph(_attention),
    "GraphNetGAT": on_graph(_edge_attention),
    "GraphConvolution and readout": on_graph(_readout),
    "segments": on_graph(_segments),
    "GraphMapFeatures": on_graph(
        lambda w: jraph.GraphMapFeatures(_dense(w), _dense(w), _dense(w))
    ),
}
