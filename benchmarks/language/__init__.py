"""A language model that says word after word, by Braces and by every peer.

One row, the likeliest word each time, until the model says its last word or has said enough.
`task.py` has what is computed; each other module is a library and how its users write it.
"""
