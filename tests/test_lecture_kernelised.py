"""What the notebook on sparse and kernelised methods says, against theory and other libraries."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special, stats
from sklearn.datasets import make_moons
from sklearn.metrics import hinge_loss, log_loss
from sklearn.svm import SVC

import bayeskern as bk
from bayeskern.kernels import RBF, Matern32, NystromFeatures
from bayeskern.ridge import least_squares, losses

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 4, 150))[:, None]
F = np.sin(X[:, 0] ** 2)
Y = F + 0.3 * RNG.normal(size=150)
NEW = np.linspace(0, 4, 400)[:, None]


def slope(a, b):
    return np.polyfit(np.log(a), np.log(b), 1)[0]


# -- few terms -------------------------------------------------------------------------------------


def test_the_leave_one_out_error_of_a_pursuit_is_that_of_refits_on_its_atoms():
    path = bk.KernelMatchingPursuit(RBF(0.3), n_nonzero="loo").fit(X, Y).path_
    for k in (3, 14):
        phi = np.exp(-0.5 * ((X - X[path.atoms[:k]].T) / 0.3) ** 2)
        errors = []
        for i in range(len(X)):
            others = np.arange(len(X)) != i
            b = np.linalg.lstsq(phi[others], Y[others], rcond=None)[0]
            errors.append((Y[i] - phi[i] @ b) ** 2)
        assert_allclose(path.loo_errors[k], np.mean(errors), rtol=1e-6)


def test_among_columns_of_noise_leaving_one_out_takes_many_and_cross_validation_few():
    taken = {"loo": [], "cv": []}
    for seed in range(9):
        rng = np.random.default_rng(seed)
        noise, nothing = rng.normal(size=(60, 300)), rng.normal(size=60)
        for rule, counts in taken.items():
            fit = bk.KernelMatchingPursuit("linear", n_nonzero=rule).fit(noise, nothing)
            counts.append(len(fit.atoms_))
    assert np.median(taken["loo"]) > 30
    assert np.median(taken["cv"]) <= 1


def test_no_landmarks_leave_less_than_the_eigenvalues_beyond_their_number():
    points = RNG.normal(size=(300, 2))
    kernel = RBF(1.0)
    eigenvalues = np.linalg.eigvalsh(np.exp(-0.5 * squared_distances(points)))[::-1]
    for m in (10, 40):
        floor = eigenvalues[m:].sum()
        for how in ("random", "greedy", "kmeans"):
            phi = NystromFeatures(kernel, m, how).fit_transform(points)
            assert floor < 300 - np.sum(phi**2) < 300


def squared_distances(points):
    return np.sum((points[:, None] - points[None]) ** 2, axis=2)


def test_a_few_centres_do_the_work_of_all_points():
    errors = {
        name: np.sqrt(np.mean((model.fit(X, Y).predict(NEW) - np.sin(NEW[:, 0] ** 2)) ** 2))
        for name, model in {
            "all": bk.KernelRidge(RBF(0.3), alpha=0.09),
            "30 centres": bk.NystromRidge(RBF(0.3), 30, "kmeans", alpha=0.09),
        }.items()
    }
    assert errors["30 centres"] < 1.02 * errors["all"]


# -- few steps -------------------------------------------------------------------------------------


@pytest.mark.parametrize("epochs", [3, 45, 949])
def test_early_stopping_keeps_what_ridge_keeps_where_little_is_kept(epochs):
    kernel = Matern32(0.5)
    s = np.sqrt(3.0) * np.abs(X - X.T) / 0.5
    values, U = np.linalg.eigh((1.0 + s) * np.exp(-s))
    lms = bk.KernelLMS(kernel, alpha=0.0, epochs=epochs, tol=None).fit(X, Y)
    penalty = 1.0 / (lms.step_ * epochs)
    ridge = bk.KernelRidge(kernel, alpha=penalty).fit(X, Y)
    kept, kept_by_ridge = ((U.T @ fit.predict(X)) / (U.T @ Y) for fit in (lms, ridge))
    assert_allclose(kept, 1.0 - (1.0 - lms.step_ * values) ** epochs, atol=1e-8)
    assert_allclose(kept_by_ridge, values / (values + penalty), atol=1e-8)
    # 1 - (1 - u / t)^t >= 1 - exp(-u) >= u / (1 + u), and to first order both are u.
    assert np.all(kept >= kept_by_ridge - 1e-8)
    small = values < 0.1 * penalty
    assert small.sum() > 50
    assert np.all(kept[small] <= 1.1 * kept_by_ridge[small] + 1e-8)


def test_stopped_in_time_it_is_as_good_as_ridge_and_driven_on_it_is_worse():
    def error(model):
        return np.mean((model.fit(X, Y).predict(NEW) - np.sin(NEW[:, 0] ** 2)) ** 2)

    epochs = np.geomspace(1, 20_000, 12).astype(int)
    lms = [error(bk.KernelLMS(Matern32(0.5), alpha=0.0, epochs=t, tol=None)) for t in epochs]
    ridge = [error(bk.KernelRidge(Matern32(0.5), alpha=a)) for a in np.geomspace(1e-3, 30, 12)]
    assert min(lms) < 1.2 * min(ridge)
    assert lms[-1] > 2.0 * min(lms) and lms[0] > 2.0 * min(lms)


def test_with_a_penalty_descent_converges_linearly_at_the_rate_of_the_smallest_eigenvalue():
    alpha = 0.5
    lms = bk.KernelLMS(RBF(0.3), alpha=alpha, epochs=1000, tol=None).fit(X, Y)
    smallest = np.linalg.eigvalsh(np.exp(-0.5 * ((X - X.T) / 0.3) ** 2))[0] + alpha
    factors = lms.residual_norms_[1:] / lms.residual_norms_[:-1]
    # The norm of a sum of powers is log-convex, so that its factors rise to the largest.
    rate = 1.0 - lms.step_ * smallest
    assert np.all(np.diff(factors) > 0.0)
    assert rate - 1e-5 < factors[-1] < rate


def test_without_a_penalty_descent_is_sublinear():
    # Eigenvalues j^-4 leave sum_j j^-8 (1 - eta j^-4)^2t, which falls like t^(-7/4).
    kernel, b = Matern32(1.0), np.random.default_rng(3).normal(size=150)
    K = np.asarray(kernel(X))
    eigenvalues = np.linalg.eigvalsh(K)[::-1]
    order = np.arange(5, 60)
    assert slope(order, eigenvalues[order - 1]) == pytest.approx(-4.0, abs=0.3)
    lms = bk.KernelLMS(kernel, alpha=0.0, epochs=20_000, tol=None).fit(X, K @ b)
    t = np.arange(20_001)
    assert slope(t[100:], lms.residual_norms_[100:]) == pytest.approx(-7 / 8, abs=0.05)
    assert np.all(lms.residual_norms_ <= np.linalg.norm(b) / (lms.step_ * (t + 1)))


def test_one_pass_of_stochastic_gradients_falls_at_the_rate_of_least_squares():
    d, rows = 5, np.array([300, 1000, 3000])
    errors = {"sgd": [], "qr": []}
    for n in rows:
        for solver, out in errors.items():
            once = {"epochs": 1, "batch": 1} if solver == "sgd" else {}
            squares = []
            for seed in range(30):
                rng = np.random.default_rng(seed)
                Z = rng.normal(size=(n, d))
                y = Z @ np.ones(d) + rng.normal(size=n)
                squares.append(
                    np.sum((least_squares(Z, y, solver, **once).coefficients - 1.0) ** 2)
                )
            out.append(np.mean(squares))
    # Each mean of 30 chi-squares of 5 degrees of freedom is known to 12 %.
    assert_allclose(np.array(errors["qr"]) * rows / d, 1.0, atol=0.4)
    assert slope(rows, errors["sgd"]) == pytest.approx(-1.0, abs=0.2)
    assert np.all(np.array(errors["sgd"]) * rows / d < 4.0)


# -- classes ---------------------------------------------------------------------------------------


def test_votes_with_pseudo_counts_are_means_of_a_dirichlet():
    line, labels = np.arange(1.0, 7.0)[:, None], list("abbaaa")
    for k, leader in ((1, "a"), (2, "a"), (3, "b"), (4, "b"), (6, "a")):
        vote = bk.KernelKNNClassifier(RBF(), n_neighbors=k).fit(line, labels)
        counts = np.array([labels[:k].count(c) for c in "ab"])
        mean = stats.dirichlet(counts + 1.0).mean()
        assert_allclose(vote.predict_proba([[0.0]])[0], mean, rtol=1e-14)
        assert vote.predict([[0.0]])[0] == leader


@pytest.mark.parametrize(
    ("metric", "order", "nearest"),
    [("manhattan", 1, 0), ("euclidean", 2, 1), ("chebyshev", np.inf, 2)],
)
def test_each_distance_has_a_nearest_point_of_its_own(metric, order, nearest):
    three = np.array([[3.0, 0.0], [2.6, 0.6], [2.0, 2.0]])
    neighbours = bk.KernelKNNClassifier(n_neighbors=3, metric=metric).fit(three, [0, 1, 1])
    distances, places = neighbours.kneighbors([[0.0, 0.0]])
    assert_allclose(distances[0], np.sort(np.linalg.norm(three, order, axis=1)), rtol=1e-14)
    assert places[0, 0] == nearest


def test_the_perceptron_keeps_novikoffs_bound_with_the_widest_margin():
    points, label = make_moons(80, noise=0.12, random_state=0)
    signs = 2 * label - 1
    machine = bk.KernelMachineClassifier(RBF(0.5), loss="hinge", penalty=1e-4).fit(points, label)
    K = np.exp(-0.5 * squared_distances(points) / 0.5**2)
    norm = np.sqrt(machine.dual_coef_ @ K @ machine.dual_coef_)
    margin = np.min(signs * machine.decision_function(points)) / norm
    # Each point with its mirror image has no use for a constant.
    mirrored = SVC(kernel="precomputed", C=1e6, tol=1e-8)
    mirrored.fit(np.block([[K, -K], [-K, K]]), np.concatenate([signs, -signs]))
    b = mirrored.dual_coef_[0]
    both = np.block([[K, -K], [-K, K]])[np.ix_(mirrored.support_, mirrored.support_)]
    assert_allclose(margin, 1.0 / np.sqrt(b @ both @ b), rtol=1e-4)
    for seed in range(20):
        perceptron = bk.KernelPerceptron(RBF(0.5), epochs=100, seed=seed).fit(points, label)
        assert perceptron.converged_
        assert perceptron.mistakes_.sum() <= 1.0 / margin**2


# -- losses ----------------------------------------------------------------------------------------


def test_losses_of_residuals_and_margins_are_those_of_scipy_and_scikit_learn():
    r = np.linspace(-2, 2, 41)
    assert_allclose(losses.Huber(0.5).value(r, np.zeros(41)), special.huber(0.5, r), atol=1e-15)
    signs = np.array([-1.0, 1.0])
    for margin in np.linspace(-2, 3, 11):
        f = signs * margin
        assert_allclose(losses.Hinge().value(signs, f), hinge_loss(signs, f), atol=1e-15)
        p = special.expit(f)
        theirs = log_loss(signs, np.stack([1.0 - p, p], axis=1))
        assert_allclose(losses.Logistic().value(signs, f), theirs, rtol=1e-10)


def wave():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 6, 80))[:, None]
    truth = np.sin(x[:, 0])
    y = truth + 0.1 * rng.normal(size=80)
    spoiled, outliers = y.copy(), rng.choice(80, 10, replace=False)
    spoiled[outliers] += rng.uniform(2, 5, 10)
    return x, truth, y, spoiled


ROBUST = [losses.Absolute(), losses.Huber(0.15), losses.EpsilonInsensitive(0.1)]


def test_the_squared_loss_follows_a_point_by_its_leverage():
    x, _, y, _ = wave()
    K, i = np.exp(-0.5 * ((x - x.T) / 1.5) ** 2), 40
    A = np.linalg.solve(K + 0.1 * np.eye(80), K)
    machine = bk.KernelMachineRegressor(RBF(1.5), "squared", 0.1)
    start = machine.fit(x, y).predict(x)[i]
    moved = machine.fit(x, y + 3.0 * (np.arange(80) == i)).predict(x)[i]
    assert_allclose(moved - start, 3.0 * A[i, i], rtol=1e-8)


@pytest.mark.parametrize("loss", ROBUST, ids=repr)
def test_robust_losses_let_go_of_a_point(loss):
    # Once its slope is the largest, the minimizer does not change any more.
    x, truth, y, spoiled = wave()
    machine = bk.KernelMachineRegressor(RBF(1.5), loss, 0.1)
    two_sds, far = (
        machine.fit(x, y + shift * (np.arange(80) == 40)).predict(x) for shift in (0.2, 1000.0)
    )
    assert_allclose(far, two_sds, atol=1e-4)
    error = np.sqrt(np.mean((machine.fit(x, spoiled).predict(x) - truth) ** 2))
    squared = bk.KernelMachineRegressor(RBF(1.5), "squared", 0.1).fit(x, spoiled)
    assert error < 0.1 * np.sqrt(np.mean((squared.predict(x) - truth) ** 2))
