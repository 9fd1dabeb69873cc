"""Extension points: write an importer, exporter, pass, construct or back end of your own.

Seven modules, each a subject: `types`, `building`, `constructs`, `layers`, `programs`,
`operators` and `rewriting`. The operator functions are in `functions`, with types. The
importers and exporters of Braces use these modules, `braces.errors`, and nothing else of the
core.

Stability: these names follow the deprecation policy from version 1.0 on. Until then they may
change in a minor version; the changelog names each change.

Example: an importer of a list of activations.

    >>> import braces as br
    >>> from braces.extend.building import Var, emit
    >>> def from_list(x: Var, activations: list[str]) -> Var:
    ...     for activation in activations:
    ...         x = emit(activation, x)
    ...     return x
    >>> with br.Program() as prog:
    ...     y = from_list(br.data("x", ("b", 3)), ["tanh", "relu"])
    >>> print(y.type)
    f32[b,3]
"""

from braces import dims as dims
from braces.frontend import random as random
from braces.frontend.array_api import data_dependent as data_dependent, pointwise as pointwise
from braces.frontend.control import lists as lists
from braces.frontend.core import functions as functions
