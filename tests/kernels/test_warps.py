"""Warps with weights: their hyperparameters, derivatives and fits."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from scipy import optimize, stats
from sklearn.preprocessing import FunctionTransformer

import bayeskern as bk
from bayeskern.kernels import RBF, Free, Linear, kernel_from_features

LEAVES = [f"warp.layers.{i}.{leaf}" for i in (0, 1) for leaf in ("weight", "bias")]
SHAPES = [(3, 2), (3,), (2, 3), (2,)]
X = np.random.default_rng(0).normal(size=(12, 2))
Y = np.sin(X[:, 0]) + X[:, 1]


def mlp(inputs=2, outputs=2, width=3):
    return eqx.nn.MLP(inputs, outputs, width, 1, activation=jnp.tanh, key=jax.random.key(0))


class Stretch(eqx.Module):
    """x times a number, so that RBF() is RBF(1 / factor)."""

    factor: jax.Array
    offset: float = 0.0

    def __call__(self, x):
        return self.factor * x + self.offset


# -- features that are trained ------------------------------------------------------------------


@pytest.mark.slow
def test_trained_features_match_the_linear_model_in_them():
    features = kernel_from_features(mlp(), weights=Free)
    model = bk.GPRegression(features, noise=0.1)
    process = bk.infer(model, X, Y, method="mle", progress=False)
    trained = model.kernel.at(process.point())
    phi = FunctionTransformer(lambda X: np.asarray(trained.feature_map(X)))
    linear = bk.BayesianLinearRegression(
        phi, prior=bk.priors.Gaussian(1.0), noise_variance=0.1, intercept=False
    )
    weights = bk.infer(linear, X, Y, method="exact", progress=False)
    np.testing.assert_allclose(
        bk.GaussianProcess(trained, X, noise=0.1).log_prob(Y), weights.log_evidence.value, rtol=1e-9
    )
    before = bk.GaussianProcess(kernel_from_features(mlp()), X, noise=0.1).log_prob(Y)
    assert weights.log_evidence.value > before + 10
    new = X + 0.3
    ours, theirs = process.predict(new), weights.predict(new)
    np.testing.assert_allclose(ours.mean, theirs.mean, rtol=1e-6)
    np.testing.assert_allclose(ours.sd, theirs.sd, rtol=1e-6)


# -- which leaf is which ----------------------------------------------------------------------


def test_weights_are_fixed_by_default():
    net = mlp()
    kernel = RBF().warp(net)
    leaves = jax.tree.leaves(eqx.filter(net, eqx.is_array))
    values = kernel.hyperparameters()
    assert list(values) == [*LEAVES, "lengthscale", "variance"]
    for name, leaf in zip(LEAVES, leaves, strict=True):
        np.testing.assert_array_equal(values[name], leaf)
    # Nothing to sample, and the values are those of the network.
    trace = handlers.trace(handlers.seed(bk.sample, 0)).get_trace(kernel)
    assert not trace
    phi = np.array([net(x) for x in X])
    np.testing.assert_allclose(kernel(X), RBF()(phi), rtol=1e-12)
    assert repr(kernel) == "RBF(lengthscale=1.0, variance=1.0).warp(MLP(17 weights fixed))"


def test_prior_of_every_weight():
    kernel = RBF().warp(mlp(), weights=dist.Normal(0.0, 2.0))
    assert repr(kernel).endswith(".warp(MLP(17 weights ~ Normal(0.0, 2.0)))")
    trace = handlers.trace(handlers.seed(bk.sample, 0)).get_trace(kernel, prefix="gp")
    assert list(trace) == [f"gp.{name}" for name in LEAVES]
    for site, shape in zip(trace.values(), SHAPES, strict=True):
        assert site["value"].shape == shape
        assert site["fn"].event_shape == shape
        expected = stats.norm(0.0, 2.0).logpdf(site["value"]).sum()
        np.testing.assert_allclose(site["fn"].log_prob(site["value"]), expected, rtol=1e-12)
    with pytest.raises(TypeError, match=r"warp.layers.0.weight, .* have no value yet"):
        kernel(X)


def test_free_weights_start_from_their_values():
    net = mlp()
    kernel = RBF().warp(net, weights=Free)
    assert repr(kernel).endswith(".warp(MLP(17 weights free))")
    trace = handlers.trace(bk.sample).get_trace(kernel)
    assert [site["type"] for site in trace.values()] == ["param"] * 4
    np.testing.assert_array_equal(bk.sample(kernel)(X), RBF().warp(net)(X))


def test_priors_and_free_values_in_a_network_are_hyperparameters():
    net = eqx.tree_at(
        lambda n: (n.layers[0].weight, n.layers[1].bias),
        mlp(),
        (dist.Normal(0.0, 1.0).expand([3, 2]).to_event(2), Free([0.0, 0.5])),
    )
    kernel = (RBF().warp(net) + Linear()).named("deep")
    values = kernel.hyperparameters()
    unset = {n: type(v) for n, v in values.items() if isinstance(v, dist.Distribution | Free)}
    assert unset == {
        "deep.rbf.warp.layers.0.weight": dist.Independent,
        "deep.rbf.warp.layers.1.bias": Free,
    }
    assert "MLP(6 weights ~ Normal(0.0, 1.0), 9 weights fixed, 2 weights free)" in repr(kernel)
    # The rest by weights=; those that are set stay.
    rest = RBF().warp(net, weights=dist.Cauchy(0.0, 1.0))
    assert "6 weights ~ Normal(0.0, 1.0), 9 weights ~ Cauchy(0.0, 1.0), 2 weights free" in repr(
        rest
    )
    # A value by name, as of every hyperparameter.
    weight = np.arange(6.0).reshape(3, 2)
    found = kernel.at({"deep.rbf.warp.layers.0.weight": weight}).inner.terms[0].f
    np.testing.assert_array_equal(found.layers[0].weight, weight)


def test_names_of_weights_in_tuples_dicts_and_nested_warps():
    class Two(eqx.Module):
        parts: dict
        steps: int = 3
        mask: np.ndarray = eqx.field(default_factory=lambda: np.array([1, 0]))

        def __call__(self, x):
            return self.parts["a"][1] * self.mask * x

    net = Two({"a": (2, np.ones(2))})
    names = list(RBF().warp(net, weights=Free).warp(net).hyperparameters())
    assert names == ["warp.parts.a.1", "warp.parts.a.1_2", "lengthscale", "variance"]
    resolved = RBF().warp(net, weights=Free).on(["b", "a"]).resolve(("a", "b"))
    assert isinstance(resolved.hyperparameters()["warp.parts.a.1"], Free)


# -- what they do -----------------------------------------------------------------------------


def flat_evidence(kernel, noise=0.1):
    """log p(y) as a function of all weights of a network in one vector, and that vector."""
    names = [name for name in kernel.hyperparameters() if name.startswith("warp")]
    start = [jnp.asarray(kernel.hyperparameters()[name]) for name in names]
    flat, unflatten = jax.flatten_util.ravel_pytree(start)

    def evidence(flat):
        at = kernel.at(dict(zip(names, unflatten(flat), strict=True)))
        return bk.GaussianProcess(at, X, noise).log_prob(Y)

    return evidence, flat


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [RBF().warp(mlp()), kernel_from_features(mlp())])
def test_gradient_of_the_likelihood_in_the_weights(kernel):
    evidence, flat = flat_evidence(kernel)
    # SciPy's density of the covariance matrix that the kernel has at the values of the network.
    phi = np.array([kernel.f(x) for x in X])
    covariance = np.asarray(kernel.inner(phi)) + 0.1 * np.eye(len(X))
    expected = stats.multivariate_normal(np.zeros(len(X)), covariance).logpdf(Y)
    np.testing.assert_allclose(evidence(flat), expected, rtol=1e-8)
    step, evaluate = 1e-5, jax.jit(evidence)
    differences = [
        (evaluate(flat + step * e) - evaluate(flat - step * e)) / (2 * step)
        for e in np.eye(len(flat))
    ]
    gradient = jax.jit(jax.grad(evidence))(flat)
    assert np.all(np.abs(differences).max() > 0.1)
    np.testing.assert_allclose(gradient, differences, rtol=1e-5, atol=1e-6)


TIMES = np.linspace(0.0, 3.0, 10)
VALUES = np.sin(2.0 * TIMES) + 0.1 * np.cos(37.0 * np.arange(10.0))


def log_evidence(u):
    """log p(y) where the points are stretched by exp(u), by SciPy."""
    r = np.exp(u) * np.subtract.outer(TIMES, TIMES)
    covariance = np.exp(-(r**2) / 2) + 0.05 * np.eye(10)
    return stats.multivariate_normal(np.zeros(10), covariance).logpdf(VALUES)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["map", "laplace", "svi", "nuts"])
def test_posterior_of_a_weight_by_every_method(method, tmp_path):
    warped = RBF().warp(Stretch(jnp.ones(())), weights=dist.LogNormal(0.0, 0.5))
    model = bk.GPRegression(warped, noise=0.05)
    u = np.linspace(-2.0, 2.0, 401)
    density = np.exp([log_evidence(v) for v in u]) * stats.norm(0.0, 0.5).pdf(u)
    density /= density.sum()
    posterior = bk.infer(model, TIMES, VALUES, method=method, seed=0, progress=False)
    found = np.log(posterior.flat["warp.factor"])
    if method == "map":
        # The mode of the factor itself, whose density is that of its logarithm over the factor.
        np.testing.assert_allclose(found, u[np.argmax(density / np.exp(u))], atol=0.02)
    else:
        mean = density @ u
        sd = np.sqrt(density @ (u - mean) ** 2)
        if method == "laplace":
            mode, step = np.argmax(density), u[1] - u[0]
            curvature = np.diff(np.log(density), 2)[mode - 1] / step**2
            mean, sd = u[mode], (-curvature) ** -0.5
        np.testing.assert_allclose(found.mean(), mean, atol=0.2 * sd)
        np.testing.assert_allclose(found.std(), sd, rtol=0.2)
    posterior.save(tmp_path / "warped.nc")
    again = bk.load(tmp_path / "warped.nc", model)
    expected = posterior.predict([1.3, 3.5]).mean
    np.testing.assert_array_equal(again.predict([1.3, 3.5]).mean, expected)


def test_free_weights_are_trained_by_maximum_likelihood():
    warped = RBF().warp(Stretch(jnp.ones(()), offset=0.5), weights=Free)
    posterior = bk.infer(bk.GPRegression(warped, 0.05), TIMES, VALUES, method="mle", progress=False)
    u = optimize.minimize_scalar(lambda u: -log_evidence(u), bounds=(-2.0, 2.0)).x
    np.testing.assert_allclose(np.abs(posterior.flat["warp.factor"]), np.exp(u), rtol=1e-3)
    with pytest.raises(ValueError, match="warp.factor"):
        bk.infer(bk.GPRegression(warped, 0.05), TIMES, VALUES, method="nuts", progress=False)


@pytest.mark.slow
def test_deep_kernel_fits_a_step_better_than_an_rbf():
    rng, x = np.random.default_rng(0), np.linspace(-1.0, 1.0, 20)
    y = np.sign(x) + 0.1 * rng.normal(size=20)
    # Between the points and beside them; where the step is, between two of them, is open.
    new = np.linspace(-1.5, 1.5, 150)
    new = new[np.abs(new) > 0.06]
    y_new = np.sign(new) + 0.1 * rng.normal(size=len(new))

    def scores(kernel):
        model = bk.GPRegression(kernel, noise=0.01)
        prediction = bk.infer(model, x, y, method="map", seed=0, progress=False).predict(new)
        error = np.sqrt(np.mean((prediction.mean - np.sign(new)) ** 2))
        return error, stats.norm(prediction.mean, prediction.sd).logpdf(y_new).mean()

    prior = dist.Normal(0.0, 1.0)
    error, log_density = scores(RBF().warp(mlp(1, 1, width=8), weights=prior))
    error_of_rbf, log_density_of_rbf = scores(RBF(lengthscale=dist.LogNormal(0.0, 1.0)))
    assert error < 0.5 * error_of_rbf
    assert log_density > log_density_of_rbf + 0.3


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[x > 0.0],
        lambda x: x if x[0] > 0.0 else x[:1],
        lambda x: jnp.nonzero(x)[0],
    ],
    ids=["mask", "if", "nonzero"],
)
def test_outputs_of_varying_shape_are_refused(f):
    message = r"f must return a number or a vector of the same shape for each point, but .*lambda"
    for kernel in (RBF().warp(f), kernel_from_features(f)):
        for call in (kernel, kernel.diag):
            with pytest.raises(ValueError, match=message):
                call(X)


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (lambda x: jnp.outer(x, x), r"float64 of shape \(2, 2\)"),
        (lambda x: x[:0], r"float64 of shape \(0,\)"),
        (lambda x: x + 1j, r"complex128 of shape \(2,\)"),
        (lambda x: None, "NoneType"),
        (lambda x: "text", "str"),
        (lambda x: {"a": x}, "dict"),
    ],
)
def test_outputs_other_than_numbers_and_vectors_are_refused(f, what):
    message = f"f must return a number or a vector for each point, but .*lambda.* returned {what}"
    for kernel in (RBF().warp(f), RBF().warp(eqx.nn.Lambda(f))):
        with pytest.raises(ValueError, match=message.replace(".*lambda.*", ".*")):
            kernel(X)


def test_integer_and_boolean_outputs():
    side = (X[:, 0] > 0.0).astype(float)
    expected = RBF()(side)
    np.testing.assert_array_equal(RBF().warp(lambda x: x[0] > 0.0)(X), expected)
    np.testing.assert_array_equal(RBF().warp(lambda x: [jnp.int32(x[0] > 0.0)])(X), expected)


@pytest.mark.parametrize("f", [jnp.tanh, eqx.nn.Lambda(jnp.tanh), Stretch(2.0)])
def test_weights_of_functions_without_arrays_are_refused(f):
    for weights in (Free, dist.Normal(0.0, 1.0)):
        with pytest.raises(ValueError, match=r"weights= has nothing to train"):
            RBF().warp(f, weights=weights)


@pytest.mark.parametrize("weights", [1.0, "free", Free(1.0), dist.Normal, True])
def test_weights_must_be_a_prior_or_free(weights):
    with pytest.raises(TypeError, match="weights must be the prior of every weight"):
        RBF().warp(mlp(), weights=weights)


def test_prior_of_several_numbers_is_refused():
    with pytest.raises(ValueError, match=r"of one number.* has shape \(2,\)"):
        RBF().warp(mlp(), weights=dist.Normal(0.0, np.ones(2)))


def test_weights_must_be_finite():
    with pytest.raises(ValueError, match="Warped.warp.factor must be real and finite"):
        RBF().warp(Stretch(jnp.asarray(np.nan)))


def test_weights_without_a_name_are_refused():
    @jax.tree_util.register_pytree_node_class
    class Nameless:
        def __init__(self, value):
            self.value = value

        def tree_flatten(self):
            return (self.value,), None

        @classmethod
        def tree_unflatten(cls, _, leaves):
            return cls(*leaves)

    net = eqx.tree_at(lambda s: s.factor, Stretch(jnp.ones(2)), Nameless(jnp.ones(2)))
    with pytest.raises(TypeError, match="must hold its arrays in equinox modules"):
        RBF().warp(net)
