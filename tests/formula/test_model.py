"""The model in mathematics, labels of levels, and the form that samplers see."""

import dataclasses

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro import handlers

from bayeskern.formula import regression
from bayeskern.inference.model.centring import noncentred
from bayeskern.inference.model.target import Target
from tests.formula.dense import table

FRAME = table().assign(count=lambda f: np.round(f["e"]).astype(int))


def test_model_in_mathematics_names_the_terms_and_priors():
    priors = {"x": dist.Normal(0.0, 2.0), "sd(Intercept | g)": dist.HalfNormal(1.5)}
    model = regression(["y ~ x + s(z) + (1 | g)", "sigma ~ x"], FRAME, priors=priors)
    lines = model.describe().splitlines()
    assert lines[:3] == [
        "y ~ Gaussian(eta, sigma), link identity",
        "eta = Intercept + x + s(z) + (1 | g)",
        "log sigma = sigma_Intercept + sigma_x",
    ]
    assert "x ~ Normal(0, 2)" in lines
    assert "sd(Intercept | g) ~ HalfNormal(1.5)" in lines
    assert {line.partition(" ~ ")[0] for line in lines[3:]} == set(model.priors_used)


@pytest.mark.parametrize("formula", ["y ~ f", "y ~ C(f)", "y ~ C(f, contr.treatment('b'))"])
def test_levels_are_labels_and_are_compared_with_the_level_that_has_no_column(formula):
    model = regression(formula, FRAME)
    (site,) = [site for site in model.dims if site != "Intercept"]
    base = "b" if "'b'" in formula else "a"
    others = [level for level in "abc" if level != base]
    assert model.coords[f"{site} column"] == others
    draws = {"Intercept": np.zeros(2), site: np.ones((2, 2)), "sigma": np.ones(2)}
    starts = [sentence.partition(" changes")[0] for sentence in model.sentences(draws)]
    assert starts == [f"f = {level} rather than {base}" for level in others]


def sentences_of(formula, effects, scales=()):
    """The sentences of a formula up to their numbers, at the same effects in two draws."""
    model = regression(formula, FRAME)
    draws = {"Intercept": np.zeros(2)} | {site: np.stack([b, b]) for site, b in effects.items()}
    draws |= {f"sd({name} | h)": np.array([1.0, 1.2]) for name in scales}
    return [sentence.partition(" by ")[0] for sentence in model.sentences(draws)]


def test_sentences_call_columns_by_what_changes():
    words = sentences_of(
        "y ~ log(e) + mo(o) + (x | h)", {"log(e)": 0.5, "mo(o)": 2.0}, ("Intercept", "x")
    )
    model_words = [
        "One unit more of log(e) changes y",
        "o = 4 rather than 1 changes y",
        "Groups of h differ in y where x is 0",
        "Groups of h differ in the effect of x",
    ]
    assert words == model_words


def test_sentences_leave_out_effects_that_depend_on_other_terms():
    effects = {"poly(x, 2)": np.ones(2), "z": 1.0, "f": np.ones(2), "z:f": np.ones(2), "e": 3.0}
    words = sentences_of("y ~ poly(x, 2) + z * f + e + o + s(o)", effects | {"o": 1.0})
    assert words[0] == "One unit more of e changes y"
    assert words[1].startswith("No single number is the effect of f, o, x or z")
    assert len(words) == 2


def test_axes_have_the_size_of_their_labels():
    formula = "y ~ f + s(z, k=5, by=g) + gp(x, by=h) + rw(o, by=g) + mo(o, by=h) + (x | h)"
    model = regression(formula, FRAME)
    sites = handlers.trace(handlers.seed(model, 0)).get_trace()
    for site, axes in model.dims.items():
        shape = np.shape(sites[site]["value"])
        assert len(axes) == len(shape), site
        for axis, size in zip(axes, shape, strict=True):
            assert len(model.coords.get(axis, range(size))) == size, site


def test_unused_categories_have_no_effect():
    kinds = pd.Categorical(np.resize(["u", "v"], len(FRAME)), ["u", "unused", "v"])
    model = regression("y ~ kind", FRAME.assign(kind=kinds))
    assert model.common.source.value.names == ("Intercept", "kind[T.v]")


def test_column_with_the_name_of_a_transform_is_a_column():
    frame = FRAME.rename(columns={"x": "scale"})
    frame.loc[3, "scale"] = np.nan
    with pytest.warns(UserWarning, match="1 row of 48 lacks a value in scale"):
        model = regression("y ~ scale", frame)
    assert len(model.y) == 47


def test_samplers_may_centre_sampled_effects_and_only_these():
    model = regression("count ~ x + (x | g)", FRAME, family="poisson")
    args = model.prepare()[1]
    assert noncentred(Target.from_model(model, args, {})) is None
    sampled = dataclasses.replace(model, integrate=False)
    form = noncentred(Target.from_model(sampled, args, {}))
    assert {*form.model.centredness} == {"Intercept | g", "x | g"}
