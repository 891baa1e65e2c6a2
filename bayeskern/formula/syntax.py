"""Formulas of lme4, brms and Bambi as lists of terms, parsed by formulaic.

formulaic parses Wilkinson's operators and evaluates the arithmetic of a term. Here its table of
operators gets two more inside parentheses, `(effects | group)` and `(effects || group)`, and calls
such as `s(x)` are told from arithmetic by their name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bayeskern.core import validation
from bayeskern.formula.calls import Call, GroupCall, term_source

# Calls that are terms of their own: name -> number of positional arguments that they take.
SPECIAL_TERMS = ("s", "gp", "rw", "ar", "mo", "offset")
# Calls after `|` on the left-hand side.
ROW_VALUES = ("trials", "exposure", "weights", "censored")


@dataclass(frozen=True)
class Syntax:
    """Parts of a formula for one linear predictor.

    Attributes:
        response: Source of the response, or the name of a parameter for a distributional formula.
        row_values: Source of `trials`, `exposure`, `weights` or `censored`, by name.
        common: Formula of the common effects, such as "1 + x + x:z".
        groups: Effects that vary between groups.
        calls: Smooths, processes, monotone effects and offsets.
    """

    response: str
    row_values: Mapping[str, str]
    common: str
    groups: tuple[GroupCall, ...]
    calls: tuple[Call, ...]

    def sources(self, groups: str = "known", given: Collection[str] = ()) -> list[str]:
        """Sources of all columns on the right-hand side, and of the values of each row.

        Args:
            groups: "new" for the columns that rows of new groups need, which have no labels of
                groups; "none" for those of rows without group effects.
            given: Values of each row that are not read from columns.
        """
        calls = [c for c in self.calls if groups != "none" or "by" not in c.options]
        sources = [self.common, *(source for call in calls for source in call.arguments)]
        if groups != "none":
            sources += [term.effects for term in self.groups]
        if groups == "known":
            sources += [str(call.options["by"]) for call in calls if "by" in call.options]
            sources += [term.group for term in self.groups]
        return [*sources, *(s for name, s in self.row_values.items() if name not in given)]


def parse(formula: str, columns: Iterable[str]) -> Syntax:
    """Parse a formula.

    Args:
        formula: Text such as "reaction ~ days + (days | subject)".
        columns: Names of the columns of the data, for `.`.

    Raises:
        ValueError: The formula has a syntax error; the message shows where.
    """
    # formulaic takes long to import, and only formulas need it.
    from formulaic import Formula
    from formulaic.errors import FormulaParsingError

    from bayeskern.formula.operators import FormulaParser

    if not isinstance(formula, str) or "~" not in formula:
        raise ValueError(
            f"formula must be text with a response and '~', such as 'y ~ x + (1 | group)'; got "
            f"{formula!r}."
        )
    formula = _from_r(formula)
    if formula.rstrip().endswith("~"):
        raise ValueError(f"formula {formula!r} has nothing on the right of '~'; write 'y ~ 1'.")
    context = {"__formulaic_variables_available__": [str(c) for c in columns]}
    try:
        parsed: Any = Formula(  # pyright: ignore[reportAbstractUsage]
            formula, _parser=FormulaParser(), _ordering="none", _context=context
        )
    except SyntaxError as error:
        raise ValueError(f"formula {formula!r} cannot be read at {error.text!r}.") from None
    except FormulaParsingError as error:
        # formulaic marks the place by colours of a terminal.
        place = re.sub(
            r"\x1b\[\d+(;\d+)*m", "\N{BLACK RIGHT-POINTING TRIANGLE}", str(error), count=1
        )
        place = re.sub(r"\s*\x1b\[0m", "", place).replace("\n\n", " ")
        raise ValueError(f"formula {formula!r} cannot be read. {place}") from None
    right = getattr(parsed, "rhs", parsed)
    if isinstance(right, tuple):
        raise ValueError(
            f"formula {formula!r} has '|' outside parentheses: write effects that vary between "
            "groups as (effects | group)."
        )
    left = getattr(parsed, "lhs", None)
    sides = left if isinstance(left, tuple) else (left,)
    response = [term_source(term) for term in sides[0] or () if str(term) != "1"]
    if len(response) != 1:
        raise ValueError(
            f"formula {formula!r} must have one response on the left of '~'; it has "
            f"{', '.join(response) or 'none'}."
        )
    row_values = _row_values(sides[1:], formula)
    groups, calls, common = [], [], []
    for term in right:
        group = getattr(term, "group_call", None)
        call = Call.from_source(str(term)) if len(term.factors) == 1 else None
        if group is not None:
            groups.append(group)
        elif call is not None and call.name in SPECIAL_TERMS:
            calls.append(call)
        else:
            common.append(term_source(term))
    for source in (*common, *(group.effects for group in groups)):
        special = re.search(rf"(?<![\w.])({'|'.join(SPECIAL_TERMS)})\(", source)
        if special is not None:
            raise ValueError(
                f"formula {formula!r} has {special[1]}(...) inside {source!r}: it must be a term "
                "of its own. For a function in each group write by=group, as in s(x, by=group)."
            )
    common_formula = " + ".join(common if "1" in common else ["0", *common])
    return Syntax(response[0], row_values, common_formula, tuple(groups), tuple(calls))


def _from_r(formula: str) -> str:
    """Formula whose powers, truth values and factors are written in Python, not in R."""
    parts = re.split("(`[^`]*`|'[^']*'|\"[^\"]*\")", formula)
    # Every second part is in quotes, and stays as it is.
    for i in range(0, len(parts), 2):
        parts[i] = parts[i].replace("^", "**").replace("as.factor(", "factor(")
        parts[i] = re.sub(r"=\s*(TRUE|FALSE)\b", lambda m: f"={m[1].title()}", parts[i])
    return "".join(parts)


def _row_values(sides: Iterable, formula: str) -> dict[str, str]:
    """Sources of the calls after `|` on the left-hand side, by name."""
    values = {}
    for side in sides:
        for term in side:
            call = Call.from_source(str(term))
            if call is None:
                raise ValueError(
                    f"formula {formula!r} has {term} after '|' on the left of '~'; write one of "
                    f"{', '.join(f'{name}(...)' for name in ROW_VALUES)}."
                )
            name = {"cens": "censored"}.get(call.name, call.name)
            values[validation.one_of("value of each row", name, ROW_VALUES)] = call.arguments[0]
    return values
