"""All posteriors of the zoo."""

from tests.inference.zoo import (
    bounded,
    exchangeable,
    hierarchical,
    ill_conditioned,
    improper,
    mixtures,
    multimodal,
    shapes,
    tails,
    unimodal,
)

POSTERIORS = [
    *unimodal.POSTERIORS,
    *hierarchical.POSTERIORS,
    *shapes.POSTERIORS,
    *bounded.POSTERIORS,
    *tails.POSTERIORS,
    *exchangeable.POSTERIORS,
    *multimodal.POSTERIORS,
    *mixtures.HARD_POSTERIORS,
    *mixtures.RANDOM_POSTERIORS,
    *ill_conditioned.POSTERIORS,
    *improper.POSTERIORS,
]
FAMILIES = tuple(dict.fromkeys(posterior.family for posterior in POSTERIORS))
BY_NAME = {posterior.name: posterior for posterior in POSTERIORS}
