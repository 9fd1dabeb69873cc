"""Source lines of programs that are written in the cells of a notebook."""

import sys
from types import SimpleNamespace

import pytest

import braces as br
from braces.notebook import cell_of, line_text

KERNEL_FILE = "/tmp/ipykernel_29857/706973523.py"
CELL = """
import braces as br
with br.Program() as prog:
    x = br.data("x", [3])
    y = br.tanh(x)
"""


@pytest.fixture
def notebook(monkeypatch):
    """A module IPython whose shell ran `KERNEL_FILE` as cell 2."""
    titles = {KERNEL_FILE: ("Cell", "In[2]")}
    compiler = SimpleNamespace(format_code_name=titles.get)
    shell = SimpleNamespace(compile=compiler)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return titles


def built(file):
    names = {}
    exec(compile(CELL, file, "exec"), names)
    return names["prog"]


def test_lines_of_a_cell_have_its_number_in_place_of_a_file(notebook):
    prog = built(KERNEL_FILE)
    assert "tanh(x=x)  # cell 2, line 5\n" in str(prog)
    assert "ipykernel" not in prog._repr_html_()
    assert "cell 2, line 5" in prog._repr_html_()
    with pytest.raises(br.ShapeError, match="built at cell 2, line 2"), prog:
        exec(
            compile("\nbr.reshape(x, [7])", KERNEL_FILE, "exec"), {"br": br, "x": prog.var("x")}
        )


def test_cells_survive_text_and_bytes_without_the_notebook(notebook, monkeypatch):
    prog = built(KERNEL_FILE)
    text, data = str(prog), prog.to_bytes()
    monkeypatch.delitem(sys.modules, "IPython")
    for again in (br.parse(text), br.Program.from_bytes(data)):
        assert str(again) == text
        assert str(again.block(0).ops[0].source) == "cell 2, line 5"


def test_a_cell_that_runs_again_has_its_new_number(notebook):
    prog = built(KERNEL_FILE)
    notebook[KERNEL_FILE] = ("Cell", "In[7]")
    assert "# cell 7, line 5" in str(prog)


def test_other_files_keep_their_paths(notebook):
    assert "# models/net.py:5" in str(built("/elsewhere/models/net.py"))
    assert "# ipykernel_1/2.py:5" in str(built("/tmp/ipykernel_1/2.py"))
    assert cell_of("/home/ipykernel_notes/net.py") is None
    assert line_text("<ipython-input-12-ab>", 3) == "cell 12, line 3"
    text = "program {\n  data x: f32[3]\n  y: f32[3] = tanh(x=x)  # a note, line 3\n}\n"
    assert br.parse(text).block(0).ops[0].source is None
