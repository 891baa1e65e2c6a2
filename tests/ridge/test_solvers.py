"""Matrix-free solvers of kernel ridge against those with the Gram matrix."""

import pickle
import warnings

import numpy as np
import pytest
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from bayeskern.core import validation
from bayeskern.kernels import RBF, Cosine, Matern12, Matern32
from bayeskern.linalg import SOLVERS, Solution, Status
from bayeskern.ridge import solvers
from bayeskern.ridge.kernel_ridge import KernelRidge
from tests.marks import slow
from tests.ridge.kernel_ridge_data import NEW, N, X, y

RNG = np.random.default_rng(8)
LONG = 300
TIMES = RNG.uniform(0.0, 9.0, size=(LONG, 1))
SERIES = np.stack([np.sin(TIMES[:, 0]), 4.0 + np.cos(3.0 * TIMES[:, 0])], axis=1)
SERIES = SERIES + 0.2 * RNG.normal(size=SERIES.shape)
LATER = np.linspace(-1.0, 11.0, 25)[:, None]
WEIGHTS = np.where(RNG.random(LONG) < 0.1, 0.0, RNG.uniform(0.2, 3.0, LONG))
MATERN = Matern32(0.8, 1.5)
weighted = pytest.mark.parametrize("weights", [slow(None), WEIGHTS], ids=["", "weights"])
with_constant = pytest.mark.parametrize("constant", [False, True], ids=["", "constant"])


def pair(solver, dense="cholesky", weights=None, kernel=MATERN, alpha=0.1, **options):
    """Kernel ridge of the series by a solver, and by the matrix."""
    with warnings.catch_warnings():
        # Some paths of alphas are too short on purpose.
        warnings.simplefilter("ignore", UserWarning)
        return [
            KernelRidge(kernel, alpha, solver=name, **options).fit(TIMES, SERIES, weights)
            for name in (solver, dense)
        ]


# -- factors without the matrix --------------------------------------------------------------------


@weighted
@with_constant
def test_markov_solver_agrees_with_the_matrix(constant, weights):
    ours, theirs = pair("markov", weights=weights, fit_intercept=constant)
    assert (ours.solver_, theirs.solver_) == ("markov", "cholesky")
    assert ours.n_iter_ is None and ours.residual_ is None
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-9)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-9)
    np.testing.assert_allclose(ours.loo_predict(), theirs.loo_predict(), atol=1e-9)
    np.testing.assert_allclose(ours.effective_dof_, theirs.effective_dof_, rtol=1e-9)
    for found, expected in zip(
        ours.predict(LATER, return_std=True), theirs.predict(LATER, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("weights", [slow(None), WEIGHTS], ids=["", "weights"])
@with_constant
def test_markov_path_agrees_with_the_matrix(constant, weights):
    alphas = [0.003, 0.1, 2.0]
    ours, theirs = pair(
        "markov", "eigen", weights, alpha="loo", alphas=alphas, fit_intercept=constant
    )
    assert ours.alpha_ == theirs.alpha_
    for name in ("alphas_", "loo_path_", "gcv_path_", "evidence_path_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8)
    np.testing.assert_allclose(ours.predict(LATER), theirs.predict(LATER), atol=1e-8)


@pytest.mark.slow
@with_constant
def test_markov_default_alphas_agree_with_the_matrix(constant):
    kernel = Matern12(0.7) * Cosine(1.3) + 2.0
    ours, theirs = pair("markov", "eigen", WEIGHTS, kernel, "evidence", fit_intercept=constant)
    np.testing.assert_allclose(ours.alphas_, theirs.alphas_, rtol=1e-9)
    assert ours.alpha_ == pytest.approx(theirs.alpha_)


def test_auto_takes_the_fastest_exact_solver():
    assert KernelRidge(MATERN, 0.1).fit(TIMES, SERIES).solver_ == "markov"
    assert KernelRidge(RBF(), 0.1).fit(TIMES, SERIES).solver_ == "cholesky"
    assert KernelRidge(MATERN, [0.1, 0.2]).fit(TIMES, SERIES).solver_ == "eigen"
    assert KernelRidge(MATERN, 0.1).fit(TIMES[:50], SERIES[:50]).solver_ == "cholesky"
    # Without noise there need not be a factor, and the matrix does without.
    assert KernelRidge(MATERN, 0.0).fit(TIMES, SERIES).solver_ in ("cholesky", "eigen")
    assert KernelRidge(MATERN, 0.1, solver="dense").fit(TIMES, SERIES).solver_ == "cholesky"


def test_singular_systems_fall_back_to_the_matrix(monkeypatch):
    twice, values = np.concatenate([TIMES, TIMES[:1]]), np.append(SERIES[:, 0], 1.0)
    with pytest.raises(np.linalg.LinAlgError, match=r"K \+ 1e-20 I is singular to rounding"):
        KernelRidge(MATERN, 1e-20, solver="markov").fit(twice, values)
    with pytest.warns(LinAlgWarning, match="the shortest of many solutions"):
        ours = KernelRidge(MATERN, 1e-20).fit(twice, values)
    assert ours.solver_ == "eigen"
    monkeypatch.setattr(validation, "machine_memory", lambda: 1e6)
    with pytest.raises(np.linalg.LinAlgError, match="singular to rounding"):
        KernelRidge(MATERN, 1e-20).fit(twice, values)


def test_markov_fit_is_cloned_and_pickled():
    ours = KernelRidge(MATERN, 0.1, fit_intercept=True, solver="markov").fit(TIMES, SERIES)
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.predict(LATER), ours.predict(LATER))
    np.testing.assert_array_equal(again.loo_predict(), ours.loo_predict())
    assert repr(clone(ours)) == repr(ours)


# -- conjugate gradients ---------------------------------------------------------------------------


@weighted
@with_constant
def test_iterative_solver_agrees_with_the_matrix(constant, weights):
    ours, theirs = pair("iterative", weights=weights, fit_intercept=constant, tol=1e-12)
    assert ours.solver_ == "iterative" and ours.n_iter_ > 0 and ours.residual_ <= 1e-12
    np.testing.assert_allclose(ours.dual_coef_, theirs.dual_coef_, atol=1e-8)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-8)
    np.testing.assert_allclose(ours.predict(LATER), theirs.predict(LATER), atol=1e-8)


def test_residual_bounds_the_error_of_fitted_values():
    exact = KernelRidge(RBF(0.3), 1e-3, solver="cholesky").fit(TIMES, SERIES[:, 0])
    ours = KernelRidge(RBF(0.3), 1e-3, solver="iterative", tol=1e-3).fit(TIMES, SERIES[:, 0])
    off = np.linalg.norm(ours.predict(TIMES) - exact.predict(TIMES))
    assert ours.residual_ <= 1e-3
    assert off <= ours.residual_ * np.linalg.norm(SERIES[:, 0])


def test_iterative_solver_where_memory_is_short(monkeypatch):
    monkeypatch.setattr(validation, "machine_memory", lambda: 1e6)
    line = KernelRidge(MATERN, "loo", alphas=[0.001, 0.03, 1.0]).fit(TIMES, SERIES)
    assert line.solver_ == "markov"
    ours = KernelRidge(RBF(), 0.1).fit(TIMES, SERIES)
    assert ours.solver_ == "iterative"
    with pytest.raises(ValueError, match=r"alpha='loo' needs a factor"):
        KernelRidge(RBF(), "loo").fit(TIMES, SERIES)
    again = ours.set_params(solver="dense").fit(TIMES, SERIES)
    assert again.solver_ == "cholesky" and again.n_iter_ is None and again.loo_predict().all()


def test_iterative_fit_refuses_what_needs_a_factor():
    ours = KernelRidge(RBF(), 0.1, solver="iterative").fit(X, y)
    with pytest.raises(AttributeError, match=r"loo_predict needs a factor"):
        ours.loo_predict()
    with pytest.raises(AttributeError, match="return_std needs a factor"):
        ours.predict(NEW, return_std=True)
    assert not hasattr(ours, "effective_dof_")


def test_unconverged_iteration_warns(monkeypatch):
    with pytest.warns(ConvergenceWarning, match=r"did not reach tol=1e-13: rounding"):
        ours = KernelRidge(RBF(50.0), 1e-9, solver="iterative", tol=1e-13).fit(TIMES, SERIES)
    assert 1e-13 < ours.residual_ < 1.0
    for status in (Status.INDEFINITE, Status.NOT_FINITE):
        ended = Solution(np.zeros((N, 1)), status, np.inf, 3)
        monkeypatch.setattr(solvers, "conjugate_gradients", lambda *a, ended=ended, **k: ended)
        with pytest.raises(np.linalg.LinAlgError, match=f"{status}.* after 3 steps"):
            KernelRidge(RBF(), 0.1, solver="iterative").fit(X, y)


def test_approximate_solvers_are_refused(monkeypatch):
    monkeypatch.setattr(type(SOLVERS["markov"]), "approximate", True)
    with pytest.raises(ValueError, match="approximates the Gram matrix"):
        KernelRidge(MATERN, solver="markov").fit(TIMES, SERIES)
