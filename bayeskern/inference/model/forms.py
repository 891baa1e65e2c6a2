"""Forms of a model with several equivalent forms: for a method, or of a given size."""

from __future__ import annotations

from bayeskern.inference.model.target import Target
from bayeskern.protocols import ChoosesForm


def for_method(
    target: Target, name: str, samples_latents: bool, uses_priors: bool = True
) -> Target:
    """Target of the form for a method; the target itself if its model has one form.

    The arguments are as in `ChoosesForm.for_method`.
    """
    model = target.model
    if not isinstance(model, ChoosesForm):
        return target
    form = model.for_method(name, samples_latents, uses_priors)
    return target if form is model else Target.from_model(form, target.args, target.kwargs)


def with_size(target: Target, name: str, size: int) -> Target:
    """Target of the form that a method fitted: the form with this number of coordinates."""
    sampled = for_method(target, name, samples_latents=True)
    return sampled if sampled.size == size else for_method(target, name, samples_latents=False)
