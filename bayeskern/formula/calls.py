"""Calls such as gp(t, by=g) and effects (x | g): parts of a formula that are no plain columns."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """A call such as `gp(t, by=group)`.

    Attributes:
        name: The function.
        arguments: Source of the positional arguments.
        options: Values of the named arguments: text for a name, otherwise the literal.
    """

    name: str
    arguments: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_source(cls, source: str) -> Call | None:
        """Parse a call of a plain function; None for other expressions."""
        try:
            node = ast.parse(source, mode="eval").body
        except SyntaxError:
            return None
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return None
        options = {keyword.arg or "": _literal(keyword.value) for keyword in node.keywords}
        return cls(node.func.id, tuple(map(ast.unparse, node.args)), options)

    def __str__(self) -> str:
        options = (f"{name}={value}" for name, value in self.options.items())
        return f"{self.name}({', '.join((*self.arguments, *options))})"


def _literal(node: ast.expr) -> Any:
    return ast.literal_eval(node) if isinstance(node, ast.Constant) else ast.unparse(node)


@dataclass(frozen=True)
class GroupCall:
    """Effects that vary between groups: `(1 + days | subject)`.

    Attributes:
        effects: Formula of the effects, such as "1 + days".
        group: The grouping factor, such as "subject" or "school:class".
        correlated: False for `||`: the effects of a group are independent.
    """

    effects: str
    group: str
    correlated: bool = True

    def __str__(self) -> str:
        return f"{self.effects} {'|' if self.correlated else '||'} {self.group}"


def term_source(term: Any) -> str:
    """Source of a term, with names that are no identifiers in backticks."""
    return ":".join(
        f"`{factor.expr}`"
        if factor.eval_method.value == "lookup" and not factor.expr.isidentifier()
        else factor.expr
        for factor in term.factors
    )
