"""A regression as the text of a NumPyro program, and the arrays that the program reads.

The program samples the effects. It has the sites and the log joint density of the model, with the
numbers in its priors rounded to six digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import singledispatch
from itertools import pairwise
from textwrap import indent
from typing import Any

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jax import Array
from numpyro.distributions import Distribution

from bayeskern import hyperparameters as hyper
from bayeskern.formula.common import Common
from bayeskern.formula.groups import Varying
from bayeskern.formula.integrated import Rows
from bayeskern.formula.structure import Structure
from bayeskern.formula.terms import Monotone, Process, Smooth, Term
from bayeskern.formula.walk import Walk

HEADER = """\
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
"""
# Imports that a program needs if it has these words.
IMPORTS = {
    "likelihoods.": "from bayeskern import likelihoods",
    "from_sd(": "from bayeskern.hyperparameters import from_sd",
    "kernels.": "from bayeskern import kernels",
    "OrderStatistics(": "from bayeskern.likelihoods.ordered import OrderStatistics",
}


def program(model: Structure, rows: Rows, extra: Iterable[str]) -> str:
    """Text of a NumPyro program `model(data, y=None)`, where data are its `arrays`."""
    lines = [
        _quoted(" ".join(", ".join(model.formulas).split())),
        *_common(model.common, "eta", "X", ['data["offset"]']),
    ]
    for term in model.terms:
        lines += [f"# {term.name}", *root_code(term), *_effects(term, [term.rank])]
        lines.append(f"eta = eta + {_data(f'columns of {term.name}')} @ b")
    for group in model.groups:
        term, codes = group.effects, _data(f"codes of {group.group}")
        title = f"({term.name})" if isinstance(term, Varying) else term.name
        lines += [f"# {title}", *root_code(term), *_effects(term, [group.count, term.rank])]
        columns = _data(f"columns of {term.name}")
        lines.append(f"eta = eta + jnp.sum({columns} * b[{codes}], axis=-1)")
    for name, effects in model.distributional.items():
        lines += [f"# {name}", *_common(effects, name, f"X of {name}"), f"{name} = jnp.exp({name})"]
    lines += _observations(model, rows.weights is not None, extra)
    body = "\n".join(lines)
    imports = [line for word, line in IMPORTS.items() if word in body]
    header = "\n".join([HEADER.rstrip(), *imports])
    return f"{header}\n\n\ndef model(data, y=None):\n{indent(body, ' ' * 4)}\n"


def arrays(model: Structure, rows: Rows, extra: dict[str, Array]) -> dict[str, Array]:
    """Arrays that a `program` reads, by name."""
    design = rows.design
    starts = np.cumsum([0, *design.sizes])
    data = {"offset": rows.offset} | extra
    data |= _common_arrays(model.common, design.dense[:, : starts[1]], "X")
    blocks = pairwise(starts[1:])
    columns = [design.dense[:, start:stop] for start, stop in blocks]
    columns += model.by_term(tuple(factor.Z for factor in design.factors), None)
    for term, Z in zip((*model.terms, *(g.effects for g in model.groups)), columns, strict=True):
        data[f"columns of {term.name}"] = Z
        if isinstance(term, Walk):
            data[f"times of {term.name}"] = term.times
    for group, factor in zip(model.factors, design.factors, strict=True):
        data[f"codes of {group}"] = factor.codes
    for (name, effects), X in zip(model.distributional.items(), rows.parameters, strict=True):
        data |= _common_arrays(effects, X, f"X of {name}")
    return data if rows.weights is None else data | {"weights": rows.weights}


# -- text ------------------------------------------------------------------------------------------


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _data(name: str) -> str:
    return f"data[{_quoted(name)}]"


def _rounded(text: str) -> str:
    """Text with its numbers rounded to six digits."""
    return re.sub(r"\d+\.\d+(?:e[-+]?\d+)?", lambda digits: f"{float(digits[0]):.6g}", text)


def _number(value: Any) -> str:
    values = np.asarray(value)
    if values.ndim:
        return f"jnp.array([{', '.join(f'{v:.6g}' for v in values)}])"
    return f"{float(values):.6g}"


def _prior(prior: Distribution) -> str:
    """A distribution as an expression."""
    text = _rounded(hyper.show(prior)).replace("[", "jnp.array([").replace("]", "])")
    text = text.replace("unit_interval", "dist.constraints.unit_interval")
    return re.sub(r"(?<![\w.])[A-Z]\w*(?=\()", _qualified, text)


def _qualified(name: re.Match[str]) -> str:
    modules = {"dist.": dist, "dist.transforms.": dist.transforms}
    return next((m for m, module in modules.items() if hasattr(module, name[0])), "") + name[0]


def _sample(site: str, prior: str) -> str:
    return f"numpyro.sample({_quoted(site)}, {prior})"


def _scale(name: str, term: Term, site: str) -> str:
    """Assign a site of a term to a variable."""
    return f"{name} = {_sample(site, _prior(term.priors[site]))}"


# -- common effects --------------------------------------------------------------------------------


def _common(effects: Common, target: str, columns: str, known: Sequence[str] = ()) -> list[str]:
    """Assign a linear predictor to the variable `target`: `known` parts and common effects."""
    samples = []
    for site, start, stop in effects.slices:
        if site != effects.intercept:
            samples.append(f"    {_sample(site, _common_prior(effects, site, start, stop))},")
    lines = ["b = jnp.hstack([", *samples, "])"] if samples else []
    parts = [*known, f"{_data(columns)} @ b"] if samples else [*known]
    for site, start, _ in effects.slices:
        if site != effects.intercept:
            continue
        prior = _common_prior(effects, site, start, start + 1)
        if samples and np.any(np.asarray(effects.center)) and site not in effects.priors:
            loc, sd = _number(effects.loc[start]), _number(effects.sd[start])
            prior = f"dist.Normal({loc} - {_data(f'means of {columns}')} @ b, {sd})"
        lines.append(f"intercept = {_sample(site, prior)}")
        parts.insert(len(known), "intercept")
    return [*lines, f"{target} = {' + '.join(parts)}"]


def _common_prior(effects: Common, site: str, start: int, stop: int) -> str:
    if site in effects.priors:
        return _prior(effects.priors[site])
    index = slice(start, stop) if stop - start > 1 else start
    event = ".to_event(1)" if stop - start > 1 else ""
    return f"dist.Normal({_number(effects.loc[index])}, {_number(effects.sd[index])}){event}"


def _common_arrays(effects: Common, X: Array, name: str) -> dict[str, Array]:
    """Columns without the intercept, not centred, and their means."""
    kept = [
        i
        for site, start, stop in effects.slices
        if site != effects.intercept
        for i in range(start, stop)
    ]
    index = jnp.asarray(kept, int)
    center = effects.center[index]
    return {name: X[:, index] + center, f"means of {name}": center} if kept else {}


# -- other terms -----------------------------------------------------------------------------------


@singledispatch
def root_code(term: Term) -> list[str]:
    """Sample the scales of a term, and assign the root T of its prior covariance to `root`."""
    raise NotImplementedError(f"{type(term).__name__} has no NumPyro code.")


@root_code.register
def _(term: Smooth) -> list[str]:
    root = f"jnp.hstack([{_number(term.slope_sd)}, jnp.full({term.width - 1}, sd)])"
    return [_scale("sd", term, f"sd({term.name})"), f"root = {root}"]


@root_code.register
def _(term: Process) -> list[str]:
    box, spans = term.kernel, _number(jnp.squeeze(term.spans))
    inner = f"kernels.{type(box.inner).__name__}(lengthscale / {spans}, sd**2)"
    corners = ", ".join(str(list(corner)) for corner in (box.lower, box.upper, box.m))
    return [
        _scale("sd", term, f"sd({term.name})"),
        _scale("lengthscale", term, f"lengthscale({term.name})"),
        f"box = kernels.HilbertSpace({inner}, {corners})",
        f"root = box.amplitudes({len(term.spans)})",
    ]


@root_code.register
def _(term: Monotone) -> list[str]:
    steps = _scale("steps", term, f"simplex({term.name})")
    return [steps, f"root = {_number(term.sd)} * steps[:, None]"]


@root_code.register
def _(term: Walk) -> list[str]:
    m, times = term.width, _data(f"times of {term.name}")
    lines = [_scale("sd", term, f"sd({term.name})"), f"lags = jnp.diff({times})"]
    if term.kind == "rw":
        steps = "jnp.hstack([0.0, jnp.sqrt(lags)])"
        return [
            *lines,
            f"sums = jnp.tril(jnp.ones(({m}, {m}))) * {steps}",
            "root = sd * (sums - jnp.mean(sums, axis=0))",
        ]
    return [
        *lines,
        _scale("rho", term, f"rho({term.name})"),
        "steps = jnp.hstack([1.0, jnp.sqrt(1.0 - rho ** (2.0 * lags))])",
        f"decay = rho ** jnp.maximum({times}[:, None] - {times}, 0.0)",
        "root = sd * jnp.tril(decay) * steps",
    ]


@root_code.register
def _(term: Varying) -> list[str]:
    if term.width == 1:
        return [_scale("sd", term, f"sd({term.sites_of_groups[0]})")]
    sds = [_sample(f"sd({s})", _prior(term.priors[f"sd({s})"])) for s in term.sites_of_groups]
    lines = ["sd = jnp.stack([", *(f"    {sd}," for sd in sds), "])"]
    if not term.correlated:
        return [*lines, "root = jnp.diag(sd)"]
    site = next(reversed(term.priors))
    prior = term.priors[site]
    lkj = f"dist.LKJCholesky({term.width}, {_number(getattr(prior, 'concentration', 1.0))})"
    expression = lkj if isinstance(prior, dist.LKJCholesky) else _prior(prior)
    sample = f"correlation = {_sample(site, expression)}"
    if term.width == 2:
        L = "jnp.array([[1.0, 0.0], [correlation, jnp.sqrt(1.0 - correlation**2)]])"
        return [*lines, sample, f"root = sd[:, None] * {L}"]
    lines += [sample, "root = sd[:, None] * correlation", "R = correlation @ correlation.T"]
    for i, first in enumerate(term.names):
        for j, second in enumerate(term.names[i + 1 :], i + 1):
            name = _quoted(f"cor({first}, {second} | {term.group})")
            lines.append(f"numpyro.deterministic({name}, R[{i}, {j}])")
    return lines


def _effects(term: Term, shape: list[int]) -> list[str]:
    """Assign the effects of a term with this `root` to `b`: (k,), or (G, k) for G groups."""
    if isinstance(term, Varying) and term.width == 1:
        normal = f"dist.Normal(0.0, sd).expand([{shape[0]}]).to_event(1)"
        return [f"b = {_sample(term.sites_of_groups[0], normal)}[:, None]"]
    if isinstance(term, Varying):
        sites = ", ".join(map(_quoted, term.sites_of_groups))
        return [
            "u = []  # Each effect has a normal distribution given the effects before it.",
            f"for j, site in enumerate([{sites}]):",
            f"    loc = sum((root[j, k] * u[k] for k in range(j)), jnp.zeros({shape[0]}))",
            "    effect = numpyro.sample(site, dist.Normal(loc, root[j, j]).to_event(1))",
            "    u.append((effect - loc) / root[j, j])",
            "b = jnp.stack(u, axis=-1) @ root.T",
        ]
    normal = f"dist.Normal().expand({shape}).to_event({len(shape)})"
    product = "root * u" if isinstance(term, Smooth | Process) else "u @ root.T"
    effects = f"numpyro.deterministic({_quoted(term.name)}, {product})"
    lines = [f"u = {_sample(f'white({term.name})', normal)}", f"b = {effects}"]
    if isinstance(term, Monotone):
        total = f"numpyro.deterministic({_quoted(term.name)}, jnp.sum(b, axis=-1))"
        lines[1:] = [f"b = {product}", total]
    return lines


# -- observations ----------------------------------------------------------------------------------


def _observations(model: Structure, weighted: bool, extra: Iterable[str]) -> list[str]:
    lines, sample = [], 'return numpyro.sample("y", {}, obs=y)'
    if model.sigma is not None:
        lines.append(f"sigma = {_sample('sigma', _prior(model.sigma))}")
    if model.is_gaussian:
        if model.sigma is None and "sigma" not in model.distributional:
            variance: Any = model.likelihood.noise_variance
            lines.append(f"sigma = {_number(np.sqrt(variance))}")
        observed = "dist.Normal(eta, sigma)"
    else:
        values = (f"{name}={_data(name)}" for name in extra)
        observed = f"likelihood.distribution({', '.join(['eta', *values])})"
        lines.append(f"likelihood = {_likelihood(model)}")
    if not weighted:
        return [*lines, sample.format(observed)]
    scaled = 'with numpyro.handlers.scale(scale=data["weights"]):'
    return [*lines, scaled, f"    {sample.format(observed)}"]


def _likelihood(model: Structure) -> str:
    likelihood, arguments = model.likelihood, []
    for name, value in likelihood.hyperparameters().items():
        if name in model.distributional:
            arguments.append(f"{name}={name}")
        elif isinstance(value, Distribution):
            arguments.append(f"{name}={_sample(name, _prior(value))}")
        else:
            arguments.append(f"{name}={_number(value)}")
    if model.sigma is not None or "sigma" in model.distributional:
        arguments = ["noise=sigma**2"]
    if likelihood.link is not None:
        arguments.append(f"link={_quoted(likelihood.link)}")
    return f"likelihoods.{type(likelihood).__name__}({', '.join(arguments)})"
