"""The statement of a model at which a library raised an error, and the site that it makes."""

from __future__ import annotations

import ast
import linecache
import traceback
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import numpyro

PACKAGE = str(Path(__file__).parents[3])
LIBRARIES = (PACKAGE, *(str(Path(m.__file__).parent) for m in (jax, numpyro, np, eqx)))


def located(error: Exception) -> Exception | None:
    """The error with the site, or the file and line of the model, before its message.

    None where the place is unknown, or where the model or this package raised the error on purpose.
    """
    frames = traceback.extract_tb(error.__traceback__)
    in_model = [frame for frame in frames if not frame.filename.startswith(LIBRARIES)]
    if type(error) not in (ValueError, TypeError) or not in_model:
        return None
    place = in_model[-1]
    try:
        nodes = [*ast.walk(ast.parse("".join(linecache.getlines(place.filename))))]
    except SyntaxError:
        # A cell of a notebook, with commands that are no Python.
        nodes = []
    around = [n for n in nodes if getattr(n, "lineno", np.inf) <= place.lineno <= n.end_lineno]
    raised_here = any(isinstance(node, ast.Raise) for node in around)
    if raised_here or frames[-1].filename.startswith(PACKAGE):
        return None
    where = f"{Path(place.filename).name}, line {place.lineno}"
    # The last one in the tree's order of breadth is the innermost.
    sites = [node.args[0].value for node in around if _makes_site(node)]
    if sites:
        where = f"site {sites[-1]!r} ({where})"
    elif place.line:
        where = f"{where}, `{place.line}`"
    return type(error)(f"{where}: {error}")


def _makes_site(node: ast.AST) -> bool:
    """True for a call with a string first, as in `numpyro.sample("y", ...)`."""
    if not isinstance(node, ast.Call) or not node.args:
        return False
    function = getattr(node.func, "attr", getattr(node.func, "id", ""))
    named = isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    return named and function in ("sample", "factor", "deterministic", "param", "plate")
