"""The gallery: real problems, each a Python file with a function `problem()`; and your own files.

The files are in `models/` of the source, and beside this one where bayeskern is installed.
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
    """Return the names of the problems in the gallery, in alphabetical order."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("[!_]*.py")))


def title(name: str) -> str:
    """Return the first line of the description of a problem in the gallery.

    Args:
        name: One of `names()`.

    Raises:
        ValueError: If there is no problem of that name; the message has the nearest one.

    Examples:
        >>> from bayeskern import gallery
        >>> gallery.title("coin")
        'A coin thrown twenty times: the simplest posterior with a closed form.'
    """
    path = _FOLDER / f"{validation.one_of('model', name, names())}.py"
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))).partition("\n")[0]


def load(source: str | Path) -> Problem:
    """Run a file of the gallery, or a Python file of your own, and return its problem.

    Args:
        source: One of `names()`, or the path of a Python file with a function `problem()`.

    Returns:
        The `bk.Problem` that `problem()` returns.

    Raises:
        ValueError: If there is no problem of that name, if the file fails (the message has the
            line), or if it has no `problem()` that returns a `bk.Problem`.

    Examples:
        >>> from bayeskern import gallery
        >>> gallery.load("coin").model
        BetaBernoulli(a=2, b=2), worth 4 observations of mean 0.5
    """
    path = find(source)
    with blame(path):
        module = _run(path)
    make_problem = getattr(module, "problem", None)
    if not callable(make_problem):
        raise ValueError(
            f"{path} has no function problem(). Add one that returns bk.Problem(model, data), as "
            "the files of the gallery do."
        )
    try:
        inspect.signature(make_problem).bind()
    except TypeError as reason:
        raise ValueError(f"{path}: problem() is called without arguments: {reason}.") from None
    with blame(path):
        problem = make_problem()
    if not isinstance(problem, Problem):
        raise ValueError(
            f"{path}: problem() must return a bk.Problem(model, data), got "
            f"{type(problem).__name__}."
        )
    return problem


def find(source: str | Path) -> Path:
    """Return the path of a problem's file.

    Args:
        source: One of `names()`, or a path, which is returned as it is.

    Raises:
        ValueError: If there is no such problem or file.
    """
    path = Path(source)
    if path.suffix != ".py" and path.name == str(source):
        return _FOLDER / f"{validation.one_of('model', source, names())}.py"
    if path.is_file():
        return path
    nearest = difflib.get_close_matches(path.stem.lower(), names(), n=1)
    hint = f" The gallery has {nearest[0]!r}, by that name alone." if nearest else ""
    raise ValueError(f"there is no file {source}.{hint}")


def _run(path: Path) -> ModuleType:
    """Import a file from any folder; it can import the files beside it."""
    name = f"bayeskern_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None:
        raise ValueError(f"{path} is no Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    # Python looks up the classes of a module here, for example those of dataclasses.
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
    """Turn whatever a model's file raises into a ValueError that names the file and the line.

    Errors that say what is the matter pass as they are: `DoesNotApplyError`, and a ValueError,
    OSError or FloatingPointError that no line of the file was part of.

    Args:
        path: The file.
    """
    try:
        yield
    except DoesNotApplyError:
        # Callers distinguish a method that does not apply from a file that fails.
        raise
    except (Exception, SystemExit) as error:
        message, compiled_lines = _unpack(path, str(getattr(error, "msg", None) or error))
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if _is_in(path, frame)] + compiled_lines
        if isinstance(error, SyntaxError) and _is_in(path, error):
            lines = [error.lineno]
        if not lines and isinstance(error, ValueError | OSError | FloatingPointError):
            raise
        if not lines and f"{path.name}, line " in message:
            # It names the line already.
            raise ValueError(message) from error
        place = f"{path}, line {lines[-1]}" if lines else path
        raise ValueError(f"{place}: {type(error).__name__}: {message}") from error


def _unpack(path: Path, text: str) -> tuple[str, list[str]]:
    """The message of an error in compiled code (`equinox.error_if`), and the file's lines in it.

    Such an error has its stack in its text. Any other text is returned as it is.
    """
    stack, marker, message = text.partition("\nequinox.EquinoxRuntimeError: ")
    if not marker:
        return text, []
    lines = re.findall(rf'File "{re.escape(str(path.resolve()))}", line (\d+)', stack)
    return message.partition("\n")[0], lines


def _is_in(path: Path, frame) -> bool:
    return frame.filename == str(path.resolve())
