"""Word-by-word decoding of a language model, by Braces and by every peer.

Greedy decoding of one row, until the end token or the limit.
`task.py` has the computation; each other module is one library, in the style of its users.
"""
