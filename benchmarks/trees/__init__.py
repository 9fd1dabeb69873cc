"""A network over trees, with the gradient of its gradient, by Braces and by every peer.

Trees are the actions of a shift-reduce parser: shift a word, or reduce the two vectors on
top of the stack to one. All words are read in a context, which is the previous root;
that is repeated until the roots converge. So a row-wise branch is in a loop over
lengths, which is in a loop with a data-dependent trip count. `task.py` has the computation;
each other module is one library, in the style of its users.
"""
