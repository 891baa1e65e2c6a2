"""The gallery: a real problem a file, each with `problem()`; and files of one's own like them.

The files stand in `models/` of the source, and beside this one where bayeskern is installed.
"""

from __future__ import annotations

import ast
import difflib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

from bayeskern.core import validation
from bayeskern.inference.problem import Problem
from bayeskern.protocols import DoesNotApplyError

__all__ = ["blame", "find", "load", "names", "title"]

_HERE = Path(__file__).resolve().parent
_FOLDER = _HERE if (_HERE / "coin.py").exists() else _HERE.parents[1] / "models"
# So that `from bayeskern.gallery import coin` works in the source too.
__path__ = [str(_FOLDER)]


def names() -> tuple[str, ...]:
    """The names that `load` knows."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("[!_]*.py")))


def title(name: str) -> str:
    """The first line of what a problem of the gallery says of itself."""
    path = _FOLDER / f"{validation.one_of('model', name, names())}.py"
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).partition("\n")[0]


def load(source: str | Path) -> Problem:
    """The problem of a name of the gallery, or of a Python file: what its `problem()` returns.

    The file is run. Raises ValueError for an unknown name, with the nearest one; for a file that
    fails, with the line; and for one without a `problem()` that returns a Problem.
    """
    path = find(source)
    with blame(path):
        module = _run(path)
    make = getattr(module, "problem", None)
    if not callable(make):
        raise ValueError(
            f"{path} has no function problem(). Add one that returns bk.Problem(model, data), as "
            "the files of the gallery do."
        )
    try:
        inspect.signature(make).bind()
    except TypeError as reason:
        raise ValueError(f"{path}: problem() is called without arguments: {reason}.") from None
    with blame(path):
        problem = make()
    if not isinstance(problem, Problem):
        raise ValueError(
            f"{path}: problem() must return a bk.Problem(model, data), got "
            f"{type(problem).__name__}."
        )
    return problem


def find(source: str | Path) -> Path:
    """The file of a name of the gallery, or the path itself; ValueError if there is none."""
    path = Path(source)
    if path.suffix != ".py" and path.name == str(source):
        return _FOLDER / f"{validation.one_of('model', source, names())}.py"
    if path.is_file():
        return path
    near = difflib.get_close_matches(path.stem.lower(), names(), n=1)
    hint = f" The gallery has {near[0]!r}, by that name alone." if near else ""
    raise ValueError(f"there is no file {source}.{hint}")


def _run(path: Path) -> ModuleType:
    """Import a file, from wherever it lies; its neighbours can be imported by it."""
    name = f"bayeskern_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None:
        raise ValueError(f"{path} is no Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    # Where classes of the file are looked up, as those of any module.
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        # The file may have changed the list itself.
        with suppress(ValueError):
            sys.path.remove(folder)
    return module


@contextmanager
def blame(path: Path) -> Iterator[None]:
    """What a file raises becomes a ValueError that names it, and the last of its lines on the way.

    A ValueError or OSError that came through none of its lines says itself what is the matter.
    """
    try:
        yield
    except DoesNotApplyError:
        # It says what is the matter, and callers want to know that it does not apply.
        raise
    except (Exception, SystemExit) as error:
        says, inside = _unpacked(path, str(getattr(error, "msg", None) or error))
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if _is(path, f)]
        lines += inside
        if isinstance(error, SyntaxError) and _is(path, error):
            lines = [error.lineno]
        if not lines and isinstance(error, ValueError | OSError | FloatingPointError):
            raise
        place = f"{path}, line {lines[-1]}" if lines else path
        raise ValueError(f"{place}: {type(error).__name__}: {says}") from error


def _unpacked(path: Path, text: str) -> tuple[str, list[str]]:
    """What compiled code says (`equinox.error_if`) out of the stack it prints; the file's lines."""
    stack, found, rest = text.partition("\nequinox.EquinoxRuntimeError: ")
    if not found:
        return text, []
    lines = re.findall(rf'File "{re.escape(str(path.resolve()))}", line (\d+)', stack)
    return rest.partition("\n")[0], lines


def _is(path: Path, place) -> bool:
    return place.filename == str(path.resolve())
