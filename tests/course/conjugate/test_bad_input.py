"""Error messages of conjugate families for bad input."""

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from tests.course.conjugate.families import infer

COIN, COUNTS = bk.BetaBernoulli(1, 1), bk.GammaPoisson(1, 1)
WAITS, DIE = bk.GammaExponential(2, 1), bk.DirichletCategorical([1, 1, 1])
NORMAL, UNKNOWN = bk.NormalNormal(0, 1, 1), bk.NormalGamma(0, 1, 1, 1)


@pytest.mark.parametrize(
    ("model", "y", "said"),
    [
        (
            COIN,
            [1, 0, 2],
            r"the first in row 2: 2.0 \(trials 1\). It must be a whole number from 0",
        ),
        (COIN, [0.5], "the first in row 0: 0.5"),
        (COUNTS, [3, -1], "the first in row 1: -1.0"),
        (COUNTS, [1.5], "the first in row 0: 1.5"),
        (WAITS, [1.0, -0.5], "the first in row 1: -0.5"),
        (DIE, [0, 3], "a class that is not known, 3"),
        (DIE, [-1], "a class that is not known, -1"),
        (DIE, [0.5], "a class that is not known, 0.5"),
    ],
)
def test_values_outside_the_support_are_refused(model, y, said):
    with pytest.raises(ValueError, match=said):
        infer(model, y, method="exact")
    with pytest.raises(ValueError, match=said):
        model.update(y)


@pytest.mark.parametrize("model", [COIN, COUNTS, WAITS, NORMAL, UNKNOWN, DIE], ids=repr)
def test_missing_values_are_refused(model):
    with pytest.raises(ValueError, match="y has 1 (value that is NaN|missing)"):
        infer(model, [1.0, np.nan], method="exact")
    with pytest.raises(ValueError, match="y is empty"):
        infer(model, [], method="exact")
    with pytest.raises(ValueError, match=r"y must be one .* got (shape )?\(\)"):
        infer(model, 1.0, method="exact")
    with pytest.raises(ValueError, match="there are no data: give y"):
        infer(model, method="exact")


def test_infinite_values_are_refused():
    with pytest.raises(ValueError, match="y has 1 value that is NaN or infinite"):
        infer(UNKNOWN, [1.0, np.inf], method="exact")


# Positive parameters, and others that are needed.
POSITIVE = [
    (bk.BetaBernoulli, "a b", {}),
    (bk.GammaPoisson, "a b", {}),
    (bk.GammaExponential, "a b", {}),
    (bk.NormalNormal, "variance noise", {"mean": 0}),
    (bk.NormalGamma, "strength a b", {"mean": 0}),
    (bk.BetaBernoulli.of, "strength", {"mean": 0.5}),
    (bk.GammaPoisson.of, "mean strength", {}),
    (bk.GammaExponential.of, "mean strength", {}),
    (bk.NormalNormal.of, "strength noise", {"mean": 0}),
    (bk.NormalGamma.of, "variance strength", {"mean": 0}),
    (bk.DirichletCategorical.of, "strength", {"mean": [0.5, 0.5]}),
]


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf, "one"])
def test_prior_parameters_must_be_positive(bad):
    for make, names, others in POSITIVE:
        for name in names.split():
            arguments = others | dict.fromkeys(names.split(), 1) | {name: bad}
            with pytest.raises(ValueError, match=f"^{name} must be a positive number, got"):
                make(**arguments)


def test_bad_prior_means_are_refused():
    for make in (lambda: bk.NormalNormal(np.nan, 1, 1), lambda: bk.NormalGamma("0 m", 1, 1, 1)):
        with pytest.raises(ValueError, match="^mean must be a finite number, got"):
            make()
    for mean in (0.0, 1.0, 5):
        with pytest.raises(ValueError, match="^mean must be a probability"):
            bk.BetaBernoulli.of(mean, 10)
    with pytest.raises(ValueError, match="^mean must be probabilities that sum"):
        bk.DirichletCategorical.of([0.5, 0.6], 10)


@pytest.mark.parametrize("bad", [[1.0], [1.0, 0.0], [1.0, -2.0]])
def test_bad_concentrations_are_refused(bad):
    with pytest.raises(ValueError, match="^concentration must be positive numbers"):
        bk.DirichletCategorical(bad)


def test_bad_trials_and_exposures_are_refused():
    with pytest.raises(ValueError, match="trials has 3 values for 2 observations"):
        COIN.update([1, 0], trials=[1, 1, 1])
    with pytest.raises(ValueError, match="trials must be whole numbers; row 0"):
        COIN.update([1], trials=1.5)
    with pytest.raises(ValueError, match=r"row 0: 5.0 \(trials 4\)"):
        COIN.update([5], trials=4)
    with pytest.raises(ValueError, match="exposure must be above 0; row 1 has 0.0"):
        COUNTS.update([1, 2], exposure=[1.0, 0.0])
    with pytest.raises(ValueError, match="Exponential takes no exposure"):
        WAITS.update([1.0], exposure=2.0)


def test_bad_prediction_arguments_are_refused():
    posterior = infer(COUNTS, [1, 2], method="exact")
    with pytest.raises(ValueError, match="n must be a whole number"):
        posterior.predict(0)
    with pytest.raises(ValueError, match="exposure has 2 values for 3 observations"):
        posterior.predict(3, exposure=[1.0, 2.0])
    with pytest.raises(ValueError, match="y has 1 values but X has 2 points"):
        posterior.predict(2).log_density([1])


@pytest.mark.slow
def test_file_of_another_model_is_refused(tmp_path):
    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 3.0))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    bk.infer(model, 2.5, method=bk.Laplace(draws=20), progress=False).save(tmp_path / "x.nc")
    with pytest.raises(ValueError, match="model is not the fitted model"):
        bk.load(tmp_path / "x.nc", model=bk.BetaBernoulli(a=2.0, b=2.0))
