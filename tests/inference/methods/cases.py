"""A case of every method, with options fast enough for the whole gallery.

The tables of methods in the tests and in `benchmarks.zoo` are made from it.
"""

import bayeskern as bk
from bayeskern.inference import METHODS, Method

CASES: dict[str, Method] = {
    "auto": bk.Auto(),
    "exact": bk.Exact(),
    "map": bk.MAP(),
    "mle": bk.MLE(),
    "laplace": bk.Laplace(),
    "svi": bk.SVI(),
    "importance": bk.ImportanceSampling(),
    "pathfinder": bk.Pathfinder(),
    "smc": bk.SMC(particles=2000),
    "nuts": bk.NUTS(chains=2, warmup=300, draws=500),
}
# Methods that fit any model with priors by themselves, and those of them that return draws.
FITTING = [name for name in METHODS if name not in ("auto", "exact")]
DRAWING = [name for name in FITTING if not METHODS[name].is_point]
