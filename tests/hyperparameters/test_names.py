"""The dotted names of hyperparameters."""

import jax.numpy as jnp
import numpyro.distributions as dist
import pytest
from numpyro import handlers

from bayeskern.kernels import (
    RBF,
    ArcCosine,
    ChangePoint,
    Coregion,
    Custom,
    IntegratedOrnsteinUhlenbeck,
    Linear,
    Matern32,
    Periodic,
    Polynomial,
    Product,
    RationalQuadratic,
    SpectralMixture,
    Sum,
    White,
    sample,
)


def decay(x, z, rate, power):
    return jnp.exp(-rate * jnp.abs(x - z).sum() ** power)


def names(kernel):
    return list(kernel.hyperparameters())


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (RBF(), "lengthscale variance"),
        (RationalQuadratic(), "lengthscale variance alpha"),
        (Periodic(), "period lengthscale variance"),
        (Polynomial(degree=3), "offset variance"),
        (ArcCosine(), "variance"),
        (SpectralMixture(), "weights means scales"),
        (RBF() * Coregion(2), "rbf.lengthscale rbf.variance coregion.weights coregion.kappa"),
        (IntegratedOrnsteinUhlenbeck(), "lengthscale variance start"),
        (
            ChangePoint(RBF(), RBF().named("new")) + White(),
            "changepoint.location changepoint.width changepoint.rbf.lengthscale"
            " changepoint.rbf.variance changepoint.new.lengthscale changepoint.new.variance"
            " white.variance",
        ),
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
        (
            (2.0 * White()).modulate(jnp.sum) + White(),
            "white.scale white.variance white_2.variance",
        ),
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
def test_names(kernel, expected):
    assert names(kernel) == expected.split()


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


def test_same_name_at_different_levels():
    k = (White().named("a") + White().named("b")).named("a") + White().named("b")
    assert names(k) == ["a.a.variance", "a.b.variance", "b.variance"]


def test_repeated_object_is_two_sites():
    prior = dist.LogNormal(0.0, 1.0)
    k = RBF(lengthscale=prior)
    for kernel in (k + k, k * k, RBF(lengthscale=prior) + RBF(lengthscale=prior)):
        trace = handlers.trace(handlers.seed(lambda kernel=kernel: sample(kernel), 0)).get_trace()
        assert list(trace) == ["rbf.lengthscale", "rbf_2.lengthscale"]
        assert trace["rbf.lengthscale"]["value"] != trace["rbf_2.lengthscale"]["value"]


def test_product_of_one_factor():
    assert names(Product((White(),))) == ["white.variance"]
