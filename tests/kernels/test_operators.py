"""Algebra of kernels: values, names and printed form of nested expressions."""

import itertools

import equinox as eqx
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from hypothesis import assume, given

import bayeskern.kernels as kernels
from bayeskern.kernels import (
    RBF,
    Constant,
    Custom,
    Exp,
    Free,
    Linear,
    Matern12,
    Matern32,
    Named,
    Periodic,
    Polynomial,
    Power,
    Product,
    Scaled,
    Sum,
    White,
    components,
)
from tests.kernels.compare import close

RNG = np.random.default_rng(11)
X, Z = RNG.normal(size=(4, 2)), RNG.normal(size=(3, 2))


# -- random nested expressions ----------------------------------------------------------------
#
# Each is a pair (kernel, function): the kernel under test, and a function (X, Z) in plain NumPy
# of the Gram matrix, where Z is None for a Gram matrix among X.


def halve(x):
    return 0.5 * x + 0.1


def reverse(x):
    return x[::-1]


def total(x):
    return x.sum()


def growing(x):
    return 0.4 + 0.3 * x[0]


def squares(X, Z):
    Z = X if Z is None else Z
    return ((X[:, None] - Z[None]) ** 2).sum(-1)


def rbf(length):
    return RBF(lengthscale=length), lambda X, Z: np.exp(-squares(X, Z) / (2 * length**2))


def matern12(v):
    return Matern12(variance=v), lambda X, Z: v * np.exp(-np.sqrt(squares(X, Z)))


def linear(v):
    return Linear(variance=v), lambda X, Z: v * X @ (X if Z is None else Z).T


def polynomial(c):
    k = Polynomial(degree=2, offset=c, variance=0.1)
    return k, lambda X, Z: 0.1 * (c + X @ (X if Z is None else Z).T) ** 2


def periodic(period):
    def gram(X, Z):
        t = X[:, None] - (X if Z is None else Z)[None]
        return np.exp(-2 * (np.sin(np.pi * t / period) ** 2).sum(-1))

    return Periodic(period=period), gram


def white(v):
    def gram(X, Z):
        return v * np.eye(len(X)) if Z is None else np.zeros((len(X), len(Z)))

    return White(variance=v), gram


numbers = st.floats(0.1, 2.0)
leaves = numbers.flatmap(
    lambda v: st.sampled_from([f(v) for f in (rbf, matern12, linear, polynomial, periodic, white)])
)
serial = itertools.count()


def mapped(g):
    """The function after mapping the rows of X and Z by g."""
    return lambda f: lambda X, Z: f(g(X), None if Z is None else g(Z))


def extend(inner):
    def add(a, b):
        return a[0] + b[0], lambda X, Z: a[1](X, Z) + b[1](X, Z)

    def multiply(a, b):
        return a[0] * b[0], lambda X, Z: a[1](X, Z) * b[1](X, Z)

    def scale(c, a):
        return c * a[0], lambda X, Z: c * a[1](X, Z)

    def scale_on_the_right(c, a):
        return a[0] * c, lambda X, Z: c * a[1](X, Z)

    def add_number(c, a):
        return a[0] + c, lambda X, Z: c + a[1](X, Z)

    def add_to_number(c, a):
        return c + a[0], lambda X, Z: c + a[1](X, Z)

    def power(p, a):
        return a[0] ** p, lambda X, Z: a[1](X, Z) ** p

    def exp(a):
        return (0.2 * a[0]).exp(), lambda X, Z: np.exp(0.2 * a[1](X, Z))

    def on(columns, a):
        return a[0].on(columns), mapped(lambda X: X[:, columns])(a[1])

    def warp(f, a):
        return a[0].warp(f), mapped(
            lambda X: np.array([np.atleast_1d(f(x)) for x in X], dtype=float)
        )(a[1])

    def modulate(f, a):
        def values(X):
            return np.array([f(x) for x in X])

        def gram(X, Z):
            return values(X)[:, None] * a[1](X, Z) * values(X if Z is None else Z)

        return a[0].modulate(f), gram

    def named(a):
        return a[0].named(f"n{next(serial)}"), a[1]

    constants = numbers | st.sampled_from([1, 2, np.float64(0.5), np.float32(0.25), jnp.array(0.7)])
    return st.one_of(
        st.builds(add, inner, inner),
        st.builds(multiply, inner, inner),
        st.builds(scale, constants, inner),
        st.builds(scale_on_the_right, constants, inner),
        st.builds(add_number, constants, inner),
        st.builds(add_to_number, constants, inner),
        st.builds(power, st.sampled_from([1, 2, 3]), inner),
        st.builds(exp, inner),
        st.builds(on, st.sampled_from([[0], [-1], [0, -1]]), inner),
        st.builds(warp, st.sampled_from([halve, reverse, total]), inner),
        st.builds(modulate, st.sampled_from([growing, total]), inner),
        st.builds(named, inner),
    )


expressions = st.recursive(leaves, extend, max_leaves=6)


def evaluate(f):
    with np.errstate(over="ignore", invalid="ignore"):
        expected = f(X, Z), f(X, None)
    assume(all(np.isfinite(w).all() and np.abs(w).max() < 1e100 for w in expected))
    return expected


@pytest.mark.slow
@given(expressions)
def test_nested_expressions_match_numpy(expression):
    k, f = expression
    between, within = evaluate(f)
    # exp and powers multiply relative errors by their argument, at most 1e3 here.
    tolerance = {"rtol": 1e-11, "atol": 1e-13 * np.abs(within).max()}
    close(k(X, Z), between, **tolerance)
    close(k(X), within, **tolerance)
    close(k.diag(X), np.diag(within), **tolerance)


@given(expressions)
def test_nested_expressions_print_as_typed(expression):
    k, _ = expression
    assert eqx.tree_equal(eval(repr(k), {**vars(kernels), **globals()}), k)


@given(expressions)
def test_components_of_nested_expressions_sum_to_them(expression):
    k, f = expression
    _, within = evaluate(f)
    parts = components(k)
    assert "rest" not in list(parts)[:-1]
    close(sum(np.asarray(part(X)) for part in parts.values()), within, rtol=1e-11, atol=1e-11)


@given(expressions)
def test_hyperparameters_of_nested_expressions(expression):
    k, _ = expression
    values = k.hyperparameters()
    assert len(values) == len(jax.tree.leaves(k))  # every number has a name of its own
    doubled = k.at({name: 2 * value for name, value in values.items()})
    assert eqx.tree_equal(doubled, jax.tree.map(lambda leaf: 2 * leaf, k))


# -- structure --------------------------------------------------------------------------------


def test_a_sum_times_a_kernel():
    a, b, c = RBF(), Linear(), Matern32()
    k = (a + b) * c
    assert type(k) is Product and [type(t) for t in k.terms] == [Sum, Matern32]
    close(k(X), (np.asarray(a(X)) + np.asarray(b(X))) * np.asarray(c(X)))
    assert np.abs(np.asarray(k(X)) - np.asarray((a * b * c)(X))).max() > 0.1
    assert np.abs(np.asarray(k(X)) - np.asarray((a + b * c)(X))).max() > 0.1
    assert [type(t) for t in (c * (a + b)).terms] == [Matern32, Sum]
    assert [type(t) for t in (a * b + c).terms] == [Product, Matern32]


def test_nested_sums_and_products_are_flattened():
    a, b, c, d = RBF(), Linear(), Matern32(), White()
    for k in (((a + b) + c) + d, a + (b + (c + d)), (a + b) + (c + d)):
        assert k.terms == (a, b, c, d)
    for k in (((a * b) * c) * d, a * (b * (c * d)), (a * b) * (c * d)):
        assert type(k) is Product and k.terms == (a, b, c, d)


def test_named_scaled_and_powered_terms_are_not_flattened():
    a, b, c = RBF(), Linear(), Matern32()
    kept = (a + b).named("x") + c
    assert len(kept.terms) == 2 and isinstance(kept.terms[0], Named)
    assert len((2.0 * (a + b) + c).terms) == 2
    assert len(((a * b).named("y") * c).terms) == 2
    assert len(((a + b) ** 2 * c).terms) == 2
    assert len(((a + b).exp() + c).terms) == 2


def test_python_sum():
    a, b = RBF(), Linear()
    assert sum([a, b]).terms == (a, b)
    assert sum([a]) is a
    assert eqx.tree_equal(0.0 + a, Constant(0.0) + a)


@pytest.mark.parametrize("c", [2, 2.0, np.float64(2), np.float32(2), np.array(2.0), jnp.array(2.0)])
def test_numbers_on_either_side(c):
    a, K = RBF(), np.asarray(RBF()(X))
    for k, kind, expected in [
        (c * a, Scaled, 2 * K),
        (a * c, Scaled, 2 * K),
        (c + a, Sum, 2 + K),
        (a + c, Sum, 2 + K),
    ]:
        assert type(k) is kind
        close(k(X), expected)
    assert [type(t) for t in (c + a).terms] == [Constant, RBF]
    assert [type(t) for t in (a + c).terms] == [RBF, Constant]


@pytest.mark.parametrize("c", [dist.HalfNormal(1.5), Free(2.0)])
def test_distributions_and_free_values_on_either_side(c):
    for value in (
        (c * RBF()).scale,
        (RBF() * c).scale,
        (c + RBF()).terms[0].variance,
        (RBF() + c).terms[1].variance,
    ):
        assert type(value) is type(c) and jax.tree.leaves(value) == jax.tree.leaves(c)


def test_scale_of_zero():
    np.testing.assert_array_equal((0.0 * RBF())(X), np.zeros((4, 4)))


def test_scale_under_jit():
    close(jax.jit(lambda c: (c * RBF() + c)(X))(2.0), 2 * np.asarray(RBF()(X)) + 2)


@pytest.mark.parametrize("c", [-1.0, np.float64(-2), np.nan, np.inf])
def test_negative_scale(c):
    message = r"Scaled.scale must be nonnegative and finite, got (-?\d|nan|inf)"
    with pytest.raises(ValueError, match=message):
        c * RBF()
    with pytest.raises(ValueError, match=r"Constant.variance must be nonnegative"):
        RBF() + c


@pytest.mark.parametrize("p", [0, -1, 2.0, 0.5, "2", True, None])
def test_power_must_be_a_positive_integer(p):
    with pytest.raises(ValueError, match=rf"must be a whole number.*got {p!r}"):
        RBF() ** p


def test_power_from_numpy():
    assert type((RBF() ** np.int64(2)).power) is int
    close((RBF() ** 2)(X), np.asarray(RBF()(X)) ** 2)
    assert isinstance(RBF() ** 2, Power) and isinstance(RBF().exp(), Exp)


@pytest.mark.parametrize(
    "other", ["text", None, [1.0], np.ones(2), jnp.ones(2), np.ones((1, 1)), 1j]
)
def test_other_operands_are_refused(other):
    for operation in (
        lambda: RBF() + other,
        lambda: other + RBF(),
        lambda: RBF() * other,
        lambda: other * RBF(),
    ):
        with pytest.raises(TypeError):
            operation()


def test_subtraction_and_division_are_refused():
    for operation in (lambda: -RBF(), lambda: RBF() - RBF(), lambda: RBF() / RBF()):
        with pytest.raises(TypeError):
            operation()


# -- names and components ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "short term", "2nd", "a.b", "a/b", "a-b", None, 3])
def test_name_must_be_an_identifier(name):
    with pytest.raises(ValueError, match=r"name must be an identifier"):
        RBF().named(name)


@pytest.mark.parametrize("name", ["rest", "class", "lambda", "None"])
def test_reserved_names(name):
    with pytest.raises(ValueError, match=f"'{name}' is reserved; choose another name"):
        RBF().named(name)


def test_naming_again_replaces_the_name():
    assert eqx.tree_equal(RBF().named("a").named("b"), RBF().named("b"))


def test_custom_kernels_print_as_typed():
    k = 2.0 * Custom(product, {"a": 1.5}) + Custom(product_alone)
    assert eqx.tree_equal(eval(repr(k), {**vars(kernels), **globals()}), k)


def product(x, z, a):
    return a * x @ z


def product_alone(x, z):
    return x @ z
