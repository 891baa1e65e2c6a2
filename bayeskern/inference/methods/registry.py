"""The inference methods by name, and their table for the documentation."""

from __future__ import annotations

from bayeskern.core import validation
from bayeskern.inference.methods.auto import Auto
from bayeskern.inference.methods.base import Method
from bayeskern.inference.methods.exact import Exact
from bayeskern.inference.methods.importance import ImportanceSampling
from bayeskern.inference.methods.laplace import Laplace
from bayeskern.inference.methods.map import MAP, MLE
from bayeskern.inference.methods.nuts import NUTS
from bayeskern.inference.methods.pathfinder import Pathfinder
from bayeskern.inference.methods.smc import SMC
from bayeskern.inference.methods.svi import SVI

# The only list of the methods: messages, help texts, tables of the documentation and of the tests
# are made from it.
METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (Auto, Exact, MAP, MLE, Laplace, SVI, ImportanceSampling, Pathfinder, SMC, NUTS)
}


def as_method(method: str | Method) -> Method:
    """Convert a name to a method with default options; return a method unchanged.

    Raises:
        ValueError: If the name is unknown.
        TypeError: If `method` is neither a name nor a method.
    """
    if isinstance(method, str):
        return METHODS[validation.one_of("method", method, METHODS)]()
    if isinstance(method, type) and issubclass(method, Method):
        raise TypeError(f"method must be an object: bk.{method.__name__}(), with the parentheses.")
    if not isinstance(method, Method):
        raise TypeError(
            f"method must be one of {', '.join(METHODS)}, or an object such as bk.NUTS(chains=4); "
            f"got {method!r}. A method of your own extends bayeskern.inference.Method."
        )
    return method


def table() -> str:
    """The methods as a Markdown table: name, first line of the docstring, and use."""
    rows = ["| method | what it does | take it for |", "|---|---|---|"]
    for name, method in METHODS.items():
        purpose = (method.__doc__ or "").partition("\n")[0].rstrip(".")
        rows.append(f'| `"{name}"` | {purpose} | {method.use} |')
    return "\n".join(rows)
