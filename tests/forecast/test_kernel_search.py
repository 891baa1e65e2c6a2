"""Kernel search on simulated series."""

import numpy as np
import pytest

import bayeskern as bk
from bayeskern.kernels import RBF, Constant, Linear, Periodic

X = np.linspace(0.0, 10.0, 200)
REPEATING = Periodic(1.3, 1.0, 1.0)
TRUTHS = {
    "smooth": RBF(1.2, 1.0),
    "smooth + repeating": RBF(1.2, 1.0) + REPEATING,
    "smooth x repeating": RBF(3.0, 1.0) * REPEATING,
    "line + repeating": Linear(0.3, 5.0) + REPEATING,
    "repeating x line": REPEATING * (Linear(0.5, 0.0) + Constant(1.0)),
}


FEWER = X[::2]


def drawn(kernel, seed, x=X):
    rng = np.random.default_rng(seed)
    L = np.linalg.cholesky(np.asarray(kernel(x)) + 1e-8 * np.eye(len(x)))
    return L @ rng.standard_normal(len(x)) + 0.15 * rng.standard_normal(len(x))


def form(name):
    """Sorted terms of an expression."""
    return sorted(" x ".join(sorted(term.split(" x "))) for term in name.split(" + "))


@pytest.mark.slow
def test_simulated_kernels_are_recovered():
    hits = {}
    for name, kernel in TRUTHS.items():
        for seed in range(3):
            found = bk.search_kernel(X, drawn(kernel, seed), progress=False)
            hits[name, seed] = form(next(iter(found.probabilities))) == form(name)
    assert np.mean([*hits.values()]) >= 0.8, hits


@pytest.fixture(scope="module")
def growing():
    y = drawn(TRUTHS["repeating x line"], 1, FEWER)
    return bk.search_kernel(FEWER, y, progress=False)


@pytest.mark.slow
def test_growing_season_is_found_with_its_period(growing):
    assert form(next(iter(growing.probabilities))) == form("repeating x line")
    best = growing.fits[0]
    values = best.density.values(best.mode)
    period = next(v for name, v in values.items() if name.endswith("period"))
    assert float(period) == pytest.approx(1.3, rel=0.02)
    assert sum(growing.probabilities.values()) == pytest.approx(1.0)
    assert "repeating x line" in str(growing) and "kernels that were tried" in str(growing)


@pytest.mark.slow
def test_log_evidence_equals_laplace_by_infer(growing):
    """By Laplace's method on the same model, through `infer`."""
    best = growing.fits[0]
    z = (best.y - best.y.mean()) / best.y.std()
    posterior = bk.infer(growing.model, best.x, z, method="laplace", seed=0)
    truth = posterior.log_evidence.value - len(z) * np.log(best.y.std())
    assert best.log_evidence == pytest.approx(truth, abs=0.2)


@pytest.mark.slow
def test_forecast_averages_found_kernels():
    found = bk.search_kernel("airline", progress=False)
    assert any("season" in name for name in found.kernels)
    f = bk.forecast(found.series, 12, model=bk.StructuralModel(kernel=found.kernels))
    assert set(f.weights["trend"]) <= set(found.kernels)
    assert next(iter(f.weights["trend"])) in str(f)
    row = bk.compare({"searched": f, "default": bk.forecast("airline", 12)}).table
    assert row["searched"]["crps"] < 0.7 * row["seasonal naive"]["crps"]


def test_named_kernels_are_weighted_by_evidence():
    """One kernel fits the series, the other does not."""
    y = drawn(TRUTHS["smooth + repeating"], 0)
    kernels = {"right": TRUTHS["smooth + repeating"], "wrong": Linear(1.0, 5.0)}
    f = bk.forecast(
        bk.read_series(y, times=X), 3, model=bk.StructuralModel(kernel=kernels, log=False)
    )
    alone = bk.forecast(
        bk.read_series(y, times=X), 3, model=bk.StructuralModel(kernel=kernels["right"], log=False)
    )
    assert f.weights["trend"] == {"right": 1.0}
    np.testing.assert_allclose(f.mean, alone.mean)


@pytest.mark.slow
def test_change_of_kernel_is_found():
    rng, x = np.random.default_rng(0), np.arange(70.0)
    y = np.where(x < 35.0, np.sin(x / 2.0), 5.0 + 0.05 * x) + 0.2 * rng.standard_normal(70)
    found = bk.search_kernel(x, y, changes=True, progress=False)
    assert "later" in next(iter(found.probabilities))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((np.full(20, 3.0),), "the series is constant"),
        ((np.ones((20, 2)), np.arange(20.0)), "X has 2 columns; the search takes one"),
        ((np.arange(20.0), np.arange(19.0)), "must match"),
        ((np.arange(12.0),), "got 12 values at 12 distinct times; a kernel search needs"),
        ((np.zeros(30), np.arange(30.0)), "got 30 values at 1 distinct times"),
        ((np.arange(501.0), np.arange(501.0)), "X has 501 rows; the search takes at most 500"),
    ],
)
def test_invalid_input_is_refused(arguments, said):
    with pytest.raises(ValueError, match=said):
        bk.search_kernel(*arguments, progress=False)


def test_invalid_named_kernels_are_refused():
    with pytest.raises(TypeError, match="must be kernels"):
        bk.StructuralModel(kernel={"a": 3})
    with pytest.raises(ValueError, match="at least one kernel by name"):
        bk.StructuralModel(kernel={})
