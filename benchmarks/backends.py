"""Every backend on one model: the comparison that the README shows.

    uv run python -m benchmarks.backends

Eight schools, non-centred: small, but no Gaussian fits it. Each method is run twice, so that the
seconds are those of a compiled model.
"""

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
    "nuts": bk.NUTS(target_accept=0.9, evidence=True),
}


def main():
    model, data = eight_schools.noncentred, eight_schools.data()
    fits = {}
    for name, method in METHODS.items():
        for _ in range(2):
            fits[name] = bk.infer(model, *data, method=method, progress=False)
    print(bk.compare(fits, reference="nuts"))


if __name__ == "__main__":
    main()
