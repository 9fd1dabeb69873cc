"""Hints for names of other libraries that users type on `br` and on its objects.

The tables are text files, which are read when an attribute is missing:

| table | names |
|---|---|
| `arrays`, `networks`, `training`, `programs` | functions by subject |
| `classes` | public classes of PyTorch and Keras; also the source of `docs/tables/layers.md` |
| `namespaces` | modules of other libraries, as `nn` and `lax` |
| `objects` | attributes of variables, programs, executors and other objects |

Names of operators come from `braces.equivalents`, and homes of functions from `braces.homes`.
A name is in one table only. `import braces` imports `objects` alone; errors import the rest.
"""
