"""Runs the notebooks, and fails where an output is not the committed one.

    python .ci/notebooks.py                  runs all notebooks and compares their outputs
    python .ci/notebooks.py 05 13            only these
    python .ci/notebooks.py --write 05 13    runs them and keeps the new outputs

Words must be equal, numbers close (`close`), pictures as many as before. In a cell with the tag
`timing` numbers may be any, words not. build/notebooks has the notebooks as they ran. The code of
the solutions, which stands in Markdown between <details> and </details>, runs after the last cell.
"""

import argparse
import os
import re
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import v4

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
AS_RUN = NOTEBOOKS.parent / "build" / "notebooks"
PROCESSES = 2
CELL_LIMIT_SECONDS = 600
# Machines round differently, and one bit decides which way a chain goes. A mean of 2,500 effective
# draws has an error of 2 % of its sd.
RELATIVE_TOLERANCE = 0.02
# Below this a number is the rounding error of a sum of double precision.
ROUNDING_ERROR = 1e-10
SOLUTION = re.compile(r"<details>.*?</details>", re.DOTALL)
CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)
# Progress of a call that takes longer than usual.
REMAINING_TIME = re.compile(r"(.+: about .+ more\n)+")
NUMBER = r"[-+]?\d+(?:,\d{3})*(?:\.\d*)?(?:[eE][-+]?\d+)?(?:\s?%)?"
TOKEN = re.compile(rf"\d{{4}}-\d\d(?:-\d\d)?|{NUMBER}|[^\s\d+-]+|[-+]")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("numbers", nargs="*", help="beginnings of the names; all notebooks if none")
    parser.add_argument("--write", action="store_true", help="keep the new outputs")
    arguments = parser.parse_args()
    # Pictures in the notebook, whatever backend the caller has set.
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    paths = [
        path
        for path in sorted(NOTEBOOKS.glob("*.ipynb"))
        if path.name.startswith(tuple(arguments.numbers or [""]))
    ]
    AS_RUN.mkdir(parents=True, exist_ok=True)
    failed = False
    with ProcessPoolExecutor(PROCESSES) as pool:
        runs = {pool.submit(executed, path): path for path in paths}
        for run in as_completed(runs):
            path, after = runs[run], run.result()
            target = NOTEBOOKS if arguments.write else AS_RUN
            changes = differences(nbformat.read(path, as_version=4), after)
            nbformat.write(after, target / path.name)
            print(f"{path.name}: {len(changes)} differences", *changes, sep="\n  ", flush=True)
            failed |= bool(changes) and not arguments.write
    return int(failed)


def executed(path: Path) -> nbformat.NotebookNode:
    """The notebook after a run of its cells in a new kernel. Raises what a cell raises."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    cells = len(notebook.cells)
    notebook.cells += [v4.new_code_cell(code) for code in solutions(notebook)]
    NotebookClient(
        notebook,
        timeout=CELL_LIMIT_SECONDS,
        coalesce_streams=True,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    del notebook.cells[cells:]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [
                o for o in cell.outputs if not REMAINING_TIME.fullmatch(o.get("text", ""))
            ]
    return notebook


def solutions(notebook: nbformat.NotebookNode) -> list[str]:
    """The code of the solutions of the exercises."""
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    return CODE.findall("".join(SOLUTION.findall("\n".join(texts))))


@dataclass(frozen=True)
class Outputs:
    """The text and the number of pictures that a cell has printed."""

    texts: dict[str, str]
    pictures: int

    @classmethod
    def of(cls, cell) -> "Outputs":
        """Streams come in pieces whose ends are chance, so each is put together."""
        texts, pictures = {}, 0
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if any(kind.startswith("image/") for kind in data):
                pictures += 1
            else:
                kind = output.get("name", "result")
                texts[kind] = texts.get(kind, "") + (output.get("text") or data["text/plain"])
        return cls(texts, pictures)


def differences(before: nbformat.NotebookNode, after: nbformat.NotebookNode) -> list[str]:
    """One line for each cell whose outputs differ, with the first difference in it."""
    changes = []
    for number, (old, new) in enumerate(zip(before.cells, after.cells, strict=True)):
        was, now = Outputs.of(old), Outputs.of(new)
        timing = "timing" in old.metadata.get("tags", [])
        if was.pictures != now.pictures:
            changes.append(f"cell {number}: {was.pictures} pictures, now {now.pictures}")
        for kind in sorted(was.texts.keys() | now.texts.keys()):
            change = first_change(was.texts.get(kind, ""), now.texts.get(kind, ""), timing)
            if change:
                changes.append(f"cell {number}, {kind}: {change}")
    return changes


def first_change(before: str, after: str, timing: bool = False) -> str | None:
    """The first word or number that differs, with the words around it; None if none does."""
    old, new = TOKEN.findall(before), TOKEN.findall(after)
    for place, (word, now) in enumerate(zip_longest(old, new, fillvalue="")):
        numbers = re.fullmatch(NUMBER, word) and re.fullmatch(NUMBER, now)
        if word == now or (numbers and (timing or close(word, now))):
            continue
        around = slice(max(place - 5, 0), place + 5)
        return f"{' '.join(old[around])!r} is now {' '.join(new[around])!r}"
    return None


def close(before: str, after: str) -> bool:
    """Equality of two printed numbers to 2 %, or to one unit of the last decimal of the coarser.

    A number without decimals is a count and has no unit to spare, unless it is a percentage.
    """
    old, new = (float(re.sub(r"[,%\s]", "", number)) for number in (before, after))
    size = max(abs(old), abs(new))
    if before.endswith("%") != after.endswith("%"):
        return False
    spare = 1.01 * max(unit(before), unit(after))  # 1.01 for rounding.
    return size < ROUNDING_ERROR or abs(old - new) <= max(spare, RELATIVE_TOLERANCE * size)


def unit(number: str) -> float:
    """The unit of the last decimal of a printed number; 0 for a count."""
    digits, *exponent = re.split("[eE]", re.sub(r"[%\s]", "", number))
    _, point, decimals = digits.partition(".")
    if not (point or exponent or "%" in number):
        return 0.0
    return 10.0 ** (int(*exponent) - len(decimals))


if __name__ == "__main__":
    sys.exit(main())
