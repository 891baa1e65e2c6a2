"""Site or line of a model at which a library raised an error."""

from __future__ import annotations

import ast
import linecache
import traceback
from collections.abc import Sequence
from pathlib import Path

import equinox
import jax
import numpy
import numpyro

PACKAGE = str(Path(__file__).parents[3])


def located(error: Exception) -> Exception | None:
    """Copy of an error with the site, or the line of the model, before its message.

    None if the line is unknown, or if the model or this package raised the error itself.
    """
    frames = traceback.extract_tb(error.__traceback__)
    frame = _last_in_model(frames)
    if type(error) not in (ValueError, TypeError) or frame is None:
        return None
    nodes = _nodes_at(frame.filename, frame.lineno or 0)
    raised_here = any(isinstance(node, ast.Raise) for node in nodes)
    if raised_here or frames[-1].filename.startswith(PACKAGE):
        return None
    return type(error)(f"{place_in_model(frames)}: {error}")


def place_in_model(frames: Sequence[traceback.FrameSummary]) -> str:
    """Site and line of the last frame outside of libraries; "" without such a frame."""
    frame = _last_in_model(frames)
    if frame is None:
        return ""
    where = f"{Path(frame.filename).name}, line {frame.lineno}"
    nodes = _nodes_at(frame.filename, frame.lineno or 0)
    sites = [name for node in nodes if (name := _site_name(node))]
    if sites:
        # The last node in breadth-first order is the innermost.
        return f"site {sites[-1]!r} ({where})"
    return f"{where}, `{frame.line}`" if frame.line else where


def _last_in_model(frames: Sequence[traceback.FrameSummary]) -> traceback.FrameSummary | None:
    libraries = (PACKAGE, *(module.__path__[0] for module in (jax, numpyro, numpy, equinox)))
    in_model = [frame for frame in frames if not frame.filename.startswith(libraries)]
    return in_model[-1] if in_model else None


def _nodes_at(filename: str, line: int) -> list[ast.AST]:
    """Nodes of the syntax tree of a file that span a line, breadth first."""
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        # A cell of a notebook with magic commands is not Python.
        return []
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt | ast.expr)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]


def _site_name(node: ast.AST) -> str | None:
    """The name of a site, for a call such as `numpyro.sample("y", ...)`."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    function = getattr(node.func, "attr", getattr(node.func, "id", ""))
    first = node.args[0]
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
        return None
    makes_site = function in ("sample", "factor", "deterministic", "param", "plate")
    return first.value if makes_site else None
