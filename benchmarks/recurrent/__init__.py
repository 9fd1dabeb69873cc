"""A training step of a tagger with a recurrent cell, by Braces and by every peer.

Ids in, an embedding, the cell, logits, cross-entropy, gradient descent. `task.py` has the
computation and `cells.py` the arithmetic of a step; each `in_` module is one library, in the
style of its users; `benchmark.py` compares them.
"""
