"""Operators `|` and `||` inside parentheses for formulaic's parser."""

from __future__ import annotations

import re
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from formulaic.errors import FormulaParsingError
from formulaic.parser import DefaultFormulaParser, DefaultOperatorResolver
from formulaic.parser.types import Factor, Operator, OrderedSet, Term, Token

from bayeskern.formula.calls import GroupCall, term_source


class GroupTerm(Term):
    """Term of effects that vary between groups."""

    def __init__(self, call: GroupCall):
        super().__init__([Factor(f"({call})", eval_method="lookup")])
        self.group_call = call


class GroupOperators(DefaultOperatorResolver):
    """formulaic's operators, with `|` and `||` in parentheses."""

    @property
    def operators(self) -> list[Operator]:
        group_operators = [
            Operator(
                symbol,
                arity=2,
                precedence=50,  # below +, so that both sides are complete
                to_terms=_correlated if symbol == "|" else _independent,
                accepts_context=_in_parentheses,
                structural=True,
            )
            for symbol in ("|", "||")
        ]
        return [*group_operators, *super().operators]


def _in_parentheses(context: list[Any]) -> bool:
    return any(isinstance(opener, Token) for opener in context)


def _correlated(effects: Iterable[Term], groups: Iterable[Term]) -> OrderedSet:
    return _group_terms(effects, groups, True)


def _independent(effects: Iterable[Term], groups: Iterable[Term]) -> OrderedSet:
    return _group_terms(effects, groups, False)


def _group_terms(effects: Iterable[Term], groups: Iterable[Term], correlated: bool) -> OrderedSet:
    names = list(map(term_source, effects))
    if not names:
        raise FormulaParsingError("there is no effect on the left of '|'.")
    source = " + ".join(names if "1" in names else ["0", *names])
    # The parser adds an intercept on both sides of '|'; groups have none.
    calls = [
        GroupCall(source, term_source(group), correlated) for group in groups if str(group) != "1"
    ]
    return OrderedSet(map(GroupTerm, calls))


@dataclass
class FormulaParser(DefaultFormulaParser):
    """formulaic's parser with group terms, whose effects have an intercept unless it is removed."""

    operator_resolver: DefaultOperatorResolver = field(default_factory=GroupOperators)

    def get_tokens_from_formula(
        self, formula: str, *, context: MutableMapping[str, Any]
    ) -> Iterable[Token]:
        tokens = list(super().get_tokens_from_formula(formula, context=context))
        with_intercepts = []
        for i, token in enumerate(tokens):
            with_intercepts.append(token)
            if token.token == "(" and _opens_group(tokens[i + 1 :]):
                with_intercepts.append(Token("1", kind=Token.Kind.VALUE))
                if tokens[i + 1].kind is not Token.Kind.OPERATOR:
                    with_intercepts.append(Token("+", kind=Token.Kind.OPERATOR))
            # The parser puts an intercept after each '|', also after the first of '||'.
            if [t.token for t in with_intercepts[-4:]] == ["|", "1", "+", "|"]:
                with_intercepts[-4:] = [Token("||", kind=Token.Kind.OPERATOR)]
        pairs = re.search(r"\(\s*(?P<bar>\|\|?)|(\|\|?)\s*\)", formula)
        if pairs is not None:
            missing = "effects on the left" if pairs["bar"] else "a group on the right"
            raise FormulaParsingError(
                f"There must be {missing} of {(pairs['bar'] or pairs[2])!r} in "
                f"{formula[pairs.start() :]!r}."
            )
        return with_intercepts


def _opens_group(tokens: Iterable[Token]) -> bool:
    """True if '|' stands between a parenthesis and its closing one, at their level."""
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.token, 0) if token.kind is Token.Kind.CONTEXT else 0
        if depth < 0:
            return False
        if depth == 0 and token.kind is Token.Kind.OPERATOR and token.token.startswith("|"):
            return True
    return False
