"""Posteriors in files load unchanged."""

import collections
import dataclasses
import json
import math
from pathlib import Path

import arviz as az
import h5py
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
import xarray as xr
from numpyro import handlers

import bayeskern as bk
from bayeskern.core.json_arrays import pack, unpack
from bayeskern.core.netcdf import to_bytes
from bayeskern.inference import ImportanceSampling, Laplace
from bayeskern.inference.estimate import Estimate
from bayeskern.inference.posterior import netcdf
from bayeskern.inference.verdict import Trust
from bayeskern.kernels import RBF, Matern32
from tests.inference.any_draws import AnyDraws

RNG = np.random.default_rng(0)
X = RNG.normal(size=12)
Y = RNG.normal(size=12)


def model(x, y=None, *, scale=1.0, kind="plain"):
    b = numpyro.sample("b", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    numpyro.deterministic("sum", b.sum())
    with numpyro.plate("n", len(x)):
        numpyro.sample("y", dist.Normal(b[0] + b[1] * x, scale), obs=y)


def fit(model, *args, method=None, **kwargs):
    method = Laplace(draws=300) if method is None else method
    return bk.infer(model, *args, method=method, progress=False, **kwargs)


@pytest.fixture(scope="module")
def posterior():
    return fit(model, X, Y)


@pytest.fixture
def saved(posterior, tmp_path):
    """A posterior that is saved as p.nc."""
    posterior.save(tmp_path / "p.nc")
    return posterior


def assert_identical(a, b):
    """Equal in type, shape and every bit (NaN equals NaN)."""
    assert type(a) is type(b), (a, b)
    if isinstance(a, np.ndarray | jax.Array):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_identical(a[key], b[key])
    elif isinstance(a, tuple | list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_identical(x, y)
    else:
        assert a == b or (a != a and b != b)


FIELDS = (
    "method", "draws", "z", "log_q", "weighted", "log_evidence", "timing", "trace", "sample_stats",
    "coords", "dims", "seed", "elbo", "log_ratios",
)  # fmt: skip


def assert_same_posterior(a, b):
    for field in FIELDS:
        assert_identical(getattr(a, field), getattr(b, field))
    assert (a.trust.verdict, a.trust.advice) == (b.trust.verdict, b.trust.advice)
    assert list(a.trust.evidence) == list(b.trust.evidence)
    for key, value in a.trust.evidence.items():
        other = b.trust.evidence[key]
        assert value == other or (math.isnan(value) and math.isnan(other))


# -- round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [Laplace(draws=300), ImportanceSampling(draws=300), "map"])
@pytest.mark.slow
def test_saved_posterior_loads_unchanged(tmp_path, method):
    axes = {"coords": {"n": list("abcdefghijkl")}, "dims": {"b": ["k"]}}
    posterior = fit(model, X, Y, method=method, scale=0.5, seed=17, **axes)
    posterior.save(tmp_path / "p.nc")
    loaded = bk.load(tmp_path / "p.nc")
    assert isinstance(loaded, bk.Posterior)
    assert_same_posterior(posterior, loaded)
    assert repr(loaded).replace("Stored", "") == repr(posterior)
    pd.testing.assert_frame_equal(
        pd.DataFrame(loaded.summary(round_to="none")),
        pd.DataFrame(posterior.summary(round_to="none")),
    )
    assert loaded.to_arviz().equals(posterior.to_arviz())
    if method == "map":
        with pytest.raises(ValueError, match="point estimate"):
            loaded.log_likelihood()
    else:
        assert_identical(loaded.log_likelihood(), posterior.log_likelihood())


@pytest.mark.slow
def test_unusual_values_load_unchanged(posterior, tmp_path):
    Attempt = collections.namedtuple("Attempt", "method seconds verdict")
    fitted = dataclasses.replace(
        posterior.fit,
        assess=lambda _: Trust(
            "caution",
            "A “quoted” advice.",
            {"nan": math.nan, "inf": -math.inf, "n": 3, "who": None, "yes": True},
        ),
        trace={"elbo": np.array([np.nan, -np.inf, 0.1]), "none": np.zeros(0), "k": np.array(3)},
        sample_stats={
            "diverging": RNG.random((1, 300)) < 0.5,
            "steps": np.arange(300, dtype=np.int32)[None],
            "energy": RNG.normal(size=(1, 300)).astype(np.float32),
        },
        attempts=({"method": "laplace", "k": math.inf}, Attempt("nuts", 1.5, "good")),
    )
    odd = dataclasses.replace(
        posterior,
        fit=fitted,
        timing={"compile": 1e-300, "run": 0.1 + 0.2, "total": math.nan},
        log_evidence=Estimate(-1.5, math.nan),
        coords={"n": np.arange("2020-01", "2021-01", dtype="datetime64[M]"), "k": ("x", "y")},
        dims={"b": ("k",)},
    )
    odd.save(tmp_path / "p.nc")
    loaded = bk.load(tmp_path / "p.nc")
    assert_same_posterior(odd, loaded)
    assert loaded.attempts == odd.attempts and loaded.attempts[1].verdict == "good"
    # Saved again from the loaded posterior, without the model.
    loaded.save(tmp_path / "again.nc")
    assert_same_posterior(odd, bk.load(tmp_path / "again.nc"))


@pytest.mark.parametrize(
    "value",
    [
        np.array([np.nan, -0.0, 5e-324]),
        np.float32([1.5, np.inf]),
        np.array(["a", "bcd"]),
        np.array([True, False]),
        np.arange(3, dtype="m8[s]"),
        np.array([1 + 2j]),
        np.zeros((0, 3), np.int8),
        jnp.arange(3),
        {"a": [1, (2.5, None, "x")], 3: {"b": math.inf}},
        {"dict": {"tuple": 1}},
    ],
)
def test_packed_values_unpack_unchanged(value):
    arrays = {}
    text = json.dumps(pack(value, arrays), allow_nan=False)
    assert_identical(unpack(json.loads(text), arrays), value)
    assert all(a.dtype.kind in "iuf" for a in arrays.values())


@pytest.mark.slow
def test_site_names_with_slashes_load_unchanged(tmp_path):
    def scoped(y):
        with handlers.scope(prefix="part"):
            mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    posterior = fit(scoped, Y, method=AnyDraws(300))
    posterior.save(tmp_path / "p.nc")
    loaded = bk.load(tmp_path / "p.nc")
    assert list(loaded.draws) == ["part/mu"] and list(loaded.log_likelihood()) == ["part/y"]
    assert_same_posterior(posterior, loaded)


@pytest.mark.slow
def test_constant_log_likelihood_loads_unchanged(tmp_path):
    posterior = fit(bk.GPRegression(RBF(), noise=0.1), X, Y, method="exact")
    posterior.save(tmp_path / "p.nc")
    assert_identical(bk.load(tmp_path / "p.nc").log_likelihood(), posterior.log_likelihood())


@pytest.mark.slow
def test_xarray_arviz_and_h5py_read_the_file(saved, tmp_path):
    with xr.open_datatree(tmp_path / "p.nc", engine="h5netcdf") as found:
        np.testing.assert_array_equal(found["posterior/b"], saved.draws["b"])
        assert np.isfinite(az.loo(found).elpd)
        assert len(az.summary(found)) == 3
    with h5py.File(tmp_path / "p.nc") as file:
        assert "b" in file["posterior"] and file["bayeskern"].attrs["format"]


# -- prediction ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_loaded_posterior_predicts_with_its_model(tmp_path):
    posterior = fit(model, X, Y, scale=0.5, kind="other")
    posterior.save(tmp_path / "p.nc")
    with pytest.raises(ValueError, match=r"bk.load\(path, model=...\)"):
        bk.load(tmp_path / "p.nc").predict(X)
    loaded = bk.load(tmp_path / "p.nc", model=model)
    before, after = (p.predict(X[:4], scale=0.5, seed=3).draws for p in (posterior, loaded))
    np.testing.assert_array_equal(before, after)
    assert loaded.target.kwargs == {"scale": 0.5, "kind": "other"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "other",
    [
        bk.GPRegression(RBF(lengthscale=dist.LogNormal(0.0, 0.4)), noise=0.1),
        bk.GPRegression(RBF(lengthscale=dist.LogNormal(0.0, 0.3)), noise=0.2),
        bk.GPRegression(Matern32(lengthscale=dist.LogNormal(0.0, 0.3)), noise=0.1),
        bk.GPRegression(RBF(dist.LogNormal(np.zeros(1), 0.3).to_event(1)), noise=0.1),
    ],
    ids=["prior", "noise", "kernel", "shape"],
)
def test_other_model_is_refused(tmp_path, other):
    gp = bk.GPRegression(RBF(lengthscale=dist.LogNormal(0.0, 0.3)), noise=0.1)
    fit(gp, X, Y, method=AnyDraws(300)).save(tmp_path / "p.nc")
    assert bk.load(tmp_path / "p.nc", model=gp).predict(X[:3]).mean.shape == (3,)
    with pytest.raises(ValueError, match="model is not the fitted model"):
        bk.load(tmp_path / "p.nc", model=other)


@pytest.mark.slow
def test_loaded_posterior_has_the_fitted_form_of_its_model(tmp_path):
    gp = bk.LatentGP(RBF(lengthscale=dist.LogNormal(0.0, 0.5)), bk.likelihoods.Poisson())
    # Laplace's method integrates f out, SVI samples it.
    for method, latents in (("laplace", ["lengthscale"]), ("svi", ["lengthscale", "white"])):
        fit(gp, X, np.arange(12) % 3, method=method).save(tmp_path / "p.nc")
        loaded = bk.load(tmp_path / "p.nc", model=gp)
        assert [site.name for site in loaded.target.latents] == latents
        bk.report(loaded, path=tmp_path / "r.html")
        assert "could not be made" not in (tmp_path / "r.html").read_text()


@pytest.mark.slow
def test_regression_on_named_columns_loads_unchanged(tmp_path):
    frame = pd.DataFrame({"age": X, "year": Y})
    gp = bk.GPRegression(
        RBF(lengthscale=dist.LogNormal(0.0, 0.3)).on(["year"]) + RBF().on(["age"]), noise=0.1
    )
    posterior = fit(gp, frame, X * Y, method=AnyDraws(300))
    posterior.save(tmp_path / "p.nc")
    loaded = bk.load(tmp_path / "p.nc", model=gp)
    new = pd.DataFrame({"year": [0.3, 0.1], "age": [1.0, -1.0]})
    before, after = posterior.predict(new), loaded.predict(new)
    np.testing.assert_array_equal(before.mean, after.mean)
    np.testing.assert_array_equal(before.sd, after.sd)
    assert_identical(posterior.log_likelihood(), loaded.log_likelihood())


@pytest.mark.slow
def test_argument_that_cannot_be_saved(tmp_path):
    def with_function(link, y=None):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(link(mu), 1.0), obs=y)

    posterior = fit(with_function, jnp.tanh, Y, method=AnyDraws(300))
    posterior.save(tmp_path / "p.nc")
    loaded = bk.load(tmp_path / "p.nc", model=with_function)
    assert_same_posterior(posterior, loaded)
    with pytest.raises(ValueError, match="argument 1 .*not kept in a file"):
        loaded.predict(jnp.tanh)


# -- other files ---------------------------------------------------------------------------------


def test_other_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        bk.load(tmp_path / "none.nc")
    (tmp_path / "text.nc").write_text("not a posterior")
    with pytest.raises(ValueError, match="not a netCDF file"):
        bk.load(tmp_path / "text.nc")
    az.from_dict({"posterior": {"a": np.zeros((1, 10))}}).to_netcdf(
        tmp_path / "arviz.nc", engine="h5netcdf"
    )
    with pytest.raises(ValueError, match="not written by posterior.save"):
        bk.load(tmp_path / "arviz.nc")


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (99, "a newer version of bayeskern .format 99, this version reads 4.: update bayeskern"),
        (1, "an older version of bayeskern .format 1, this version reads 4.: fit again"),
    ],
)
def test_other_version_of_the_format_is_refused(posterior, tmp_path, version, message):
    other = dataclasses.replace(netcdf.FORMAT, version=version)
    content = to_bytes(posterior.to_arviz(), netcdf.state_of(posterior), other)
    (tmp_path / "p.nc").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        bk.load(tmp_path / "p.nc")


def test_missing_checksum_is_an_error(saved, tmp_path):
    with h5py.File(tmp_path / "p.nc", "a") as file:
        file.attrs["remark"] = "changed"
    with pytest.raises(ValueError, match="its checksum is wrong or missing"):
        bk.load(tmp_path / "p.nc")


def test_failed_save_leaves_the_old_file(saved, tmp_path, monkeypatch):
    def fail(path, content):
        path.write_text("half")
        raise OSError("disk full")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(OSError, match="disk full"):
        saved.save(tmp_path / "p.nc")
    assert [f.name for f in tmp_path.iterdir()] == ["p.nc"]
    assert_same_posterior(saved, bk.load(tmp_path / "p.nc"))


def test_saving_to_a_folder_is_refused(saved, tmp_path):
    with pytest.raises(OSError, match="is a folder; give a file in it"):
        saved.save(tmp_path)
