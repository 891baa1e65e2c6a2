"""Draws that do not fit a model are refused, and harmless differences are not."""

import re

import arviz as az
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
import xarray as xr

import bayeskern as bk
from bayeskern.inference import Target
from bayeskern.inference.external.arviz import read_groups
from bayeskern.inference.external.draws import read_draws
from tests.inference.external.linear_gaussian import H, Y, exact, model


def scales():
    tau = numpyro.sample("tau", dist.HalfNormal(1.0))
    p = numpyro.sample("p", dist.Dirichlet(np.ones(3)))
    with numpyro.plate("group", 2):
        theta = numpyro.sample("theta", dist.Uniform(0.0, tau))
    numpyro.sample("y", dist.Normal(theta.sum() + p[0], 1.0), obs=0.5)


RNG = np.random.default_rng(0)
TAU = np.abs(RNG.normal(size=(4, 50)))
P = RNG.dirichlet(np.ones(3), size=(4, 50))
THETA = TAU[..., None] * RNG.uniform(size=(4, 50, 2))
DRAWS = {"tau": TAU, "p": P, "theta": THETA}


def replaced(name, index, value):
    values = DRAWS[name].copy()
    values[index] = value
    return DRAWS | {name: values}


def read(draws, model=scales):
    return read_draws(Target.from_model(model, (), {}), draws)


def test_draws_return_to_their_constrained_values():
    external = read(DRAWS)
    assert external.z.shape == (4, 50, 1 + 2 + 2) and external.ignored == ()
    for name, values in DRAWS.items():
        np.testing.assert_allclose(external.sites[name], values, rtol=1e-10)
    # log tau, and the logit of theta / tau, by hand.
    np.testing.assert_allclose(external.z[..., 0], np.log(TAU))
    ratio = THETA / TAU[..., None]
    np.testing.assert_allclose(external.z[..., 3:], np.log(ratio / (1.0 - ratio)), rtol=1e-6)


def test_draws_without_chains_are_one_row():
    external = read({name: values.reshape(-1, *values.shape[2:]) for name, values in DRAWS.items()})
    np.testing.assert_array_equal(external.z, read(DRAWS).z.reshape(1, 200, 5))


def test_draws_of_32_bits_are_accepted():
    read({name: values.astype(np.float32) for name, values in DRAWS.items()})


def test_further_sites_are_ignored_by_name():
    extra = {"lp__": TAU, "tau_log__": np.log(TAU), "y_new": np.zeros((4, 50, 7))}
    assert read(DRAWS | extra).ignored == ("lp__", "tau_log__", "y_new")


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        ({"tau": TAU, "p": P}, r"there is no 'theta'"),
        ({"sigma": TAU, "p": P, "theta": THETA}, r"no 'tau'.*tau \(\), p \(3,\), theta \(2,\)"),
        (DRAWS | {"theta": THETA[..., :1]}, r"other shapes.*theta \(2,\).*theta \(4, 50, 1\)"),
        (DRAWS | {"tau": TAU[:3]}, r"other shapes.*tau \(3, 50\)"),
        (DRAWS | {"tau": TAU.ravel()}, r"other shapes.*tau \(200,\), p \(4, 50, 3\)"),
        ({name: v[0, 0] for name, v in DRAWS.items()}, "other shapes"),
        ({}, "Draws: none"),
        (replaced("tau", (1, 7), np.nan), r"'tau' have 1 value that is NaN.*index \(1, 7\)"),
        (replaced("tau", (1, 7), np.inf), r"'tau' have 1 value that is NaN or infinite"),
        (replaced("tau", (1, 7), -0.2), r"'tau' must lie inside.*1 draw does not.*\(1, 7\): -0.2"),
        (replaced("theta", (2, 3, 1), 9.0), r"'theta' must lie inside .*\(2, 3\)"),
        (replaced("theta", (2, 3, 1), 0.0), r"'theta' must lie inside .*edge of a support"),
        (replaced("p", (0, 4), [0.5, 0.5, 0.5]), r"'p' lie outside the support.*sum to 1"),
        (DRAWS | {"tau": np.full((4, 50), "x")}, "'tau' have type <U1: pass numbers"),
        ({name: v[:, :3] for name, v in DRAWS.items()}, "3 draws in each chain.*at least 4"),
    ],
)
def test_draws_that_do_not_fit_are_refused(draws, message):
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        read(draws)


def test_draws_that_are_no_mapping_are_refused():
    with pytest.raises(TypeError, match="must be a dict of arrays by site.*got ndarray"):
        read(TAU)


def test_deterministic_sites_must_agree_with_the_model():
    target, w = Target.from_model(model, (Y,), {}), exact(100)
    assert set(read_draws(target, {"w": w, "total": w @ H}).sites) == {"w", "total"}
    with pytest.raises(ValueError, match="'total' has other values in the draws"):
        read_draws(target, {"w": w, "total": w @ H[::-1]})
    with pytest.raises(ValueError, match=r"'total' has shape \(1, 100, 2\) in the draws"):
        read_draws(target, {"w": w, "total": w})


# -- trees of ArviZ ----------------------------------------------------------------------------


def pymc_tree(**groups):
    """Groups in the names of PyMC."""
    shape = TAU.shape
    statistics = {
        "diverging": np.zeros(shape, bool),
        "energy": RNG.normal(size=shape),
        "reached_max_treedepth": np.zeros(shape, bool),
        "lp": RNG.normal(size=shape),
        "tree_depth": np.full(shape, 3),
    }
    return az.from_dict({"posterior": DRAWS, "sample_stats": statistics} | groups)


def test_draws_and_statistics_of_a_tree():
    groups = read_groups(pymc_tree())
    np.testing.assert_array_equal(groups.draws["theta"], THETA)
    assert set(groups.sample_stats) == {
        *("diverging", "energy", "reached_max_treedepth", "tree_depth")
    }


def test_dimensions_of_a_tree_may_be_in_any_order():
    tree = pymc_tree()
    tree["posterior"] = tree["posterior"].to_dataset().transpose(..., "draw", "chain")
    np.testing.assert_array_equal(read_groups(tree).draws["theta"], THETA)


def test_an_inference_data_of_earlier_versions():
    class InferenceData:
        """Data sets as attributes, as in ArviZ before 1."""

        groups = ("posterior", "sample_stats")

    idata = InferenceData()
    for name, node in pymc_tree().children.items():
        setattr(idata, name, node.to_dataset())
    groups = read_groups(idata)
    np.testing.assert_array_equal(groups.draws["tau"], TAU)
    assert "diverging" in groups.sample_stats


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        (az.from_dict({"prior": DRAWS}), ValueError, "no group 'posterior'"),
        (pymc_tree(sample_stats={"energy": TAU[:, :9]}), ValueError, r"\(4, 9\) chains and draws"),
        (DRAWS, TypeError, "A dict of draws is passed as draws="),
        (3, TypeError, "got int"),
        (
            xr.DataTree.from_dict({"posterior": xr.Dataset({"tau": ("sample", TAU.ravel())})}),
            ValueError,
            r"'tau' in the group posterior has the dimensions \['sample'\]",
        ),
    ],
)
def test_trees_that_do_not_fit_are_refused(tree, error, message):
    with pytest.raises(error, match=message):
        read_groups(tree)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, ValueError, "exactly one of draws=, guide= and idata=; got none of them"),
        ({"draws": {}, "idata": 1}, ValueError, "got draws and idata"),
        ({"guide": model}, TypeError, "guide must be a pair"),
        ({"guide": (model, [1.0])}, TypeError, "must be a dict by name"),
        ({"draws": {"w": exact(9)}, "seed": -1}, ValueError, "seed must be"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(given, error, message):
    with pytest.raises(error, match=message):
        bk.assess(model, Y, **given)
