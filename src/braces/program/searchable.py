"""Search in programs, as methods: paths, and conditions on operators, variables and blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from braces.builder.builder import Builder
from braces.builder.checked_calls import checked_methods, located_call
from braces.builder.var import Var
from braces.ir.paths import find_path
from braces.ir.places import Place
from braces.surgery.find import Query, find
from braces.surgery.handles import Handle, Selection, find_again, resolve


@checked_methods
class Searchable(Builder):
    """A program whose operators, variables and blocks are found by path and by condition."""

    def __getitem__(self, path: str | Handle) -> Handle:
        """Return the operator, variable or block at a path, as errors and reports show it.

        Args:
            path: A path, as `loop_0/body/act`, or a handle of another version of the program.
                Handles of earlier versions follow renamed and moved operators.

        Raises:
            UnknownNameError: If there is none; the message has similar paths.

        Example:
            >>> import braces as br
            >>> prog = br.parse("program { data x: f32[3]  y: f32[3] = tanh(x=x) return y }")
            >>> prog["y"].type, prog["y"].inputs[0].path
            ('tanh', 'x')
        """
        with located_call("prog[path]"):
            return resolve(self.main_place, path)

    def __contains__(self, path: object) -> bool:
        if isinstance(path, Handle):
            return find_again(self.main_place, path) is not None
        return isinstance(path, str) and find_path(self.main_place, path) is not None

    __iter__ = None  # paths index a program, but a program is no sequence

    def find(
        self,
        *,
        type: str | Iterable[str] | None = None,
        name: str | None = None,
        inside: str | Handle | Selection | None = None,
        reads: str | Var | Handle | Selection | None = None,
        writes: str | Var | Handle | Selection | None = None,
        kind: str = "operators",
        where: Callable[[Handle], object] | None = None,
    ) -> Selection:
        """Search in all blocks of the program; all conditions given must hold.

        `*` in a pattern matches any characters, `/` included, and `?` matches one. Brackets
        have no special meaning, because paths contain them: `cases[0]`.

        Args:
            type: The type of an operator, as `matmul`; or of a variable, as `f32[*,8]` or its
                dtype `f32`; or of the owner of a block. Patterns, or several types.
            name: A pattern for the name or for the path, as `encoder/*`.
            inside: The blocks to search, with the blocks in them: name, path or handle of an
                operator with blocks, or of a block, as `loop_0` or `loop_0/body`.
            reads: Variables that an operator reads: name, path, pattern or handle. The owner of
                a block reads the results of the block.
            writes: Variables that an operator binds.
            kind: `operators`, `variables`, `blocks` or `parameters`.
            where: A condition on the handle.

        Raises:
            UnknownNameError: If `kind`, or a type, block or variable without wildcards, is
                unknown.
            ProgramError: If an argument has the wrong type, or the kind has no such condition.

        Example:
            >>> import braces as br
            >>> with br.Program() as prog:
            ...     x = br.data("x", ["steps", 8])
            ...     y = br.scan(lambda h, row: (br.tanh(h + row), row), 0.0 * x[0], x)
            >>> [h.path for h in prog.find(inside="loop_0", where=lambda h: len(h.inputs) > 1)]
            ['loop_0/body/add_0']
            >>> [h.path for h in prog.find(kind="blocks")]
            ['loop_0/body']
        """
        query = Query(kind, type, name, inside, reads, writes, where)
        return find(self.main_place, query)

    @property
    def main_place(self) -> Place:
        """Block 0 of the current definition, with its indices."""
        if getattr(self.built.get(Place), "definition", None) is not self.definition:
            self.built[Place] = Place.main(self.definition)
        return self.built[Place]
