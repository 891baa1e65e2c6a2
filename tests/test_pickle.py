"""Results are data: they pickle and copy, before and after use, and give the same numbers."""

import copy
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import bayeskern as bk
from bayeskern.inference import load as load_posterior
from bayeskern.kernels import RBF, Linear, Matern32
from bayeskern.likelihoods import Poisson
from tests.inference.methods.cases import CASES, FITTING
from tests.marks import few

rng = np.random.default_rng(0)
X = np.linspace(0.0, 4.0, 12)
Y = np.sin(X) + 0.1 * rng.normal(size=12)
COUNTS = rng.poisson(3.0, 12)
NEW = np.array([0.5, 4.5])
MONTHS = pd.date_range("2015-01-01", periods=60, freq="MS")
SERIES = pd.Series(5.0 + np.sin(np.arange(60) * np.pi / 6.0) + 0.1 * rng.normal(size=60), MONTHS)
GAPS = SERIES.where(np.arange(60) != 30)
PRICE = pd.Series(rng.normal(size=72), pd.date_range("2015-01-01", periods=72, freq="MS"))
DAYS = pd.Series(rng.normal(10.0, 1.0, 1400), pd.date_range("2017-01-01", periods=1400))


def line(x, y=None):
    level = numpyro.sample("level", dist.Normal(0.0, 1.0))
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(level + slope * x, noise), obs=y)


PROCESS = bk.GPRegression(
    RBF(lengthscale=dist.LogNormal(0.0, 0.5)).named("smooth") + Linear().named("line"),
    noise=bk.from_sd(dist.HalfNormal(0.3)),
)
REGRESSION = bk.BayesianLinearRegression(prior=bk.priors.Gaussian(1.0), noise_variance=0.1)
RELEVANCE = bk.BayesianLinearRegression(prior=bk.priors.ARD())
LASSO = bk.BayesianLinearRegression(prior=bk.priors.Laplace(scale=0.1), noise_variance=0.1)
LATENT = bk.LatentGP(RBF(), Poisson())
COUNTED = bk.BayesianGLM(Poisson())
CONJUGATE = bk.BayesianLinearRegression(
    prior=bk.priors.Conjugate(), noise_variance=dist.InverseGamma(2.0, 1.0)
)


def fit(method, model=line, x=X, y=Y):
    return bk.infer(model, x, y, method=method, seed=0, progress=False)


def loaded(model=None):
    """Posterior from a file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "posterior.nc"
        fit("laplace").save(path)
        return load_posterior(path, model)


def of_prediction(prediction):
    """Numbers of a prediction."""
    whole = [prediction.mean, prediction.sd, prediction.quantile(0.9), prediction.sample(3)]
    parts = [prediction.component(name) for name in getattr(prediction, "components", ())]
    return whole + [x for part in parts for x in (part.mean, part.sd, part.sample(2))]


def of_posterior(posterior, new=NEW):
    """Numbers of a posterior, its verdict and its prediction."""
    evidence = sorted(posterior.trust.evidence.items(), key=str)
    optimum = [] if posterior.optimum is None else [posterior.optimum.hessian]
    return [
        posterior.trust.verdict,
        np.array(evidence, dtype=str),
        posterior.summary().to_numpy(str),
        *posterior.draws.values(),
        *optimum,
        *of_prediction(posterior.predict(new, seed=3)),
    ]


def of_draws(posterior):
    """Numbers of a posterior whose predictions are draws."""
    predictions = posterior.predict(NEW[:, None], seed=3)
    return [posterior.trust.verdict, *posterior.draws.values(), predictions.sample(20)]


def of_forecast(f):
    return [f.trust.verdict, f.mean, f.quantile([0.1, 0.9]), f.sample(3, seed=1), repr(f)]


def of_forecasts(forecasts):
    return [x for name in forecasts for x in of_forecast(forecasts[name])]


def of_frame(result):
    return [result.to_frame().to_numpy(str)]


def of_process(gp):
    return [*of_prediction(gp.predict(NEW)), gp.covariance(NEW), *gp.loo()]


def of_estimator(estimator):
    return [estimator.predict(NEW[:, None])]


def process(kernel, solver="dense"):
    return bk.GaussianProcess(kernel, X, 0.1, solver=solver).condition(Y)


def forecast(series=SERIES, horizon=3, **options):
    return bk.forecast(series, horizon, **options)


def scenarios():
    plan = forecast(SERIES, 12, regressors=PRICE.to_frame("price"))
    return bk.compare_scenarios({"plan": plan, "other": plan.scenario(price=0.9 * PRICE)})


def unsure_scenario():
    """Forecast with an uncertain regressor: a mixture over draws of it."""
    plan = forecast(SERIES, 12, regressors=PRICE.to_frame("price"))
    return plan.scenario(price=forecast(PRICE[:60], 12))


def mixed():
    totals = DAYS.resample("MS").sum()
    return bk.forecast_mixed(totals[:-3], DAYS["2020-06":"2020-09-10"], 2)


def many():
    frame = pd.DataFrame({"a": SERIES, "b": SERIES**2}).rename_axis("month").reset_index()
    return bk.forecast_many(frame, 3, time="month", progress=False)


def reconciled():
    series = {"a": SERIES, "b": SERIES**2}
    groups = pd.DataFrame({"region": ["North", "South"], "store": ["a", "b"]})
    return bk.reconcile({name: forecast(values) for name, values in series.items()}, groups)


POINTS = X[:, None]
column = partial(of_posterior, new=NEW[:, None])
# Each kind of result: how it is made, and the numbers that are read from it.
RESULTS = {
    **{name: (partial(fit, CASES[name]), of_posterior) for name in ("auto", *FITTING)},
    "loaded posterior": (loaded, lambda p: [p.trust.verdict, p.elbo, *p.draws.values()]),
    "loaded posterior with its model": (partial(loaded, line), of_posterior),
    "expectation": (
        lambda: fit("laplace").expectation(lambda draw: draw["slope"] > 0.0),
        lambda e: [e.value, e.error, repr(e)],
    ),
    "prior predictive": (
        lambda: bk.prior_predictive(line, X, Y, draws=20),
        lambda tree: [x.to_numpy() for x in tree["prior"].data_vars.values()],
    ),
    "verdict": (lambda: fit("laplace").trust, lambda trust: [repr(trust), str(trust.evidence)]),
    "exact process": (lambda: fit("exact", bk.GPRegression(RBF(), 0.1)), of_posterior),
    "exact regression": (lambda: fit("exact", REGRESSION, POINTS), column),
    "conjugate regression": (lambda: fit("exact", CONJUGATE, POINTS), column),
    "lasso": (lambda: fit("map", LASSO, POINTS), column),
    "relevance of features": (lambda: fit("laplace", RELEVANCE, POINTS), column),
    "Poisson regression": (lambda: fit("laplace", COUNTED, POINTS, COUNTS), of_draws),
    "latent process": (
        lambda: fit("laplace", LATENT, y=COUNTS),
        of_posterior,
    ),
    "laplace of a process": (lambda: fit("laplace", PROCESS), of_posterior),
    "conditioned process": (lambda: process(RBF() + Linear()), of_process),
    "conditioned by a filter": (lambda: process(Matern32(), "markov"), of_process),
    "conditioned on neighbors": (lambda: process(Matern32(), "neighbors"), of_process),
    "prediction": (lambda: process(RBF().named("a") + Linear()).predict(NEW), of_prediction),
    "prediction of a mixture": (lambda: fit("laplace", PROCESS).predict(NEW), of_prediction),
    "prediction of counts": (
        lambda: fit("laplace", LATENT, y=COUNTS).predict(NEW, latent=True),
        of_prediction,
    ),
    "forecast": (lambda: forecast(), of_forecast),
    "forecast of counts": (lambda: forecast(COUNTS.repeat(4), season=0), of_forecast),
    "forecast of a constant": (lambda: forecast(np.full(20, 3.0), season=0), of_forecast),
    "forecast with a regressor's forecast": (unsure_scenario, of_forecast),
    "mixed frequencies": (mixed, of_forecast),
    "nowcast": (lambda: mixed().nowcast, lambda n: [repr(n), n.mean, n.sample(2)]),
    "learned priors": (
        lambda: bk.learn_priors(
            [SERIES[:24] ** power for power in range(1, 11)], workers=1, progress=False
        ),
        lambda priors: [repr(priors)],
    ),
    "scenarios": (scenarios, of_frame),
    "many forecasts": (many, of_forecasts),
    "reconciled": (reconciled, of_frame),
    "temporally reconciled": (
        lambda: bk.reconcile_temporal(forecast(horizon=12), ["quarter", "year"]),
        of_frame,
    ),
    "backtest": (lambda: bk.backtest(SERIES, 3, 2, progress=False), of_frame),
    "anomalies": (lambda: bk.anomalies(SERIES), of_frame),
    "filled gaps": (lambda: bk.fill_gaps(GAPS), lambda f: [*of_frame(f), f.sample(2)]),
    "kernel search": (
        lambda: bk.search_kernel(SERIES[:30], progress=False),
        lambda s: [str(s.probabilities), repr(s), repr(s.model)],
    ),
    "comparison": (
        lambda: bk.compare({"a": fit("laplace"), "b": fit("map")}),
        lambda c: [repr(c), str(c.table)],
    ),
    "comparison of forecasts": (
        lambda: bk.compare({"a": forecast(), "b": forecast(season=0)}),
        lambda c: [repr(c)],
    ),
    "calibration": (
        lambda: bk.calibrate(line, X, Y, method="laplace", simulations=10, progress=False),
        lambda c: [repr(c)],
    ),
    "draws of another library": (
        lambda: bk.assess(line, X, Y, draws=fit("laplace").draws, progress=False),
        of_posterior,
    ),
    "conjugate model": (
        lambda: bk.infer(bk.GammaPoisson(1.0, 1.0), COUNTS, method="exact", seed=0),
        lambda p: [p.summary().to_numpy(str), *p.draws.values()],
    ),
    "leave-one-out": (lambda: bk.loo(fit("laplace")), lambda c: [repr(c)]),
    "kernel ridge": (lambda: bk.KernelRidge(RBF(), alpha="loo").fit(POINTS, Y), of_estimator),
    "support vectors": (lambda: bk.KernelSVR().fit(POINTS, Y), of_estimator),
}
FAST = ("forecast", "laplace", "kernel ridge")


def assert_same(numbers, expected):
    for number, wanted in zip(numbers, expected, strict=True):
        assert_array_equal(number, wanted)


@pytest.mark.parametrize("kind", few(RESULTS, *FAST))
def test_copies_give_the_same_numbers(kind):
    make, numbers_of = RESULTS[kind]
    result = make()
    unused = pickle.dumps(result)
    expected = numbers_of(result)
    assert_same(numbers_of(pickle.loads(unused)), expected)
    assert_same(numbers_of(pickle.loads(pickle.dumps(result))), expected)
    assert_same(numbers_of(copy.deepcopy(result)), expected)


@pytest.mark.slow
def test_a_forecast_and_a_posterior_travel_to_another_process(tmp_path):
    results = {"forecast": forecast(), "posterior": fit("laplace")}
    (tmp_path / "results.pickle").write_bytes(pickle.dumps(results))
    program = (
        "import pickle, sys; results = pickle.load(open(sys.argv[1], 'rb'));"
        "print(results['forecast'].quantile([0.1, 0.9]).tolist());"
        "print(results['posterior'].trust.verdict, results['posterior'].predict(0.5).mean.tolist())"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "results.pickle")]
    root = Path(__file__).parents[1]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    quantiles, judged = run.stdout.splitlines()
    posterior = results["posterior"]
    assert quantiles == str(results["forecast"].quantile([0.1, 0.9]).tolist())
    assert judged == f"{posterior.trust.verdict} {posterior.predict(0.5).mean.tolist()}"


@pytest.mark.slow
def test_a_local_model_does_not_travel():
    """The error of the standard library names the function, and the file is the way."""

    def local(x, y=None):
        line(x, y)

    with pytest.raises(AttributeError, match=r"test_a_local_model_does_not_travel.*local"):
        pickle.dumps(fit("map", local))
