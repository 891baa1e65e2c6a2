"""Gallery of problems, each a Python file with a function `problem()`.

The files are in `models/` of the source, and in this folder once bayeskern is installed. Your own
files can be loaded too.
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

_FOLDER = Path(__file__).resolve().parent
if not (_FOLDER / "coin.py").exists():
    _FOLDER = _FOLDER.parents[1] / "models"
# So that `from bayeskern.gallery import coin` works in the source too.
__path__ = [str(_FOLDER)]


def names() -> tuple[str, ...]:
    """Return the names of the problems in the gallery, in alphabetical order."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("[!_]*.py")))


def title(source: str | Path) -> str:
    """Return the first line of the description of a problem, or "" without a description.

    Args:
        source: One of `names()`, or the path of a Python file.

    Raises:
        ValueError: There is no such problem or file.

    Examples:
        >>> from bayeskern import gallery
        >>> gallery.title("coin")
        'A coin thrown twenty times: the simplest posterior with a closed form.'
    """
    path = find(source)
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def load(source: str | Path) -> Problem:
    """Run a file of the gallery, or your own Python file, and return its problem.

    Args:
        source: One of `names()`, or the path of a Python file with a function `problem()`.

    Returns:
        The `bk.Problem` that `problem()` returns.

    Raises:
        ValueError: No problem has that name; the file fails (the message gives the line); or it
            has no `problem()` that returns a `bk.Problem`.

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
        source: One of `names()`, or a path, which is returned unchanged.

    Raises:
        ValueError: There is no such problem or file.
    """
    path = Path(source)
    if path.suffix != ".py" and path.name == str(source):
        return _FOLDER / f"{validation.one_of('model', source, names())}.py"
    if path.is_file():
        return path
    nearest = difflib.get_close_matches(path.stem.lower(), names(), n=1)
    hint = f" The gallery has {nearest[0]!r}; give that name alone." if nearest else ""
    raise ValueError(f"there is no file {source}.{hint}")


def _run(path: Path) -> ModuleType:
    """Import a file, which may import other files of its folder."""
    name = f"bayeskern_model_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is not a Python file: its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    # Classes of the file, such as dataclasses, look up their module here.
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        # The file may have removed the folder itself.
        with suppress(ValueError):
            sys.path.remove(folder)
    return module


@contextmanager
def blame(path: Path) -> Iterator[None]:
    """Turn errors of a model's file into a ValueError with the file and the line.

    `DoesNotApplyError` passes unchanged. A ValueError, OSError or FloatingPointError passes
    unchanged if its traceback has no line of the file.

    Args:
        path: The file.

    Raises:
        ValueError: The block fails in a line of the file.
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
            # The message has the line already.
            raise ValueError(message) from error
        place = f"{path}, line {lines[-1]}" if lines else path
        raise ValueError(f"{place}: {type(error).__name__}: {message}") from error


def _unpack(path: Path, text: str) -> tuple[str, list[str]]:
    """Message of an error in compiled code (`equinox.error_if`), and lines of the file in it.

    Such an error has its stack in its text. Any other text is returned unchanged.
    """
    stack, marker, message = text.partition("\nequinox.EquinoxRuntimeError: ")
    if not marker:
        return text, []
    lines = re.findall(rf'File "{re.escape(str(path.resolve()))}", line (\d+)', stack)
    return message.partition("\n")[0], lines


def _is_in(path: Path, frame: traceback.FrameSummary | SyntaxError) -> bool:
    return frame.filename == str(path.resolve())
