"""Discrete latent sites, summed out by funsor where it is installed."""

from __future__ import annotations

from importlib.util import find_spec

from numpyro import handlers


def require_enumerable(name: str, site: dict) -> None:
    """Raise ValueError if a discrete latent site cannot be summed out."""
    instead = (
        "If it is data, pass them (its obs was None). Otherwise sum it out in the model (for "
        "example with dist.MixtureSameFamily)"
    )
    if not site["fn"].has_enumerate_support:
        raise ValueError(
            f"the latent site {name!r} is discrete and has infinitely many values, so it cannot be "
            f"summed out. {instead}, or give it a bounded support."
        )
    if find_spec("funsor") is None:
        raise ValueError(
            f"the latent site {name!r} is discrete, and these backends need continuous latents. "
            f"{instead}, or install funsor, which does it for you."
        )


def log_density(model, args: tuple, kwargs: dict, nesting: int):
    """The log density of a model with its discrete sites summed out.

    nesting: how deep plates are nested, since the values are enumerated to the left of them.
    """
    from numpyro.contrib import funsor

    enumerated = funsor.enum(funsor.config_enumerate(model), first_available_dim=-nesting - 1)
    return funsor.log_density(enumerated, args, kwargs, {})[0]


def without_data(model):
    """The model without its observed sites, whose density is that of the prior."""
    return handlers.block(
        model, hide_fn=lambda site: site["type"] == "sample" and site["is_observed"]
    )
