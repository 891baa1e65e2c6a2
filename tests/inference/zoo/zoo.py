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
from tests.inference.zoo.posterior import ZooPosterior

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


def seeds(posterior: ZooPosterior, count: int) -> range:
    """Seeds to fit a posterior with. Random mixtures are many already, and get one each."""
    return range(1 if posterior.family == "random mixtures" else count)
