"""Sites of a model, and its trace at one draw of its latents."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpyro.infer.reparam
from numpyro import handlers
from numpyro.distributions import Distribution, biject_to
from numpyro.distributions.transforms import (
    ComposeTransform,
    ExpTransform,
    IndependentTransform,
    SigmoidTransform,
    Transform,
)

from bayeskern.core.tracing import by_one_thread
from bayeskern.hyperparameters import innermost
from bayeskern.inference.model.trace.arguments import without_static
from bayeskern.inference.model.trace.enumeration import is_step
from bayeskern.inference.model.trace.handlers import FullPlates, support
from bayeskern.inference.model.trace.validation import require_sample
from bayeskern.protocols import ConditionsOnData


class Latent(NamedTuple):
    """A latent site.

    Attributes:
        name: Its name.
        is_param: True for a `numpyro.param`.
        shape: Shape of its value.
        unconstrained_shape: Shape of its unconstrained value.
        is_log_scale: True if its unconstrained value is a logarithm or a log odds, so that a step
            of 1 means the same in all units.
    """

    name: str
    is_param: bool
    shape: tuple[int, ...]
    unconstrained_shape: tuple[int, ...]
    is_log_scale: bool

    @classmethod
    def from_site(cls, name: str, site: dict) -> Latent:
        """The latent at a site of a trace.

        Raises:
            ValueError: Its support has no unconstrained coordinates.
        """
        shape = jnp.shape(site["value"])
        try:
            transform = biject_to(support(site))
        except NotImplementedError:
            raise ValueError(_without_coordinates(name, site)) from None
        unconstrained_shape = transform.inverse_shape(shape)
        is_param = site["type"] == "param"
        return cls(name, is_param, shape, unconstrained_shape, _is_log_scale(transform))

    @property
    def size(self) -> int:
        """Number of unconstrained coordinates."""
        return math.prod(self.unconstrained_shape)


class ModelSite(NamedTuple):
    """A site of a model.

    Attributes:
        kind: "latent", "discrete" (a latent that is summed out), "deterministic" or "observed".
        shape: Shape of its value.
        names: Names of its axes, None for an axis without a name.
        conditions_on_data: True if its distribution conditions new values on the observed ones.
        obstacle: Reason why it cannot do so here; "" if it can.
    """

    kind: str
    shape: tuple[int, ...]
    names: tuple[str | None, ...]
    conditions_on_data: bool
    obstacle: str

    @classmethod
    def in_trace(cls, name: str, site: dict, kind: str) -> ModelSite:
        """The description of a site in a trace."""
        shape = jnp.shape(site["value"])
        conditions = kind == "observed" and isinstance(innermost(site["fn"]), ConditionsOnData)
        obstacle = _wrapper_obstacle(name, site["fn"]) if conditions else ""
        return cls(kind, shape, _axis_names(site, shape), conditions, obstacle)

    @property
    def conditional(self) -> bool:
        """True if new values are conditioned on the observed ones.

        Raises:
            ValueError: They would be, but a wrapper of the distribution prevents it.
        """
        if self.obstacle:
            raise ValueError(self.obstacle)
        return self.conditions_on_data


def _without_coordinates(name: str, site: dict) -> str:
    """Message on a latent whose support has no unconstrained coordinates, such as a sphere."""
    family = "numpyro.param" if site["type"] == "param" else type(innermost(site["fn"])).__name__
    reparam, remedy = f"{family}Reparam", "Write it as a function of other sites"
    if hasattr(numpyro.infer.reparam, reparam):
        remedy = (
            f"Reparametrise it: numpyro.handlers.reparam(model, config={{{name!r}: {reparam}()}}), "
            f"with {reparam} from numpyro.infer.reparam"
        )
    return (
        f"the latent site {name!r} ({family}) has a support without unconstrained coordinates, "
        f"which searches and chains need. {remedy}."
    )


def _is_log_scale(transform: Transform) -> bool:
    """True if a transform from unconstrained values begins with exp or the logistic function."""
    while isinstance(transform, IndependentTransform):
        transform = transform.base_transform
    first = transform.parts[0] if isinstance(transform, ComposeTransform) else transform
    return isinstance(first, ExpTransform | SigmoidTransform)


def _wrapper_obstacle(name: str, fn: Distribution) -> str:
    """Reason why a process inside a wrapper has no conditional distribution; "" without wrapper."""
    base = innermost(fn)
    if base is fn:
        return ""
    return (
        f"the site {name!r} is a {type(base).__name__} under a plate, a mask or to_event, so that "
        "new values cannot be conditioned on its data. Give each process its own site, and pass "
        "mask= to the process."
    )


@by_one_thread
def trace_at(
    model: Callable, draw: dict, key: jax.Array, args: tuple, kwargs: dict, extend: bool = False
) -> dict[str, dict]:
    """NumPyro's trace with latents at the values of a draw, and full plates.

    Args:
        model: The model.
        draw: Values of latents by site.
        key: Random key for all other sites.
        args: Positional arguments of the model.
        kwargs: Named arguments of the model.
        extend: True to draw latents of plate members that are not in `draw`.

    Returns:
        Sites by name.

    Raises:
        ValueError: If a value does not have the shape of its site; the message names the site.
    """

    def value_of(site: dict) -> jax.Array | None:
        if site["type"] not in ("sample", "param") or site["name"] not in draw:
            return None
        value = draw[site["name"]]
        if site["type"] == "sample":
            shape = jnp.shape(value)
            if extend and _has_new_members(site, shape):
                require_sample(site["name"], site["fn"])
                fresh = site["fn"].sample(site["kwargs"]["rng_key"], _sample_shape(site))
                return fresh.at[tuple(map(slice, shape))].set(value)
            _require_same_shape(site, shape)
        return value

    model = handlers.seed(FullPlates(model), key)
    return handlers.trace(handlers.substitute(model, substitute_fn=value_of)).get_trace(
        *without_static(args), **without_static(kwargs)
    )


def _sample_shape(site: dict) -> tuple[int, ...]:
    return site["kwargs"].get("sample_shape", ())


def _has_new_members(site: dict, shape: tuple[int, ...]) -> bool:
    """True if a site has longer plates than a draw, and its other axes are equal."""
    fn, expected = site["fn"], (*_sample_shape(site), *site["fn"].shape())
    if len(shape) != len(expected) or is_step(site):
        return False
    in_plates = {len(expected) - fn.event_dim + f.dim for f in site["cond_indep_stack"]}
    grown = {axis for axis, (n, m) in enumerate(zip(shape, expected, strict=True)) if n != m}
    return 0 < len(grown & in_plates) == len(grown) and all(shape[a] < expected[a] for a in grown)


def _require_same_shape(site: dict, shape: tuple[int, ...]) -> None:
    expected = (*_sample_shape(site), *site["fn"].shape())
    if is_step(site):
        # The site is one step of a scan; the draw holds all steps.
        shape = shape[1:]
    if shape != expected:
        raise ValueError(
            f"the latent site {site['name']!r} has shape {expected} with these arguments, but "
            f"its draws have shape {shape}: there are no draws of it for new groups or points. "
            "Keep its plate; give new values a site with another name; or take extend=True to draw "
            "new members at the end of a plate from their prior given the draw."
        )


def _axis_names(site: dict, shape: tuple[int, ...]) -> tuple[str | None, ...]:
    """Names of the axes of a site, from its plates and `infer={"event_dims": [...]}`."""
    names: list[str | None] = [None] * len(shape)
    batch = len(shape) - (site["fn"].event_dim if site["type"] == "sample" else 0)
    for frame in site["cond_indep_stack"]:
        axis = batch + frame.dim
        if axis >= 0 and shape[axis] == frame.size:
            names[axis] = frame.name
    events = list((site.get("infer") or {}).get("event_dims", []))[-len(shape) or None :]
    return tuple(names[: len(shape) - len(events)] + events) if events else tuple(names)
