"""Capabilities of each kernel beside its values, and the errors of those that it lacks."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bayeskern as bk
from bayeskern import kernels
from bayeskern.kernels import compound, wrappers
from bayeskern.kernels.measured.rows import Rows
from bayeskern.kernels.numpy_gram import Formula
from bayeskern.kernels.registry import CAPABILITIES, KERNELS
from bayeskern.kernels.state_space.space import NoStateSpaceError
from tests.kernels import cases
from tests.marks import few

X = jnp.linspace(0.3, 2.0, 5)[:, None]
# How a capability is used, and the error without it. Means are by quadrature without closed form.
USES = {
    "frequencies": (lambda k: k.frequencies(jax.random.key(0), 3, 1), ValueError),
    "spectrum": (lambda k: k.spectral_density(X), ValueError),
    "features": (lambda k: k.features(X, None), ValueError),
    "state_space": (lambda k: k.state_space(), NoStateSpaceError),
    "numpy_gram": (Formula.of, NotImplementedError),
}
# Kernels composed of others offer what their parts offer, and features of an RBF are a series.
COMPOSED = ("change point", "rbf", "rbf ard", "rbf metric")
# Hyperparameters that exclude what the kernel offers: a smoothness without a state.
EXCLUDED = {("matern", "state_space")}


@pytest.mark.parametrize("capability", USES)
@pytest.mark.parametrize("name", [name for name in cases.CASES if name not in COMPOSED])
def test_kernels_offer_what_they_state_and_refuse_the_rest_by_name(name, capability):
    kernel, (use, error) = cases.CASES[name], USES[capability]
    if capability in kernel.offers and (name, capability) not in EXCLUDED:
        use(kernel)
    else:
        with pytest.raises(error, match=rf"^{type(kernel).__name__}\b.* has no"):
            use(kernel)


WITH_MEANS = [name for name in cases.CASES if name not in cases.SPECIAL]


@pytest.mark.parametrize("name", few(WITH_MEANS, *cases.offering("means")))
def test_means_in_closed_form_are_stated(name):
    kernel, rows = cases.CASES[name], Rows.read(bk.Interval([0.3, 0.5], [1.2, 0.5]))
    assert rows.kernel(kernel).uses_nodes(rows.X) == ("means" not in kernel.offers)


@pytest.mark.parametrize("name", cases.public_kernels())
def test_offers_are_known(name):
    assert set(KERNELS[name].offers) <= CAPABILITIES.keys()


FORMULAS = Path(__file__).parents[2] / "docs" / "kernels.md"
# Below the table, the page lists operations on kernels by their operators and methods.
OPERATIONS = (compound.__name__, wrappers.__name__)


@pytest.mark.parametrize(
    "name", [n for n in cases.public_kernels() if KERNELS[n].__module__ not in OPERATIONS]
)
def test_every_kernel_has_a_row_in_the_table_of_formulas(name):
    rows = re.findall(r"^\|([^|]*)\|", FORMULAS.read_text(), flags=re.MULTILINE)
    assert any(re.search(rf"`{name}\b", row) for row in rows), f"docs/kernels.md lacks {name}"


@pytest.mark.parametrize("name", cases.offering("features"))
def test_products_of_features_equal_the_kernel(name):
    kernel = cases.CASES[name]
    phi = kernel.features(X, None)
    np.testing.assert_allclose(phi @ phi.T, kernel(X), rtol=1e-12, atol=1e-13)


def test_stationary_kernels_of_users_are_refused_by_name():
    class Quartic(kernels.Stationary):
        def profile(self, u):
            return jnp.exp(-u)

    for capability, (use, error) in USES.items():
        if capability != "features":
            with pytest.raises(error, match="Quartic"):
                use(Quartic())
