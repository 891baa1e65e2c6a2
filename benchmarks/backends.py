"""Every backend on one model: the comparison that the README shows.

    uv run python -m benchmarks.backends

Eight schools, non-centred: small, but no Gaussian fits it. Each method is run twice: the seconds in
the table are those of the second fit, when all is compiled; those of the first come after it.
"""

import jax

import bayeskern as bk
from models import eight_schools

METHODS = {
    "map": bk.MAP(jacobian=True),
    "laplace": bk.Laplace(),
    "svi, mean field": bk.SVI("mean_field"),
    "svi, full rank": bk.SVI(),
    "svi, flow": bk.SVI("flow"),
    "pathfinder": bk.Pathfinder(),
    "importance": bk.ImportanceSampling(),
    "smc": bk.SMC(),
    "nuts": bk.NUTS(target_accept=0.9, evidence=True),
}


def main():
    jax.config.update("jax_enable_compilation_cache", False)
    model, data = eight_schools.noncentred, eight_schools.data()
    first, fits = {}, {}
    for name, method in METHODS.items():
        for found in (first, fits):
            found[name] = bk.infer(model, *data, method=method, progress=False)
    print(bk.compare(fits, reference="nuts"))
    seconds = ", ".join(f"{name} {fit.timing['total']:.1f}" for name, fit in first.items())
    print(f"\nseconds of the first fit, compiling: {seconds}")


if __name__ == "__main__":
    main()
