"""Hyperparameters: their dotted names, their values, and what NumPyro sees of them."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.distributions import constraints
from scipy import stats

from bayeskern.hyperparameters.parametrised import Point
from bayeskern.kernels import (
    RBF,
    ArcCosine,
    Custom,
    Free,
    Linear,
    Matern32,
    Matern52,
    Periodic,
    Polynomial,
    Product,
    RationalQuadratic,
    SpectralMixture,
    Sum,
    White,
    from_sd,
    sample,
)


def decay(x, z, rate, power):
    return jnp.exp(-rate * jnp.abs(x - z).sum() ** power)


def names(kernel):
    return list(kernel.hyperparameters())


# -- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        (RBF(), "lengthscale variance"),
        (RationalQuadratic(), "lengthscale variance alpha"),
        (Periodic(), "period lengthscale variance"),
        (Polynomial(degree=3), "offset variance"),
        (ArcCosine(), "variance"),
        (SpectralMixture(), "weights means scales"),
        (Custom(decay, {"rate": 1.0, "power": 1.0}), "rate power"),
        (RBF().named("trend"), "trend.lengthscale trend.variance"),
        (Linear() + White(), "linear.variance linear.center white.variance"),
        (Linear() * White(), "linear.variance linear.center white.variance"),
        (
            RBF() + White() + RBF() + RBF(),
            "rbf.lengthscale rbf.variance white.variance rbf_2.lengthscale rbf_2.variance"
            " rbf_3.lengthscale rbf_3.variance",
        ),
        (
            RBF() + RBF().named("x") + RBF(),
            "rbf.lengthscale rbf.variance x.lengthscale x.variance"
            " rbf_2.lengthscale rbf_2.variance",
        ),
        (White() + 2.0, "white.variance constant.variance"),
        (
            White() + Custom(decay, {"rate": 1.0, "power": 1.0}),
            "white.variance decay.rate decay.power",
        ),
        (White() + Custom(lambda x, z, a: a, {"a": 1.0}), "white.variance custom.a"),
        # wrappers are called what is inside them
        (2.0 * RBF(), "scale lengthscale variance"),
        (2.0 * RBF() + White(), "rbf.scale rbf.lengthscale rbf.variance white.variance"),
        (RBF() ** 2, "lengthscale variance"),
        (White() + White().exp() + White().on([0]) + White() ** 2 + White().warp(jnp.sin), (
            "white.variance white_2.variance white_3.variance white_4.variance white_5.variance"
        )),
        (2.0 * White().named("x"), "x.scale x.variance"),
        (2.0 * White().named("x") + White(), "x.scale x.variance white.variance"),
        ((2.0 * White()).named("x") + White(), "x.scale x.variance white.variance"),
        ((2.0 * White().named("x")).named("y"), "y.x.scale y.x.variance"),
        ((White().named("x") ** 2).named("y") + White(), "y.x.variance white.variance"),
        # a repeat within one chain of wrappers
        (2.0 * (3.0 * White()), "scale scale_2 variance"),
        (2.0 * (3.0 * (4.0 * White()).exp()), "scale scale_2 scale_3 variance"),
        (2.0 * (3.0 * White()).named("x"), "x.scale x.scale_2 x.variance"),
        ((2.0 * (3.0 * White()).named("x")).named("y"), "y.x.scale y.x.scale_2 y.x.variance"),
        (2.0 * (3.0 * White() + 4.0), "scale white.scale white.variance constant.variance"),
        # nested sums and products
        (
            (White() + Linear()) * White(),
            "sum.white.variance sum.linear.variance sum.linear.center white.variance",
        ),
        (
            White() * Linear() + Linear() * White(),
            "product.white.variance product.linear.variance product.linear.center"
            " product_2.linear.variance product_2.linear.center product_2.white.variance",
        ),
        (
            2.0 * (White() + 1.0) + White(),
            "sum.scale sum.white.variance sum.constant.variance white.variance",
        ),
        (
            (Periodic() * RBF()).named("season") + Matern32().named("short_term"),
            "season.periodic.period season.periodic.lengthscale season.periodic.variance"
            " season.rbf.lengthscale season.rbf.variance"
            " short_term.lengthscale short_term.variance",
        ),
        ((White().named("a") + White()).named("c"), "c.a.variance c.white.variance"),
        (Sum((White(),)), "white.variance"),
    ],
)  # fmt: skip
def test_names(kernel, wanted):
    assert names(kernel) == wanted.split()


@pytest.mark.parametrize(
    ("kernel", "duplicate"),
    [
        (RBF().named("a") + RBF().named("a"), "a.lengthscale"),
        (RBF() + Matern32().named("rbf"), "rbf.lengthscale"),
        (RBF() + RBF() + RBF().named("rbf_2"), "rbf_2.lengthscale"),
        ((White().named("a") * White().named("a")).named("b"), "b.a.variance"),
    ],
)
def test_duplicates_raise(kernel, duplicate):
    message = f"name '{duplicate}' stands for .* in .*different names with .named"
    for call in (kernel.hyperparameters, lambda: sample(kernel), lambda: kernel([1.0, 2.0])):
        with pytest.raises(ValueError, match=message):
            call()


def test_the_same_name_at_different_levels_is_fine():
    k = (White().named("a") + White().named("b")).named("a") + White().named("b")
    assert names(k) == ["a.a.variance", "a.b.variance", "b.variance"]


# -- values -----------------------------------------------------------------------------------


def test_values():
    prior, free = dist.LogNormal(0.0, 1.0), Free(0.3)
    k = RBF(lengthscale=[0.5, 2.0]).named("a") + 2.0 * Linear(variance=prior, center=free)
    values = k.hyperparameters()
    np.testing.assert_array_equal(values["a.lengthscale"], [0.5, 2.0])
    assert values["a.variance"] == 1.0 and values["linear.scale"] == 2.0
    assert isinstance(values["linear.variance"], dist.LogNormal)
    assert isinstance(values["linear.center"], Free) and values["linear.center"].init == 0.3


def test_at():
    k = RBF().named("a") + 2.0 * Linear(variance=dist.HalfNormal(1.0))
    new = k.at({"a.lengthscale": [0.5, 2.0], "linear.scale": 3, "linear.variance": jnp.array(0.7)})
    wanted = RBF(lengthscale=[0.5, 2.0]).named("a") + 3.0 * Linear(variance=0.7)
    X = np.random.default_rng(0).normal(size=(4, 2))
    np.testing.assert_allclose(new(X), wanted(X), rtol=1e-14)
    assert k.hyperparameters()["linear.scale"] == 2.0  # the old one is as it was
    assert isinstance(new.at({"a.variance": Free(2.0)}).hyperparameters()["a.variance"], Free)
    assert repr(k.at({})) == repr(k)


def test_at_a_point_takes_what_has_no_value_yet():
    kernel = RBF(dist.LogNormal(), 2.0).named("a") + Linear(Free(1.0))
    point = Point({"a.lengthscale": 0.5, "a.variance": 9.0, "linear.variance": 3.0, "noise": 0.1})
    assert kernel.at(point).hyperparameters() == {
        "a.lengthscale": 0.5,
        "a.variance": 2.0,
        "linear.variance": 3.0,
        "linear.center": 0.0,
    }


def test_at_an_unknown_name():
    k = RBF().named("season") + Linear()
    message = "hyperparameter='season.lenghtscale' is not known. Did you mean 'season.lengthscale'"
    with pytest.raises(ValueError, match=message):
        k.at({"season.lenghtscale": 1.0})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rbf.lengthscale", -1.0),
        ("rbf.lengthscale", [1.0, 0.0]),
        ("rbf.variance", 0.0),
        ("rbf.variance", np.nan),
        ("rbf.variance", Free(-2.0)),
        ("linear.center", np.inf),
    ],
)
def test_at_a_value_that_is_not_allowed(name, value):
    with pytest.raises(ValueError, match=f"{name} must be (positive|real) and finite, got"):
        (RBF() + Linear()).at({name: value})


@pytest.mark.parametrize("before", [1.0, [1.0, 2.0], np.eye(2), dist.HalfNormal(1.0), Free(1.0)])
@pytest.mark.parametrize("after", [0.5, [0.5, 2.0], [[0.5, 0.0], [-0.3, 2.0]]])
def test_at_a_lengthscale_of_another_shape(before, after):
    new = RBF(lengthscale=before).at({"lengthscale": after})
    np.testing.assert_array_equal(new.lengthscale, after)
    with pytest.raises(ValueError, match="lengthscale must be lower cholesky and finite, got"):
        RBF(lengthscale=before).at({"lengthscale": [[0.5, 0.3], [0.0, 2.0]]})


def test_at_traced_values():
    X = np.linspace(0.0, 1.0, 4)
    got = jax.jit(lambda v: RBF().at({"lengthscale": v})(X))(0.3)
    np.testing.assert_allclose(got, RBF(lengthscale=0.3)(X), rtol=1e-14)
    batch = jax.vmap(lambda v: RBF().at({"lengthscale": v})(X))(jnp.array([0.3, 2.0]))
    np.testing.assert_allclose(batch[1], RBF(lengthscale=2.0)(X), rtol=1e-14)


@pytest.mark.parametrize(
    "value", ["long", "1.5", None, object(), [1.0, "a"], [[1.0], [1.0, 2.0]], 1j]
)
def test_what_is_no_hyperparameter(value):
    with pytest.raises(
        TypeError, match="must be a number, an array, a NumPyro distribution or Free"
    ):
        RBF(lengthscale=value)
    with pytest.raises(TypeError, match="init must be a number"):
        Free(value)


# -- specifications ---------------------------------------------------------------------------


def test_a_specification_cannot_be_evaluated():
    k = RBF(lengthscale=dist.LogNormal(0.0, 1.0)).named("a") + Linear(variance=Free(1.0))
    X = np.ones((3, 1))
    message = (
        r"a.lengthscale, linear.variance of .*LogNormal\(0.0, 1.0\).*Free\(1.0\).* have no value"
        r".*\.at\({name: value}\).*sample"
    )
    for call in (lambda: k(X), lambda: k(X, X), lambda: k.diag(X), k.require_concrete):
        with pytest.raises(TypeError, match=message):
            call()
    with pytest.raises(TypeError, match=r"^linear.variance of"):
        k.at({"a.lengthscale": 1.0})(X)
    concrete = k.at({"a.lengthscale": 1.0, "linear.variance": 2.0})
    assert concrete.require_concrete() is concrete


def test_sample():
    k = (
        (Periodic(period=dist.Gamma(2.0, 1.0)) * RBF(variance=Free(0.4))).named("season")
        + dist.HalfNormal(2.0) * Linear(center=Free([0.1, 0.2]))
        + Matern32(lengthscale=dist.LogNormal(jnp.zeros(2), 1.0).to_event(1)).named("short")
    )
    seen = {}

    def model():
        seen["kernel"] = sample(k, "f")

    trace = handlers.trace(handlers.seed(model, 3)).get_trace()
    priors = {
        "f.season.periodic.period": dist.Gamma,
        "f.linear.scale": dist.HalfNormal,
        "f.short.lengthscale": dist.Independent,
    }
    free = {"f.season.rbf.variance": 0.4, "f.linear.center": [0.1, 0.2]}
    assert set(trace) == {*priors, *free}
    for name, kind in priors.items():
        assert trace[name]["type"] == "sample" and isinstance(trace[name]["fn"], kind)
    for name, value in free.items():
        assert trace[name]["type"] == "param"
        np.testing.assert_array_equal(trace[name]["value"], value)
    assert trace["f.season.rbf.variance"]["kwargs"]["constraint"] is constraints.positive
    assert trace["f.linear.center"]["kwargs"]["constraint"] is constraints.real
    # the concrete kernel holds the values of the trace, and nothing else has changed
    values = seen["kernel"].require_concrete().hyperparameters()
    for name, site in trace.items():
        np.testing.assert_array_equal(values[name.removeprefix("f.")], site["value"])
    rest = set(values) - {name.removeprefix("f.") for name in trace}
    for name in rest:
        np.testing.assert_array_equal(values[name], k.hyperparameters()[name])


def test_sample_uses_substituted_values():
    k = RBF(lengthscale=dist.LogNormal(0.0, 1.0), variance=Free(1.0))
    X, values = np.linspace(0.0, 1.0, 4), {"lengthscale": 0.3, "variance": 2.0}
    got = handlers.substitute(lambda: sample(k)(X), values)()
    np.testing.assert_allclose(got, RBF(lengthscale=0.3, variance=2.0)(X), rtol=1e-14)


def test_sample_of_a_concrete_kernel_makes_no_sites():
    k = RBF() + Linear()
    assert handlers.trace(lambda: sample(k)).get_trace() == {}
    assert sample(k) is k


def test_sample_a_metric():
    k = RBF(lengthscale=dist.LKJCholesky(3, 2.0))
    L = handlers.seed(lambda: sample(k), 0)().lengthscale
    X = np.random.default_rng(0).normal(size=(4, 3))
    y = np.linalg.solve(np.asarray(L), X.T).T
    wanted = np.exp(-((y[:, None] - y[None]) ** 2).sum(-1) / 2)
    np.testing.assert_allclose(RBF(lengthscale=L)(X), wanted, rtol=1e-12)
    free = RBF(lengthscale=Free(np.eye(2)))
    trace = handlers.trace(lambda: sample(free)).get_trace()
    assert trace["lengthscale"]["kwargs"]["constraint"] is constraints.lower_cholesky


def test_the_same_object_twice_is_two_sites():
    prior = dist.LogNormal(0.0, 1.0)
    k = RBF(lengthscale=prior)
    for kernel in (k + k, k * k, RBF(lengthscale=prior) + RBF(lengthscale=prior)):
        trace = handlers.trace(handlers.seed(lambda kernel=kernel: sample(kernel), 0)).get_trace()
        assert list(trace) == ["rbf.lengthscale", "rbf_2.lengthscale"]
        assert trace["rbf.lengthscale"]["value"] != trace["rbf_2.lengthscale"]["value"]


def test_density_of_a_model():
    k = RBF(lengthscale=dist.LogNormal(0.2, 0.5), variance=from_sd(dist.HalfNormal(0.5)))
    values = {"k.lengthscale": 0.8, "k.variance": 0.36}
    got, _ = numpyro.infer.util.log_density(lambda: sample(k, "k"), (), {}, values)
    wanted = stats.lognorm(0.5, scale=np.exp(0.2)).logpdf(0.8)
    wanted += stats.halfnorm(scale=0.5).logpdf(0.6) - np.log(2 * 0.6)
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


# -- from_sd ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "density"),
    [
        (dist.HalfNormal(0.5), stats.halfnorm(scale=0.5)),
        (dist.Gamma(2.0, 3.0), stats.gamma(2.0, scale=1 / 3)),
        (dist.Exponential(1.5), stats.expon(scale=1 / 1.5)),
    ],
    ids=lambda p: type(p).__name__,
)
def test_from_sd(prior, density):
    variance = np.array([1e-3, 0.1, 0.7, 4.0])
    sd = np.sqrt(variance)
    wanted = density.logpdf(sd) - np.log(2 * sd)
    np.testing.assert_allclose(from_sd(prior).log_prob(variance), wanted, rtol=1e-12)
    key = jax.random.key(0)
    np.testing.assert_allclose(
        from_sd(prior).sample(key, (5,)), prior.sample(key, (5,)) ** 2, rtol=1e-14
    )


def test_from_sd_of_a_lognormal():
    # log v = 2 log s ~ N(2 mu, 2 sigma)
    v = np.array([0.01, 0.5, 3.0])
    wanted = stats.lognorm(2 * 0.4, scale=np.exp(2 * 0.3)).logpdf(v)
    np.testing.assert_allclose(from_sd(dist.LogNormal(0.3, 0.4)).log_prob(v), wanted, rtol=1e-12)


# -- reading ----------------------------------------------------------------------------------


def test_repr():
    k = 2.0 * RBF(lengthscale=[0.5, 1.0], variance=from_sd(dist.HalfNormal(0.5)))
    k = k.named("a") + Linear(center=Free(0.5)) ** 2 * (Matern52() + 1)
    wanted = (
        "(2.0 * RBF(lengthscale=[0.5, 1.0], "
        "variance=TransformedDistribution(HalfNormal(0.5), PowerTransform))).named('a')"
        " + Linear(variance=1.0, center=Free(0.5)) ** 2"
        " * (Matern52(lengthscale=1.0, variance=1.0) + Constant(variance=1.0))"
    )
    assert repr(k) == wanted


def test_repr_while_traced():
    seen = []
    jax.jit(lambda v: seen.append(repr(RBF(v))))(1.0)
    assert seen == ["RBF(lengthscale=<traced>, variance=1.0)"]


def test_product_of_one():
    assert names(Product((White(),))) == ["white.variance"]


def test_a_vector_is_refused_where_one_number_is_wanted():
    for bad in ([1.0, 2.0], dist.LogNormal(0.0, 1.0).expand([2]), Free([1.0, 2.0])):
        with pytest.raises(ValueError, match=r"RBF.variance must be one number, got shape \(2,\)"):
            RBF(variance=bad)
        with pytest.raises(ValueError, match=r"RBF.variance must be one number"):
            RBF().at({"variance": bad})
    assert RBF(lengthscale=dist.LogNormal(0.0, 1.0).expand([2])).hyperparameters()


def test_from_sd_wants_a_prior_on_the_positive_numbers():
    for bad in (dist.Normal(0.0, 1.0), dist.Uniform(0.0, 1.0), 0.3):
        with pytest.raises(
            ValueError, match="from_sd needs a distribution on the positive numbers"
        ):
            from_sd(bad)


@pytest.mark.parametrize(
    "prior", [dist.Normal(0.0, 1.0), dist.Uniform(-1.0, 1.0)], ids=["Normal", "Uniform"]
)
def test_a_prior_that_reaches_below_0_is_no_prior_on_a_scale(prior):
    with pytest.raises(ValueError, match="lengthscale must be positive.* reaches below 0"):
        RBF(lengthscale=prior)
