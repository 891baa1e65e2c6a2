"""Regression models from a formula, a table and priors."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
from numpyro.distributions import Distribution, constraints

from bayeskern import kernels
from bayeskern.core import validation
from bayeskern.core.extras import needed_for
from bayeskern.formula.calls import Call
from bayeskern.formula.common import Common
from bayeskern.formula.field import Design, Factor, SparseCross
from bayeskern.formula.frame import (
    Columns,
    complete_rows,
    read_table,
    required_columns,
    without_unused_levels,
)
from bayeskern.formula.groups import GroupTerm, Varying
from bayeskern.formula.integrated import Rows
from bayeskern.formula.model import Regression
from bayeskern.formula.reader import RowReader
from bayeskern.formula.syntax import Syntax, parse
from bayeskern.formula.terms import FREQUENCIES, Monotone, Process, Smooth, Term
from bayeskern.formula.walk import Walk
from bayeskern.likelihoods import Censored, Gaussian, Likelihood
from bayeskern.likelihoods.separation import separated
from bayeskern.linear.design import OpaqueStatic
from bayeskern.linear.statistics import SufficientStatistics, collinear_columns

# What to write in place of bases of mgcv that are not a smooth function on a line.
BASES = {
    "re": "write (1 | group)",
    "fs": "write s(x, by=group)",
    "cc": "write sines and cosines of the period, such as np.sin(2 * np.pi * x / 12)",
    "gp": "write gp(x)",
}
# Names of families in other libraries.
OTHER_NAMES = {
    "binary": "bernoulli",
    "cumulative": "ordered",
    "logistic": "bernoulli",
    "nb": "negative_binomial",
    "nbinom": "negative_binomial",
    "negativebinomial": "negative_binomial",
    "negbinomial": "negative_binomial",
    "normal": "gaussian",
    "ordinal": "ordered",
    "student": "student_t",
    "t": "student_t",
}
# Default number of knots of a smooth.
KNOTS = 20
# Kernels of gp(...): stationary, with a spectral density, a length scale and a variance.
PROCESS_KERNELS = ("RBF", "Matern12", "Matern32", "Matern52")
# Scale of the log of a distributional parameter: the prior sd of its intercept is 2.5 times this.
LOG_SCALE = 0.4
# Distance of 0 from the mean of a column, in sds of the column, above which a warning comes: lines
# of groups that differ in slope then differ this many times more at 0 than within the data.
MAX_DISTANCE_SDS = 10.0
# Rows up to which linear programming looks for separation.
MAX_SEPARATION_ROWS = 20_000


def regression(
    formula: str | Sequence[str],
    data: Any,
    family: str | Likelihood = "gaussian",
    priors: Mapping[str, Distribution] | None = None,
) -> Regression:
    """Regression model by a formula, in the syntax of lme4, brms and Bambi.

    The model holds its data: `bk.infer(bk.regression(formula, data))`. Gaussian effects are
    integrated out where that is exact or Laplace's approximation is good, so that methods infer the
    scales only; the effects are then drawn given the scales.

    Args:
        formula: Text such as "reaction ~ days + (days | subject)"; or several, of which the others
            are for parameters of the likelihood on the log scale: ["y ~ x", "sigma ~ x"].

            - `x + z`, `x:z`, `x * z`, `0 + x`, `C(x)`, `poly(x, 2)`, `bs(x, df=5)`, `scale(x)`,
              `log(x)`, `I(x ** 2)`: common effects;
            - `(x | g)`, `(x || g)`, `(1 | g / h)`, `(1 | g:h)`: effects that vary between groups,
              correlated within a group unless written with `||`;
            - `s(x)`: a smooth function, `gp(x)` or `gp(x, z)`: a Gaussian process, each with
              `by=g` for a function in each group;
            - `mo(x)`: a monotone effect of ordered levels; `offset(x)`: a known effect;
            - `rw(t)`: a random walk, `ar(t)`: a stationary autoregression;
            - on the left, `y | trials(n)`, `y | exposure(e)`, `y | weights(w)`,
              `y | censored(c)` with "none", "right" or "left" in c.
        data: A data frame (pandas, polars or another that narwhals reads), a dict of columns, or a
            CSV, Parquet or Excel file. Rows with a missing value are left out, with a warning.
        family: Name of a likelihood, such as "poisson", or one of `bayeskern.likelihoods`.
        priors: Priors by site: "days", "Intercept" (at x = 0), "sd(days | subject)", "sigma".
            `model.priors_used` has all priors with their names.

    Returns:
        The model; `infer`, `prior_predictive`, `calibrate`, `compare` and `report` take it.

    Raises:
        ValueError: The formula has a syntax error, names a column that is not there, or a prior
            has an unknown name; or the data do not fit the family.
        TypeError: The data are no table, or a prior is no distribution.

    References:
        Bates, Maechler, Bolker and Walker (2015), "Fitting linear mixed-effects models using lme4";
        Rue, Martino and Chopin (2009), on nested Laplace approximations.

    Examples:
        >>> import numpy as np
        >>> import bayeskern as bk
        >>> rng = np.random.default_rng(0)
        >>> subject = np.repeat(np.arange(10), 8)
        >>> x = np.tile(np.arange(8.0), 10)
        >>> y = 5.0 + 2.0 * x + rng.normal(size=10)[subject] + 0.5 * rng.normal(size=80)
        >>> model = bk.regression("y ~ x + (1 | subject)", {"y": y, "x": x, "subject": subject})
        >>> posterior = bk.infer(model, seed=0)
        >>> print(posterior.draws["x"].mean().round(1))
        2.0
    """
    with needed_for("A regression by formula", package="formulaic", extra="formula"):
        import formulaic  # noqa: F401  # slow to import, and needed below
    several = isinstance(formula, Sequence) and not isinstance(formula, str) and formula
    formulas: tuple[Any, ...] = tuple(formula) if several else (formula,)
    frame = read_table(data)
    main, *others = (parse(text, frame.columns) for text in formulas)
    sources = [main.response, *(s for syntax in (main, *others) for s in syntax.sources())]
    frame = complete_rows(frame, required_columns(sources, frame, formulas[0]))
    frame = without_unused_levels(frame)
    priors = _read_priors(priors)
    prepared, sigma = _likelihood(family, main, others, frame, priors)
    likelihood, y, extra = prepared.likelihood, prepared.y, prepared.extra
    location, scale = likelihood.eta_location_scale(np.asarray(y), extra)
    at_center = location, scale
    common, X = Common.fit(main.common, frame, likelihood.takes_intercept, at_center, priors)
    _warn_of_columns(common, X, likelihood, np.asarray(y), extra)
    terms, blocks, groups = _terms(main, frame, scale)
    distributional = {
        syntax.response: _distributional(syntax, frame, scale, priors) for syntax in others
    }
    factors = joined_factors(groups)
    design = Design(
        jnp.asarray(np.hstack([X, *blocks])),
        factors,
        (X.shape[1], *(block.shape[1] for block in blocks)),
        SparseCross.of(factors),
    )
    reader = RowReader(main, frame)
    parameters = tuple(jnp.asarray(columns) for _, columns in distributional.values())
    rows = Rows(design, reader.offset(frame), reader.weights(frame), parameters)
    model = Regression(
        formulas=formulas,
        likelihood=likelihood,
        sigma=sigma,
        common=common,
        terms=tuple(terms),
        groups=tuple(term for term, _ in groups),
        distributional={name: effects for name, (effects, _) in distributional.items()},
        rows=rows,
        y=y,
        extra=extra,
        source=OpaqueStatic(reader),
    )
    _check_names(model)
    _warn_of_groups(model)
    for term, factor in groups:
        if not priors.keys() & term.effects.priors.keys():
            _warn_of_distant_zero(term.effects, np.asarray(factor.Z))
    return _with_priors(model, priors)


# -- reading the parts -----------------------------------------------------------------------------


def _read_priors(priors: Mapping[str, Distribution] | None) -> dict[str, Distribution]:
    if priors is not None and not isinstance(priors, Mapping):
        raise TypeError(
            "priors must be a dict of NumPyro distributions by name, such as "
            f"{{'x': dist.Normal(0.0, 2.5)}}; got {type(priors).__name__}."
        )
    for name, prior in (priors or {}).items():
        if not isinstance(prior, Distribution):
            raise TypeError(
                f"the prior of {name!r} must be a NumPyro distribution, such as "
                f"dist.Normal(0.0, 2.5); got {prior!r}."
            )
        if prior.is_discrete:
            raise ValueError(
                f"the prior of {name!r} must be continuous, such as dist.Normal(0.0, 2.5); got "
                f"{type(prior).__name__}."
            )
    return dict(priors or {})


def families() -> list[str]:
    """Names of the likelihoods that are families, such as "negative_binomial"."""
    return [name for name, kind in _by_name().items() if not kind.multivariate]


def _by_name() -> dict[str, type[Likelihood]]:
    return {
        re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower(): cls
        for cls in Likelihood.registered()
        if not cls.__name__.startswith("_")
    }


def _likelihood(
    family: str | Likelihood,
    main: Syntax,
    others: Sequence[Syntax],
    frame: pd.DataFrame,
    priors: Mapping[str, Distribution],
) -> tuple[Any, Distribution | None]:
    """The likelihood prepared for the data, and the prior of sigma under Gaussian noise."""
    if isinstance(family, str):
        family = family.lower()
        if family in OTHER_NAMES:
            raise ValueError(f"family={family!r} is not known: write {OTHER_NAMES[family]!r}.")
        if family not in _by_name():
            validation.one_of("family", family, families())
        family = _by_name()[family]()
    if not isinstance(family, Likelihood):
        raise TypeError(
            "family must be the name of a likelihood, such as 'poisson', or one of "
            f"bayeskern.likelihoods; got {family!r}."
        )
    if family.multivariate:
        raise ValueError(
            f"{type(family).__name__} has a linear predictor for each output, and a formula one "
            "alone. Use bk.BayesianGLM."
        )
    if "censored" in main.row_values and isinstance(family, Gaussian):
        family = Censored(family.noise)
    own = {name: priors[name] for name in family.hyperparameters() if name in priors}
    family = family.with_hyperparameters(**own) if own else family
    parameters = [other.response for other in others]
    is_normal = isinstance(family, Gaussian | Censored) and family.noise is None
    known = ["sigma"] if is_normal else list(family.hyperparameters())
    for name in parameters:
        if not known:
            raise ValueError(
                f"{type(family).__name__} has no parameter but the mean, so that a formula of "
                f"{name!r} has no use. Leave it out."
            )
        validation.one_of("parameter of a formula", name, known)
    extra = RowReader(main, frame).extra(frame)
    for name, default in family.needs.items():
        if default is None and name not in extra:
            hint = " For zeros and ones take family='bernoulli'." if name == "trials" else ""
            raise ValueError(
                f"{type(family).__name__} needs the {name} of each row: write "
                f"'{main.response} | {name}(n) ~ ...'.{hint}"
            )
    response = _response(main.response, frame)
    if not isinstance(family, Gaussian | Censored) or family.noise is not None:
        return family.prepare(response, len(frame), extra), None
    # The default prior of the noise needs data that vary.
    prepared = family.with_hyperparameters(noise=1.0).prepare(response, len(frame), extra)
    if "sigma" in parameters:
        return prepared, None
    if "sigma" in priors:
        return prepared, priors["sigma"]
    y = np.asarray(prepared.y)
    return prepared, family.default_prior("sigma", family.spread_of(y), y[0], len(y))


def _distributional(
    syntax: Syntax, frame: pd.DataFrame, scale: float, priors: Mapping[str, Distribution]
) -> tuple[Common, np.ndarray]:
    """Effects on the log of a parameter, and their columns (n, k)."""
    if syntax.groups or syntax.calls:
        part = f"({syntax.groups[0]})" if syntax.groups else str(syntax.calls[0])
        raise ValueError(
            f"the formula of {syntax.response} has {part}; it can have common effects only, "
            f"such as {syntax.response} ~ x + z."
        )
    at_center, prefix = (np.log(scale), LOG_SCALE), f"{syntax.response}_"
    return Common.fit(syntax.common, frame, True, at_center, priors, prefix)


def _terms(
    syntax: Syntax, frame: pd.DataFrame, scale: float
) -> tuple[list[Term], list[np.ndarray], list[tuple[GroupTerm, Factor]]]:
    """Dense terms with their columns (n, k), and group terms, the largest factor first."""
    terms, blocks, groups = [], [], []
    for call in syntax.groups:
        groups.append(_grouped(*Varying.fit(call, frame, scale), call.group, frame))
    for call in syntax.calls:
        if call.name == "offset":
            continue
        term, columns = _function(call, frame, scale)
        if "by" in call.options:
            groups.append(_grouped(term, columns, str(call.options["by"]), frame))
        else:
            terms.append(term)
            blocks.append(columns)
    return terms, blocks, sorted(groups, key=lambda group: _order(group, groups))


def _response(source: str, frame: pd.DataFrame) -> Any:
    """Values of the response: a column as it stands, or an expression."""
    if source.strip("`") in frame.columns:
        column = frame[source.strip("`")]
        return column if isinstance(column.dtype, pd.CategoricalDtype) else column.to_numpy()
    return Columns.fit(f"0 + {source}", frame)[1][:, 0]


def _function(call: Call, frame: pd.DataFrame, scale: float) -> tuple[Term, np.ndarray]:
    """Term of a call, with its columns (n, k)."""
    name, options = str(call), {k: v for k, v in call.options.items() if k != "by"}
    most = {"gp": len(FREQUENCIES)}.get(call.name, 1)
    if not 1 <= len(call.arguments) <= most:
        accepted = "one column" if most == 1 else f"one to {most} columns"
        hint = f" Write gp({', '.join(call.arguments)})." if call.name == "s" else ""
        raise ValueError(f"{name} must have {accepted}; it has {len(call.arguments)}.{hint}")
    if call.name == "s":
        knots = validation.positive_integer(options.pop("k", KNOTS), "k of a smooth")
        fitted = Smooth.fit(name, call.arguments, frame, scale, knots)
    elif call.name in ("rw", "ar"):
        fitted = Walk.fit(name, call.name, call.arguments, frame, scale)
    elif call.name == "gp":
        kernel = validation.one_of("kernel", options.pop("kernel", "RBF"), PROCESS_KERNELS)
        kernel = getattr(kernels, kernel)
        fitted = Process.fit(name, call.arguments, frame, scale, kernel)
    else:
        fitted = Monotone.fit(name, call.arguments, frame, scale)
    if options:
        option, value = next(iter(options.items()))
        accepted = {"s": "k and by", "gp": "kernel and by"}.get(call.name, "by")
        basis = BASES.get(str(value), "leave bs out: a smooth is a cubic smoothing spline")
        hint = f" For bs={value!r}, {basis}." if option == "bs" else ""
        raise ValueError(f"{name} has an unknown option {option!r}; it takes {accepted}.{hint}")
    return fitted


def _grouped(
    effects: Term, columns: np.ndarray, group: str, frame: pd.DataFrame
) -> tuple[GroupTerm, Factor]:
    term, codes = GroupTerm.fit(effects, group, frame)
    return term, Factor(jnp.asarray(codes), jnp.asarray(columns), term.count)


def _order(group: tuple[GroupTerm, Factor], groups: list) -> tuple:
    """Sorting key: the factor with most effects first, terms of one factor together."""
    name = group[0].group
    members = [term for term, _ in groups if term.group == name]
    return -sum(term.count * term.effects.width for term in members), name


def joined_factors(groups: Sequence[tuple[GroupTerm, Factor]]) -> tuple[Factor, ...]:
    """Factors in which the columns of terms with the same groups are joined."""
    joined: dict[str, Factor] = {}
    for term, factor in groups:
        first = joined.get(term.group)
        if first is not None:
            factor = replace(first, Z=jnp.concatenate([first.Z, factor.Z], axis=1))
        joined[term.group] = factor
    return tuple(joined.values())


# -- checks ----------------------------------------------------------------------------------------


def _check_names(model: Regression) -> None:
    """Raise ValueError if a column has the name of another site."""
    effects = [site for site, _, _ in model.common.slices if site != model.common.intercept]
    if model.common.source.value.names.count("Intercept") > 1:
        effects.append("Intercept")
    other = {"y", "sigma", "Intercept", *model.likelihood.hyperparameters()}
    for site in other.intersection(effects):
        raise ValueError(
            f"the column {site!r} has the name of another part of the model, so that its effect "
            "has no name of its own. Rename the column."
        )


def _warn_of_groups(model: Regression) -> None:
    """Warn of grouping factors whose standard deviations the data cannot tell."""
    for term in model.groups:
        if term.count == 1:
            message = f"{term.group} has one group only, so that it tells nothing of the sd"
        elif term.count == len(model.y) and model.is_gaussian and term.effects.width == 1:
            message = (
                f"{term.group} has one row in each group, so that the data cannot tell groups from "
                "noise: the prior decides on the sd"
            )
        else:
            continue
        warnings.warn(f"{message} of ({term.effects.name}).", UserWarning, stacklevel=3)


def _warn_of_distant_zero(term: Term, Z: np.ndarray) -> None:
    """Warn of slopes of groups whose column is far from 0, where their intercepts are."""
    if not isinstance(term, Varying) or "Intercept" not in term.names:
        return
    for name, z in zip(term.names, Z.T, strict=True):
        if abs(z.mean()) > MAX_DISTANCE_SDS * z.std() > 0.0:
            warnings.warn(
                f"the effects ({term.name}) are those at {name} = 0, and {name} is {z.min():.4g} "
                f"to {z.max():.4g}: the default priors rule out such large effects of groups. "
                f"Write I({name} - {z.mean():.4g}) in place of {name}.",
                UserWarning,
                stacklevel=3,
            )


def _with_priors(model: Regression, priors: Mapping[str, Distribution]) -> Regression:
    """Copy with the priors of the user on scales; raise ValueError for an unknown name."""
    known = model.priors_used
    for name in priors:
        validation.one_of("prior", name, known)
    if model.sigma is not None:
        _check_support("sigma", model.sigma, constraints.positive)
    groups = (replace(g, effects=_with_own(g.effects, priors)) for g in model.groups)
    terms = tuple(_with_own(term, priors) for term in model.terms)
    return replace(model, terms=terms, groups=tuple(groups))


def _with_own(term: Term, priors: Mapping[str, Distribution]) -> Term:
    for site, default in term.priors.items():
        _check_support(site, priors.get(site, default), default.support)
    own = {site: priors.get(site, prior) for site, prior in term.priors.items()}
    return replace(term, priors=own)


def _check_support(site: str, prior: Distribution, needed: Any) -> None:
    """Raise ValueError if a prior has values that a scale or a correlation cannot have."""
    for value in (-2.0, 2.0):
        at_value = prior.support(jnp.full(prior.shape(), value))  # pyright: ignore
        if jnp.any(at_value) and not jnp.all(needed(jnp.full(prior.shape(), value))):
            raise ValueError(
                f"the prior of {site!r} must be a distribution of values that are possible, and "
                f"{value:g} is not; got {type(prior).__name__}. Standard deviations are above 0, "
                "as under dist.HalfNormal(1.0), and correlations between -1 and 1."
            )


def _warn_of_columns(
    common: Common, X: np.ndarray, likelihood: Likelihood, y: np.ndarray, extra: Mapping
) -> None:
    """Warn of collinear columns and of separated classes."""
    names = list(common.source.value.names[common.skip :])
    is_constant = np.ptp(X, axis=0) == 0.0
    zero = [names[i] for i in np.flatnonzero(is_constant) if names[i] != "Intercept"]
    if zero and is_constant.sum() > 1:
        warnings.warn(
            f"the columns {', '.join(map(repr, zero))} are constant: the data cannot tell their "
            "effects from the intercept. Leave them out.",
            UserWarning,
            stacklevel=3,
        )
    columns = X[:, ~is_constant]
    if not columns.shape[1] or len(X) <= columns.shape[1]:
        return
    kept = [name for name, constant in zip(names, is_constant, strict=True) if not constant]
    statistics = SufficientStatistics.of_features(columns)
    relation = collinear_columns(statistics, bool(is_constant.any()), kept)
    if relation is not None:
        warnings.warn(
            f"the columns {relation} are collinear: only the priors tell their effects apart. "
            "Leave one of them out.",
            UserWarning,
            stacklevel=3,
        )
    elif len(X) <= MAX_SEPARATION_ROWS and separated(X, *likelihood.vanishing_tails(y, **extra)):
        warnings.warn(
            "the columns separate the observations perfectly: only the priors bound the effects.",
            UserWarning,
            stacklevel=3,
        )
