"""Calls such as gp(t, by=g) and effects (x | g): parts of a formula that are no plain columns."""

from __future__ import annotations

import ast
import re
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
        # Python has no names in backticks: identifiers stand in for them.
        quoted = re.findall("`[^`]*`", source)
        for i, name in enumerate(quoted):
            source = source.replace(name, f"_quoted_{i}_", 1)

        def unparse(node: ast.expr) -> str:
            text = ast.unparse(node)
            return re.sub(r"_quoted_(\d+)_", lambda match: quoted[int(match[1])], text)

        try:
            node = ast.parse(source, mode="eval").body
        except SyntaxError:
            return None
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return None
        options = {
            word.arg or "": word.value.value
            if isinstance(word.value, ast.Constant)
            else unparse(word.value)
            for word in node.keywords
        }
        return cls(node.func.id, tuple(map(unparse, node.args)), options)

    def __str__(self) -> str:
        options = (f"{name}={value}" for name, value in self.options.items())
        return f"{self.name}({', '.join((*self.arguments, *options))})"


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
    """Source of a term: names that are no identifiers in backticks, arithmetic in braces."""
    return ":".join(map(_factor_source, term.factors))


def _factor_source(factor: Any) -> str:
    method, source = factor.eval_method.value, factor.expr
    if method == "lookup" and not source.isidentifier():
        return f"`{source}`"
    is_call = re.fullmatch(r"[\w.]+\(.*\)", source) is not None
    return f"{{{source}}}" if method == "python" and not is_call else source
