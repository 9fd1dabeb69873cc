"""A training step of a tagger with a recurrent cell, by Braces and by every peer.

Ids in, an embedding, the cell, logits, cross-entropy, gradient descent. `task.py` has what is
computed and `cells.py` the arithmetic of a step; each `in_` module is a library and how its
users write it; `benchmark.py` puts them beside each other.
"""
