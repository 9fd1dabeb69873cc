"""A net over trees, with the gradient of its gradient, by Braces and by every peer.

Trees are given as what a shift-reduce parser does: shift a word, or reduce the two vectors on
top of the stack to one. All words are read in a context, which is the root of the tree before;
that is repeated until the roots move no more. So a row-wise branch stands in a loop over
lengths, which stands in a loop whose trips only the data knows. `task.py` has what is computed;
each other module is a library and how its users write it.
"""
