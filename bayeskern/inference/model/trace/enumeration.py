"""Discrete latent sites, summed out by funsor if it is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers

if TYPE_CHECKING:
    from funsor import Funsor


def require_enumerable(name: str, site: dict) -> None:
    """Raise ValueError if a discrete latent site cannot be summed out."""
    advice = (
        "If its values are data, pass them (its obs was None). Otherwise sum it out in the model "
        "(for example with dist.MixtureSameFamily)"
    )
    if not site["fn"].has_enumerate_support:
        raise ValueError(
            f"the latent site {name!r} is discrete and has infinitely many values, so it cannot be "
            f"summed out. {advice}, or give it a bounded support."
        )
    if find_spec("funsor") is None:
        raise ValueError(
            f"the latent site {name!r} is discrete, and inference needs continuous latents. "
            f"{advice}, or let funsor sum it out: pip install 'bayeskern[discrete]'."
        )


def require_plates(name: str, site: dict, discrete: Iterable[str]) -> None:
    """Raise ValueError if a site beside discrete latents has an axis outside a plate.

    The values of a discrete latent are enumerated along an extra axis. An axis outside a plate
    would be mistaken for it: the model fails if the sizes differ, and its density is silently wrong
    if they agree.
    """
    if is_step(site):
        # NumPyro keeps the steps of a scan on a separate axis.
        return
    batch, in_plates = _batch_shape(site), _plates(site)
    for axis in range(-len(batch), 0):
        if batch[axis] != 1 and axis not in in_plates:
            raise ValueError(
                f"the site {name!r} has an axis of {batch[axis]} outside a plate. To sum out the "
                f"discrete latents ({', '.join(map(repr, discrete))}), put every axis in a "
                f"plate, as in `with numpyro.plate('rows', {batch[axis]}):`."
            )


def is_step(site: dict) -> bool:
    """True if a site is in a scan."""
    return "_scan_current_index" in site["infer"]


class NoPointwiseError(ValueError):
    """Observations have no separate densities after discrete sites are summed out."""


class DiscreteModel(NamedTuple):
    """A model with fixed continuous latents, whose discrete latents are summed out.

    Attributes:
        model: The model.
        args: Its positional arguments.
        kwargs: Its named arguments.
        discrete: Its discrete sites.
        nesting: Depth of nested plates; values are enumerated along axes to the left of the plates.
    """

    model: Callable
    args: tuple
    kwargs: dict
    discrete: tuple[str, ...]
    nesting: int

    def log_density(self) -> jax.Array:
        """Log density with the discrete sites summed out."""
        from numpyro.contrib import funsor

        log_density, _ = funsor.log_density(self._enumerated_model(), self.args, self.kwargs, {})
        return jnp.asarray(log_density)

    def draw(self, key: jax.Array) -> dict[str, jax.Array]:
        """Draw of the discrete sites given everything else, by backward sampling.

        Raises ValueError, naming a site in the scan, if the model has a scan.
        """
        from numpyro.contrib import funsor

        step = self._site_of_scan()
        if step:
            raise ValueError(
                f"discrete sites cannot be drawn beside a scan (the site {step!r} is in one): "
                "NumPyro can only sum them out. Write the steps as a Python loop, under "
                "numpyro.contrib.funsor.markov."
            )
        sampler = funsor.infer_discrete(
            funsor.config_enumerate(self.model),
            first_available_dim=-self.nesting - 1,
            rng_key=key,
        )
        trace = handlers.trace(sampler).get_trace(*self.args, **self.kwargs)
        return {name: trace[name]["value"] for name in self.discrete}

    def pointwise(self, observed: Iterable[str]) -> dict[str, jax.Array]:
        """log p(y_i | the rest of the data) with discrete sites summed out.

        In a mixture, in which each observation has its own discrete latent, it is log p(y_i).

        Args:
            observed: Names of the observed sites.

        Returns:
            For each observed site, an array of its batch shape.

        Raises:
            NoPointwiseError: If several observations of a site share a discrete latent, or the
                model has a scan.
        """
        step = self._site_of_scan()
        if step:
            raise NoPointwiseError(
                "the observations have no separate log likelihoods if discrete sites are summed "
                f"out beside a scan (the site {step!r} is in one)."
            )
        sites, factors = self._sample_sites(), self._factors()
        discrete = set(self.discrete)
        return {name: _conditional_log_density(name, sites, factors, discrete) for name in observed}

    def require_summable(self) -> None:
        """Raise ValueError, naming the site, if enumeration gives a wrong density.

        The enumerated densities are compared with the densities at four random assignments of
        values: a model that sums over the enumeration axis, or takes it for one of its own axes,
        would be silently wrong. Models with a scan are not checked.
        """
        import funsor

        if self._site_of_scan():
            return
        sample_sites, names = self._sample_sites(), ", ".join(map(repr, self.discrete))
        try:
            enumerated = self._factors()
        except Exception as reason:
            raise ValueError(
                f"the model fails for all values of {names} at once, which lie along an extra axis "
                f"to the left of all others ({type(reason).__name__}: {reason}). Before an axis of "
                "an event write z[..., None]; put observations in a plate."
            ) from reason
        rng = np.random.default_rng(0)
        for _ in range(4):
            values, indices = {}, {}
            for name in self.discrete:
                support = sample_sites[name]["fn"].enumerate_support(expand=False).reshape(-1)
                index = rng.integers(len(support), size=np.shape(sample_sites[name]["value"]))
                values[name] = support[index]
                # A funsor with the plates of the site as inputs.
                indices[name] = funsor.to_funsor(
                    jnp.asarray(index), funsor.Bint[len(support)], _plates(sample_sites[name])
                )
            model = handlers.substitute(self.model, data=values)
            for name, site in self._replace(model=model)._sample_sites().items():
                if not _agree(enumerated[name](**indices), site):
                    raise ValueError(
                        f"the site {name!r} has another density for all values of {names} at once "
                        "than for single values, so they cannot be summed out. The values lie "
                        "along the leftmost axis. Keep this axis: write no sum over a plate, use "
                        "no site outside its plate, and write z[..., None] before an axis of an "
                        "event. A DiscreteUniform must begin at 0."
                    )

    def _sample_sites(self) -> dict[str, dict]:
        """Sample sites in a trace of the model."""
        trace = handlers.trace(self.model).get_trace(*self.args, **self.kwargs)
        return {name: site for name, site in trace.items() if site["type"] == "sample"}

    def _site_of_scan(self) -> str | None:
        """Name of a site inside a scan, if the model has one."""
        return next((name for name, site in self._sample_sites().items() if is_step(site)), None)

    def _enumerated_model(self) -> Callable:
        """The model with all values of its discrete latents at once, along extra axes."""
        from numpyro.contrib import funsor

        model = funsor.config_enumerate(self.model)
        return funsor.enum(model, first_available_dim=-self.nesting - 1)

    def _factors(self) -> dict[str, Funsor]:
        """Log density of each site, a funsor with its plates and discrete sites as inputs."""
        import funsor
        from numpyro.contrib import funsor as numpyro_funsor
        from numpyro.contrib.funsor.infer_util import plate_to_enum_plate

        with plate_to_enum_plate():
            traced = numpyro_funsor.trace(self._enumerated_model())
            trace = traced.get_trace(*self.args, **self.kwargs)
        return {
            name: funsor.to_funsor(
                site["fn"].log_prob(site["value"]), funsor.Real, site["infer"]["dim_to_name"]
            )
            for name, site in trace.items()
            if site["type"] == "sample"
        }


def _plates(site: dict) -> dict[int, str]:
    """Axis -> name of its plate."""
    return {frame.dim: frame.name for frame in site["cond_indep_stack"]}


def _batch_shape(site: dict) -> tuple[int, ...]:
    """Shape of the log density of the value of a site."""
    shape, fn = np.shape(site["value"]), site["fn"]
    return np.broadcast_shapes(fn.batch_shape, shape[: len(shape) - fn.event_dim])


def _agree(log_prob: Funsor, site: dict) -> bool:
    """True if a funsor equals the log density of a site."""
    import funsor

    plates = _plates(site)
    if set(log_prob.inputs) - set(plates.values()):
        return False
    array = funsor.to_data(log_prob, name_to_dim={name: dim for dim, name in plates.items()})
    expected = site["fn"].log_prob(site["value"])
    return np.allclose(*np.broadcast_arrays(array, expected), rtol=1e-6, equal_nan=True)


def _conditional_log_density(
    name: str, sample_sites: dict[str, dict], factors: dict[str, Funsor], discrete: set[str]
) -> jax.Array:
    """log p(y_i | the rest) of a site, given all sites connected by discrete latents."""
    import funsor

    latents, connected = _connected_sites(name, factors, discrete)
    axes = {plate: axis for axis, plate in _plates(sample_sites[name]).items()}
    for other in sorted(connected):
        plates = set(_plates(sample_sites[other]).values())
        if not plates <= set(axes) or (other in latents and plates != set(axes)):
            raise NoPointwiseError(
                f"the observations of {name!r} have no separate log likelihoods: the discrete "
                f"latents ({', '.join(map(repr, sorted(latents)))}) tie several of them together. "
                "LOO needs a latent for each observation, in the plate of the observations."
            )
    rest = [factors[n] for n in sorted(connected - {name})]
    # log p(y_i, the rest) - log p(the rest).
    density = _marginal_log_density([factors[name], *rest], latents)
    if rest:
        density = density - _marginal_log_density(rest, latents)
    array = funsor.to_data(density, name_to_dim=axes)
    return jnp.broadcast_to(array, _batch_shape(sample_sites[name]))


def _connected_sites(
    name: str, factors: dict[str, Funsor], discrete: set[str]
) -> tuple[set[str], set[str]]:
    """Discrete latents connected to a site by factors, and the sites of those factors."""
    connected = {name}
    while True:
        latents = discrete & {latent for n in connected for latent in factors[n].inputs}
        extended = {n for n, factor in factors.items() if latents & set(factor.inputs)} | {name}
        if extended == connected:
            return latents, connected
        connected = extended


def _marginal_log_density(terms: Sequence[Funsor], latents: set[str]) -> Funsor:
    """Log of the product of factors with the latents summed out, from log factors."""
    import funsor
    from funsor import ops
    from funsor.optimizer import apply_optimizer

    with funsor.interpretations.lazy:
        joint = sum(terms[1:], terms[0]).reduce(ops.logaddexp, frozenset(latents))
    return apply_optimizer(joint)  # pyright: ignore[reportReturnType]
