"""Additive components of a kernel: their names and their sum."""

import jax
import numpy as np
import pytest

from bayeskern.kernels import (
    RBF,
    Constant,
    Linear,
    Matern32,
    Periodic,
    White,
    component,
    components,
)
from tests.kernels.compare import close

RNG = np.random.default_rng(11)
X, Z = RNG.normal(size=(4, 2)), RNG.normal(size=(3, 2))


def test_components():
    trend, season, short, level = Linear(), Periodic(), Matern32(variance=0.3), Constant(0.5)
    inner = (season.named("a") + short.named("b")).named("c")
    k = 2.0 * (trend.named("trend") + 3.0 * inner) + level + White(variance=0.1)
    parts = components(k)
    assert list(parts) == ["trend", "c", "rest"]
    close(parts["trend"](X), 2 * np.asarray(trend(X)))
    close(parts["c"](X), 6 * (np.asarray(season(X)) + np.asarray(short(X))))
    close(parts["rest"](X), 0.5 + 0.1 * np.eye(4))
    close(sum(np.asarray(part(X)) for part in parts.values()), np.asarray(k(X)))
    close(component(k, "c.a")(X, Z), 6 * np.asarray(season(X, Z)))
    close(component(k, "c.b")(X, Z), 6 * np.asarray(short(X, Z)))
    close(component(k, "c")(X, Z), np.asarray(parts["c"](X, Z)))


def test_components_of_a_modulated_sum():
    k = (Linear().named("trend") + 2.0 * Matern32().named("short") + 0.5).modulate(lambda x: x[0])
    parts, f = components(k), np.outer(X[:, 0], X[:, 0])
    assert list(parts) == ["trend", "short", "rest"]
    close(parts["trend"](X), f * np.asarray(Linear()(X)))
    close(parts["short"](X), 2 * f * np.asarray(Matern32()(X)))
    close(parts["rest"](X), 0.5 * f)


def test_component_of_a_named_sum():
    k = (Linear().named("a") + RBF().named("b")).named("x") + Matern32()
    assert list(components(k)) == ["x", "rest"]
    close(component(k, "x")(X), np.asarray((Linear() + RBF())(X)))


def test_names_inside_products_are_no_components():
    k = Linear().named("a") * RBF().named("b") + Matern32().named("c").exp() + White().named("d")
    assert list(components(k)) == ["d", "rest"]
    k = (Linear() + RBF().named("a")) * Matern32()
    assert list(components(k)) == ["rest"]
    k = ((Linear() + RBF().named("a")) * Matern32()).named("x")
    assert list(components(k)) == ["x"]


def test_components_of_a_kernel_without_names():
    assert list(components(RBF())) == ["rest"]
    assert list(components(RBF().named("only"))) == ["only"]
    assert list(components(2.0 * RBF().named("only"))) == ["only"]


def test_unknown_component():
    k = RBF().named("season") + Linear().named("trend")
    with pytest.raises(ValueError, match="Did you mean 'season'"):
        component(k, "saeson")
    with pytest.raises(ValueError, match=r"Choose from season, trend"):
        component(k, "rest")


def test_components_under_jit():
    k = 2.0 * (Linear().named("a") + RBF())
    actual = jax.jit(lambda k: component(k, "a")(X))(k)
    close(actual, 2 * X @ X.T)
