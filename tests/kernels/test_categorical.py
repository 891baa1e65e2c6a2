"""Kernels of categories and of given matrices, from data frames to predictions."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest
from scipy.spatial.distance import cdist
from sklearn.kernel_ridge import KernelRidge as TheirKernelRidge

import bayeskern as bk
from bayeskern.core import validation
from bayeskern.core.frames import TextColumn
from bayeskern.kernels import RBF, Categorical, Constant, Coregion, Matern12, Precomputed, White
from tests.kernels.compare import close

RNG = np.random.default_rng(6)
CITIES = np.array(["Rome", "Bonn", "Oslo", "Bonn", "Rome", "Oslo", "Oslo", "Bonn"])
AGE = RNG.normal(size=8)
Y = np.array([1.0, -1.0, 3.0, -0.8, 1.3, 2.9, 3.3, -1.2]) + 0.3 * AGE
#: numbers of the levels Bonn, Oslo, Rome
CODES = np.array([2.0, 0.0, 1.0, 0.0, 2.0, 1.0, 1.0, 0.0])
NEW = {"age": [0.3, -0.2], "city": ["Oslo", "Rome"]}
KERNEL = RBF(1.2).on(["age"]) * Categorical(0.3, 2.0).on(["city"])
FRAMES = {
    "pandas": lambda data: pd.DataFrame(data, index=range(5, 5 + len(data["age"]))),
    "pandas categories": lambda data: pd.DataFrame(data).astype({"city": "category"}),
    "polars": pl.DataFrame,
    "polars categories": lambda data: pl.DataFrame(data).cast({"city": pl.Categorical}),
    "polars enum": lambda data: pl.DataFrame(data).cast(
        {"city": pl.Enum(["Bonn", "Oslo", "Rome"])}
    ),
}
frames = pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)


def gram(a, s, b, t):
    return (
        2.0
        * np.exp(-0.5 * np.subtract.outer(a, b) ** 2 / 1.2**2)
        * np.where(np.equal.outer(s, t), 1.0, 0.3)
    )


K = gram(AGE, CITIES, AGE, CITIES)
CROSS = gram(np.array(NEW["age"]), np.array(NEW["city"]), AGE, CITIES)


def test_hamming_distance():
    X, Z = RNG.integers(0, 3, (9, 4)), RNG.integers(0, 3, (5, 4))
    close(Categorical(np.exp(-1 / 0.7), 1.3)(X, Z), 1.3 * np.exp(-4 * cdist(X, Z, "hamming") / 0.7))
    rho = np.array([0.1, 0.4, 0.0, 1.0])
    expected = np.prod(np.where(X[:, None] == X[None], 1.0, rho), axis=-1)
    close(Categorical(rho)(X), expected)
    slope = jax.jacfwd(lambda r: Categorical(0.5).at({"correlation": r})(X, Z))(0.4)
    h = 4 * cdist(X, Z, "hamming")
    close(slope, h * 0.4 ** np.maximum(h - 1, 0))
    with pytest.raises(ValueError, match=r"Categorical.correlation must be .*got 1.5"):
        Categorical(1.5)


@frames
def test_process_reads_text(frame):
    process = bk.GaussianProcess(KERNEL, frame({"age": AGE, "city": CITIES}), 0.1)
    close(process.covariance_matrix, K + 0.1 * np.eye(8))
    posterior = process.condition(Y)
    # Two rows have two of the three levels: their codes are those of the fit.
    prediction = posterior.predict(frame(NEW), latent=True)
    close(prediction.mean, CROSS @ np.linalg.solve(K + 0.1 * np.eye(8), Y), rtol=1e-9)
    reverse = pl.DataFrame({"city": NEW["city"], "age": NEW["age"]})
    close(posterior.predict(reverse, latent=True).mean, prediction.mean)
    message = "'city' of X_new has the level 'Kiel' in row 1, but the known levels are "
    with pytest.raises(ValueError, match=message + "'Bonn', 'Oslo', 'Rome'"):
        posterior.predict(pd.DataFrame({"age": [0.0, 0.0], "city": ["Bonn", "Kiel"]}))


@frames
def test_kernel_ridge_reads_text(frame):
    ridge = bk.KernelRidge(KERNEL, alpha=0.1).fit(frame({"age": AGE, "city": CITIES}), Y)
    theirs = TheirKernelRidge(alpha=0.1, kernel="precomputed").fit(K, Y)
    close(ridge.predict(frame(NEW)), theirs.predict(CROSS), rtol=1e-9)
    with pytest.raises(ValueError, match="has the level 'Kiel' in row 0"):
        ridge.predict(pd.DataFrame({"age": [0.0], "city": ["Kiel"]}))
    # Another fit forgets the levels.
    again = ridge.set_params(kernel=RBF()).fit(AGE[:, None], Y)
    assert again.predict([[0.0]]).shape == (1,)


def test_kernel_calls_on_frames():
    frame = pd.DataFrame({"age": AGE, "city": CITIES})
    close(KERNEL(frame), K)
    close(KERNEL(frame, pd.DataFrame(NEW)), CROSS.T)
    close(KERNEL.diag(frame), np.full(8, 2.0))


@pytest.mark.slow
def test_inference_saves_and_loads_levels(tmp_path):
    frame = pd.DataFrame({"age": AGE, "city": CITIES})
    prior = RBF(1.2).on(["age"]) * Categorical(dist.Beta(1.0, 1.0), 2.0).on(["city"])
    model = bk.GPRegression(prior, noise=0.1)
    posterior = bk.infer(model, frame, Y, method="map", seed=0)
    rho = float(posterior.draws["categorical.correlation"].ravel()[0])
    # The mode of the density of rho, on a grid.
    grid = np.linspace(0.001, 0.999, 999)
    same = K / np.where(np.equal.outer(CITIES, CITIES), 1.0, 0.3)
    log_densities = []
    for r in grid:
        C = same * np.where(np.equal.outer(CITIES, CITIES), 1.0, r) + 0.1 * np.eye(8)
        log_densities.append(-0.5 * (Y @ np.linalg.solve(C, Y) + np.linalg.slogdet(C)[1]))
    assert rho == pytest.approx(grid[np.argmax(log_densities)], abs=2e-3)
    posterior.save(tmp_path / "posterior.nc")
    loaded = bk.load(tmp_path / "posterior.nc", model=model)
    new = pd.DataFrame(NEW).astype({"city": "category"})
    close(loaded.predict(new).mean, posterior.predict(new).mean)
    with pytest.raises(ValueError, match="has the level 'Kiel'"):
        loaded.predict(pd.DataFrame({"age": [0.0], "city": ["Kiel"]}))


def test_coregion_reads_text():
    frame = pd.DataFrame({"age": AGE, "city": CITIES})
    coregion = Coregion(3, weights=[[1.0], [-0.5], [2.0]], kappa=[0.1, 0.2, 0.3])
    close(
        (RBF(1.2).on(["age"]) * coregion.on(["city"]))(frame),
        (RBF(1.2).on([0]) * coregion.on([1]))(np.stack([AGE, CODES], axis=1)),
    )
    with pytest.raises(ValueError, match="output 2.0, but this Coregion accepts 0 to 1"):
        Coregion(2).on(["city"])(frame)


def test_categories_keep_levels_without_rows():
    cities = pd.Categorical(["Rome", "Bonn"], categories=["Rome", "Kiel", "Bonn"])
    X, (column,) = validation.inputs(pd.DataFrame({"city": cities}), text=True)
    np.testing.assert_array_equal(X[:, 0], [0.0, 2.0])
    assert column.levels == ("Rome", "Kiel", "Bonn")
    numbers = pd.DataFrame({"size": pd.Categorical([30, 10, 30])})
    np.testing.assert_array_equal(validation.inputs(numbers, text=True)[0][:, 0], [1.0, 0.0, 1.0])


def test_names_of_text_columns():
    column = TextColumn.of("city", ["a", "b"])
    for copied in (pickle.loads(pickle.dumps(column)), copy.deepcopy(column)):
        assert copied == column and copied.levels == ("a", "b")
    assert column == "city" and column == "city" and column in ["city"]
    # A compiled function must not be reused for other levels.
    assert column != TextColumn.of("city", ["b", "a"])


def test_text_is_never_read_as_numbers():
    frame = pd.DataFrame({"age": AGE, "city": CITIES})
    for kernel in (RBF(), RBF() + Matern12().on(["city"]), RBF().warp(jnp.sum)):
        with pytest.raises(ValueError, match="reads numbers, but the column 'city' is text"):
            bk.GaussianProcess(kernel, frame, 0.1)
        with pytest.raises(ValueError, match="reads numbers, but the column 'city' is text"):
            bk.KernelRidge(kernel).fit(frame, Y)
    assert bk.GaussianProcess(KERNEL + White() + Constant(), frame, 0.1)
    with pytest.raises(ValueError, match="column 'city' of X is .*String.*, not numeric"):
        bk.BayesianLinearRegression().prepare(frame, Y)
    with pytest.raises(ValueError, match="has no value in row 1"):
        KERNEL(pd.DataFrame({"age": [0.0, 1.0], "city": ["a", None]}))


# -- Precomputed -----------------------------------------------------------------------------------


def test_precomputed_matrix():
    points = [np.array(NEW[name]) for name in ("age", "city")]
    whole = np.block([[K, CROSS.T], [CROSS, gram(*points, *points)]])
    kernel = Precomputed(whole)
    train, new = np.arange(8), [8, 9]
    close(kernel(train), K)
    close(kernel(new, train), CROSS)
    close(kernel.diag([3, 9]), [2.0, 2.0])
    weights = np.linalg.solve(K + 0.1 * np.eye(8), Y)
    prediction = bk.GaussianProcess(kernel, train, 0.1).condition(Y).predict(new, latent=True)
    close(prediction.mean, CROSS @ weights, rtol=1e-9)
    variance = 2.0 - np.sum(CROSS.T * np.linalg.solve(K + 0.1 * np.eye(8), CROSS.T), axis=0)
    close(prediction.variance, variance, rtol=1e-9)
    ridge = bk.KernelRidge(kernel, alpha=0.1).fit(train[:, None], Y)
    theirs = TheirKernelRidge(alpha=0.1, kernel="precomputed").fit(K, Y)
    close(ridge.predict(np.array(new)[:, None]), theirs.predict(CROSS), rtol=1e-9)
    assert repr(2.0 * kernel) == "2.0 * Precomputed(10 x 10 matrix)"


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (1.0, r"shape \(N, N\), got shape \(\)"),
        (np.ones((2, 3)), r"got shape \(2, 3\)"),
        (dist.Normal(0.0, 1.0), "got a prior"),
        ([[1.0, 0.5], [0.4, 1.0]], "symmetric, but differs from its transpose by 0.1"),
        ([[1.0, 2.0], [2.0, 1.0]], "positive semi-definite.*smallest eigenvalue is -1"),
        ([[1.0, np.nan], [np.nan, 1.0]], "finite"),
    ],
)
def test_bad_matrices_are_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        Precomputed(matrix)


def test_unknown_rows_are_refused():
    kernel = Precomputed(np.eye(3))
    for row in (3.0, -1.0, 0.5):
        with pytest.raises(ValueError, match=f"row 1 has the row number of the matrix {row}"):
            kernel([0.0, row])
        assert np.isnan(jax.jit(lambda X: kernel(X))(np.array([0.0, row]))[0, 1])
    Precomputed(np.ones((4, 4)))  # of rank one
