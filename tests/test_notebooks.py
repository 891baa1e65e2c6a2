"""The comparison of notebooks with their committed outputs (.ci/notebooks.py)."""

import importlib.util
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat import v4

SCRIPT = Path(__file__).parent.parent / ".ci" / "notebooks.py"
spec = importlib.util.spec_from_file_location("notebooks_of_ci", SCRIPT)
assert spec is not None and spec.loader is not None
script = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(script)


def notebook(*texts, pictures=0, tags=()):
    """One cell that has printed texts, the last one as its result, and pictures."""
    picture = v4.new_output("display_data", {"image/png": "", "text/plain": "<Figure at 0x7f>"})
    streams = [v4.new_output("stream", name="stdout", text=text) for text in texts[:-1]]
    result = v4.new_output("execute_result", {"text/html": "<b>", "text/plain": texts[-1]})
    outputs = [*streams, *[picture] * pictures, result]
    return v4.new_notebook(cells=[v4.new_code_cell(outputs=outputs, metadata={"tags": [*tags]})])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mean 0.5026, sd 1.93", "mean 0.5027, sd   1.94"),  # one unit, and white space
        ("4,012 draws; error 8.4e+03", "3,990 draws; error 8.5e+03"),  # 2 %
        ("42 % and 69%", "43 % and 70%"),
        ("differ by 4e-15", "differ by 0.0e+00"),  # rounding errors
        ("-0.00", "0.01"),
        ("b about -2.45", "b about -2.4"),  # the last zero is not printed
    ],
)
def test_close_numbers_are_equal(before, after):
    assert script.first_change(before, after) is None
    assert script.first_change(after, before) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mean 0.5026", "mean 0.5140"),  # more than 2 %
        ("slope -0.85", "slope 0.85"),
        ("chosen: 14 atoms", "chosen: 15 atoms"),
        ("42 % of values", "44 % of values"),
        ("42 % of values", "42 of values"),
        ("error 2e-08", "error 4e-08"),
        ("2024-04-17", "2024-04-18"),
        ("verdict good", "verdict bad"),
        ("verdict good", "verdict 7"),
        ("good", "good 1"),
        ("mean nan", "mean 1.0"),
        ("remark", ""),
    ],
)
def test_changed_texts_are_found(before, after):
    assert script.first_change(before, after)
    assert script.first_change(after, before)


def test_streams_in_other_pieces_are_equal():
    one, two = notebook("a 1\nb 2\n", "good"), notebook("a 1\n", "b 2\n", "good")
    assert script.differences(one, two) == []


def test_each_cell_that_differs_is_named():
    before = notebook("a 1", "good", pictures=2)
    assert script.differences(before, before) == []
    assert script.differences(before, notebook("a 1", "good", pictures=1)) == [
        "cell 0: 2 pictures, now 1"
    ]
    changed = script.differences(before, notebook("a 2", "bad", pictures=2))
    assert changed == ["cell 0, result: 'good' is now 'bad'", "cell 0, stdout: 'a 1' is now 'a 2'"]
    assert script.differences(before, v4.new_notebook(cells=[v4.new_code_cell()]))


def test_timings_are_free_and_their_words_are_not():
    before = notebook("fit 1.3 s", "good", tags=["timing"])
    assert script.differences(before, notebook("fit 7.9 s", "good")) == []
    assert script.differences(before, notebook("fit 7.9 s", "bad"))


@pytest.mark.slow
def test_cells_and_solutions_run(tmp_path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    code = "import matplotlib.pyplot as plt\nprint('seed', 7)\nplt.plot([1, 2]);"
    solution = "<details>\n\n```python\nplt.plot([3])\n```\n\n</details>"
    cells = [v4.new_code_cell(code), v4.new_markdown_cell(solution)]
    path = tmp_path / "one.ipynb"
    nbformat.write(v4.new_notebook(cells=cells), path)
    first, second = script.executed(path).cells
    assert script.Outputs.of(first) == script.Outputs({"stdout": "seed 7\n"}, 1)
    assert second.source == solution
    for spoiled in ("print('seed', 7)", "plt.plot([3])"):
        bad = tmp_path / "bad.ipynb"
        bad.write_text(path.read_text().replace(spoiled, "raise ValueError"))
        with pytest.raises(Exception, match="ValueError"):
            script.executed(bad)


@pytest.mark.parametrize(
    "path", sorted(script.NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem
)
def test_each_notebook_teaches(path):
    cells = nbformat.read(path, as_version=4).cells
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    assert all(part in cells[0].source for part in ("**You will learn**", "**Time** ", "to run."))
    _, exercises, rest = re.split(r"^## (?:Exercises|Further reading)$", prose, flags=re.MULTILINE)
    folds = len(
        re.findall(r"^<details>\n+<summary>Solution</summary>\n\n", exercises, re.MULTILINE)
    )
    assert 2 <= folds <= 3 and folds == exercises.count("\n\n</details>")
    assert folds == len(re.findall(r"^\*\*\d\.\*\* ", exercises, flags=re.MULTILINE))
    assert re.search(r"\]\(\d\d_\w+\.ipynb\)", rest)
    assert not re.search(r"subplots\(\d+, [4-9]", code), "more than three panels across"
    warnings = [o for cell in cells for o in cell.get("outputs", []) if o.get("name") == "stderr"]
    assert warnings == []
