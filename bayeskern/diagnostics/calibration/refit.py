"""Refits of a model to simulated data."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from numpyro.primitives import Messenger

from bayeskern.core.batching import batch_size
from bayeskern.inference import Method, Posterior, Target, infer
from bayeskern.inference.infer import fit_target
from bayeskern.inference.model.bound import BoundModel
from bayeskern.likelihoods.labels import decode
from bayeskern.protocols import (
    ChoosesForm,
    HasClosedForm,
    HasMarginal,
    PreparesData,
    classes_of,
)

#: Errors of single fits; compiled code raises RuntimeError.
FAILURES = (ValueError, ArithmeticError, RuntimeError)
# Number of fits at once; `benchmarks.calibration` measures the gain.
FITS_AT_ONCE = 8


def refit(
    bound_model: BoundModel,
    target: Target,
    data: dict[str, np.ndarray],
    method: Method,
    seeds: list[int],
) -> Iterator[Callable[[], Posterior]]:
    """Yield a function for each simulated data set that fits it.

    The functions return the posterior or raise the error of the fit. In plain NumPyro models the
    observed sites are conditioned on the data. For models that take the data as arguments, and
    methods that read the arguments (such as SVI with a hand-written guide), the data replace the
    arguments that hold the observations. Methods with `runs_side_by_side` fit several data sets at
    once.

    Args:
        bound_model: The prepared model.
        target: Its target.
        data: Simulated data by site, (simulations, *site).
        method: The method.
        seeds: A seed for each data set.
    """
    takes_data = PreparesData | HasMarginal | HasClosedForm | ChoosesForm
    if isinstance(bound_model.model, takes_data) or method.reads_arguments:
        return _by_arguments(bound_model, target, data, method, seeds)
    # The model is inspected once for all data sets, because that may take longer than a fit.
    template = Target.from_model(ConditionedModel(target), (arrays_of(data, 0),), {})
    return refit_template(template, data, method, seeds)


def refit_template(
    template: Target, data: dict[str, np.ndarray], method: Method, seeds: list[int]
) -> Iterator[Callable[[], Posterior]]:
    """Yield a function for each data set that fits a model of the data by site.

    Args:
        template: Target of a model with one argument, the data by site.
        data: Data by site, (simulations, *site).
        method: The method.
        seeds: A seed for each data set.
    """

    def target_at(i: int) -> Target:
        return template.with_arguments(arrays_of(data, i))

    # A Gaussian process has n x n matrices for n observations, a guide d x d for d coordinates.
    size = max(template.size, *(values[0].size for values in data.values()))
    fits_at_once = min(FITS_AT_ONCE, batch_size(size**2) or 1)
    if method.runs_side_by_side and fits_at_once > 1:
        return _in_batches(target_at, method, seeds, fits_at_once)
    return (partial(fit_target, method, target_at(i), seed) for i, seed in enumerate(seeds))


def row(values: dict[str, np.ndarray], i: int) -> dict[str, np.ndarray]:
    """Values of simulation i, by site."""
    return {name: value[i] for name, value in values.items()}


def arrays_of(data: dict[str, np.ndarray], i: int) -> dict[str, jax.Array]:
    """Data of simulation i as JAX arrays: Python numbers would be static arguments."""
    return {name: jnp.asarray(value) for name, value in row(data, i).items()}


def _by_arguments(
    bound_model: BoundModel,
    target: Target,
    data: dict[str, np.ndarray],
    method: Method,
    seeds: list[int],
) -> Iterator[Callable[[], Posterior]]:
    first_data = row(data, 0)
    arguments_of = {site: _argument_of(bound_model, target, site, first_data) for site in data}
    classes = classes_of(bound_model.model)

    def fit(i: int) -> Posterior:
        simulated = {
            arguments_of[site]: decode(value, classes) for site, value in row(data, i).items()
        }
        args, kwargs = _replace_arguments(bound_model.model, bound_model.original, simulated)
        options = {"method": method, "seed": seeds[i], "progress": False}
        return infer(bound_model.model, *args, **options, **kwargs)

    return (partial(fit, i) for i in range(len(seeds)))


# -- several fits at once --------------------------------------------------------------------------


def _in_batches(
    target_at: Callable[[int], Target], method: Method, seeds: list[int], fits_at_once: int
) -> Iterator[Callable[[], Posterior]]:
    for start in range(0, len(seeds), fits_at_once):
        batch = range(start, min(start + fits_at_once, len(seeds)))
        targets, batch_seeds = [target_at(i) for i in batch], [seeds[i] for i in batch]
        # All batches have one shape, so that the fit is compiled once.
        padding = fits_at_once - len(batch)
        try:
            fits = method.run_many(
                targets + targets[-1:] * padding, batch_seeds + batch_seeds[-1:] * padding
            )
        except FAILURES:
            # One of the data sets failed, so each of them is fitted alone.
            for target, seed in zip(targets, batch_seeds, strict=True):
                yield partial(fit_target, method, target, seed)
            continue
        for target, seed, fit in zip(targets, batch_seeds, fits, strict=False):
            yield partial(Posterior.from_fit, fit, target, method.name, seed=seed)


class ConditionedModel(eqx.Module):
    """A model as a function of its data by observed site.

    numpyro.handlers.condition does not support plates that subsample their rows.
    """

    target: Target

    def __call__(self, data: dict[str, jax.Array]) -> Any:
        return Condition(self.target.model, data)(*self.target.args, **self.target.kwargs)


class Condition(Messenger):
    """Sets observed sites to their data, or to the rows of a subsampling plate.

    Inside a scan the data of each step are set, because the next step may depend on them.
    """

    def __init__(self, fn: Callable, data: dict[str, jax.Array]):
        self.data, self.rows = data, {}
        super().__init__(fn)

    def process_message(self, msg: Any) -> None:
        if msg["type"] == "control_flow":
            msg["kwargs"]["substitute_stack"].append(("condition", self._at_step))
            return
        done = msg.get("_control_flow_done", False)
        if msg["type"] != "sample" or not self._is_set(msg) or done:
            return
        value = self.data[msg["name"]]
        batch = jnp.ndim(value) - msg["fn"].event_dim
        for frame in msg["cond_indep_stack"]:
            axis = batch + frame.dim
            if axis >= 0 and value.shape[axis] != frame.size:
                value = jnp.take(value, self.rows[frame.name], axis)
        msg["value"] = value

    def postprocess_message(self, msg: Any) -> None:
        if msg["type"] == "plate":
            self.rows[msg["name"]] = msg["value"]

    def _is_set(self, site: Any) -> bool:
        return site["is_observed"] and site["name"] in self.data

    def _at_step(self, site: Any) -> jax.Array | None:
        """Data of a site at one step of a scan; None for other sites."""
        if not self._is_set(site):
            return None
        value = self.data[site["name"]][site["infer"]["_scan_current_index"]]
        # The values of a discrete state are enumerated along leading axes of the distribution.
        axes = len(site["kwargs"]["sample_shape"]) + len(site["fn"].shape()) - jnp.ndim(value)
        return jnp.reshape(value, (1,) * axes + jnp.shape(value))


# -- data in the arguments -------------------------------------------------------------------------


def _argument_of(bound_model: BoundModel, target: Target, site: str, data: dict) -> str:
    """Name of the argument that holds the observations of a site.

    Raises ValueError if there is none, or several.
    """
    latents = {s.name: jnp.zeros(s.shape) for s in target.latents}
    observed = target.observed(latents)[site]
    bound = (
        inspect.signature(bound_model.model).bind(*bound_model.args, **bound_model.kwargs).arguments
    )
    candidates = [name for name, value in bound.items() if _holds(value, observed)]
    if len(candidates) > 1:
        # Arguments may agree by chance; only the right one changes the site.
        candidates = [
            name for name in candidates if _moves_site(bound_model, latents, site, name, data[site])
        ]
    if len(candidates) != 1:
        raise ValueError(
            f"no argument of the model holds the values of the observed site {site!r} unchanged, "
            "so the site cannot get simulated values. Observe an argument itself, or calibrate a "
            "plain function of the same sites, without a hand-written guide."
        )
    return candidates[0]


def _holds(argument: Any, observed: np.ndarray) -> bool:
    """True if an argument holds the observed values; NaN marks missing values."""
    if argument is None or isinstance(argument, str | dict):
        return False
    if np.shape(argument) != observed.shape:
        return False
    values = np.asarray(argument)
    return values.dtype.kind in "biuf" and np.array_equal(values, observed, equal_nan=True)


def _moves_site(
    bound_model: BoundModel, latents: dict, site: str, argument: str, value: np.ndarray
) -> bool:
    """True if the site observes `value` when an argument is set to `value`."""
    args, kwargs = _replace_arguments(
        bound_model.model, (bound_model.args, bound_model.kwargs), {argument: value}
    )
    changed = Target.from_model(bound_model.model, args, kwargs)
    return bool(np.array_equal(changed.observed(latents)[site], value))


def _replace_arguments(model: Any, old: tuple[tuple, dict], new: dict) -> tuple[tuple, dict]:
    """Arguments of a model with some of them replaced by name."""
    prepare = model.prepare if isinstance(model, PreparesData) else model
    bound = inspect.signature(prepare).bind(*old[0], **old[1])
    for name, value in new.items():
        bound.arguments[name] = jnp.asarray(value) if np.ndim(value) == 0 else value
    return bound.args, bound.kwargs
