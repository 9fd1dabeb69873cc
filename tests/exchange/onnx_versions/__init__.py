"""Models of one operator in each version of it that some opset from 7 on has.

`tables` says what is computed, by operator and version; `cases` turns that into models,
`judging` runs them elsewhere.
"""
