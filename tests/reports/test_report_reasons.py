"""Reasons in a report for parts that cannot be assessed."""

from dataclasses import replace

import arviz as az
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from arviz_stats.base import array_stats

import bayeskern as bk
from bayeskern.diagnostics.leave_one_out.psis import why_unavailable
from bayeskern.inference.approximation.psis import has_even_tail
from bayeskern.inference.assessment import power_scaling
from bayeskern.inference.assessment.approximation import DIFFERENCE_LIMITS
from bayeskern.inference.assessment.convergence import GOOD_RHAT
from bayeskern.inference.assessment.smc import _particle_problem
from bayeskern.reports import evidence, report
from bayeskern.reports.blocks import Block
from bayeskern.reports.sections import classes, convergence, fit, sensitivity
from bayeskern.reports.subject import Subject
from tests.reports.pages import page_of

rng = np.random.default_rng(0)
Y = rng.normal(size=(8, 10))
QUICK = {"method": "laplace", "seed": 0, "progress": False}


def flat(y):
    mu = numpyro.sample("mu", dist.Uniform(-10.0, 10.0))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def improper(y):
    mu = numpyro.sample("mu", dist.ImproperUniform(dist.constraints.real, (), ()))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def grouped(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    theta = numpyro.sample("theta", dist.Normal(mu, 1.0).expand([len(y)]).to_event(1))
    numpyro.sample("y", dist.Normal(theta[:, None], 1.0), obs=y)


def in_a_plate(y):
    with numpyro.plate("column", 3):
        beta = numpyro.sample("beta", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(beta.sum(), 1.0), obs=y)


def slashed(y):
    a = numpyro.sample("a/b", dist.Normal(0.0, 1.0))
    b = numpyro.sample("a.b", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(a + b, 1.0), obs=y)


def said(section, subject) -> str:
    return page_of(section(subject)).words


def sentences(facts) -> str:
    block = Block("verdict", "evidence", e=evidence.measures(facts))
    return page_of([block]).words


@pytest.mark.slow
def test_flat_prior_is_not_scaled():
    assert "prior of mu is the same at" in said(
        sensitivity.sensitivity, Subject(bk.infer(flat, Y[0], **QUICK))
    )


@pytest.mark.slow
def test_priors_at_the_top_are_scaled():
    text = said(sensitivity.sensitivity, Subject(bk.infer(grouped, Y, **QUICK)))
    assert "Scaled: the priors of mu." in text
    assert "Not scaled: the priors of theta." in text


@pytest.mark.slow
def test_plate_without_hyperpriors_is_scaled():
    subject = Subject(bk.infer(in_a_plate, Y, **{**QUICK, "method": "map"}))
    assert power_scaling.scaled_priors(subject.posterior.target) == ("beta",)


@pytest.mark.slow
def test_improper_prior_has_no_log_evidence():
    posterior = bk.infer(improper, Y[0], **QUICK)
    assert posterior.log_evidence is None and posterior.elbo is not None
    page = page_of(convergence.convergence(Subject(posterior)))
    assert all("evidence" not in table[0] for table in page.tables)


@pytest.mark.slow
def test_few_draws_have_no_loo():
    method = bk.NUTS(chains=2, warmup=10, draws=10)
    posterior = bk.infer(flat, Y[0], method=method, seed=0, progress=False)
    with pytest.raises(ValueError, match="n_draws_tail"):
        az.loo(posterior.to_arviz())
    page = page_of(fit.fit(Subject(posterior)))
    assert "LOO needs at least 25 draws" in page.words and page.count("figure") == 2
    # R-hat is undefined for chains of one draw.
    stats = {name: values[:, :1] for name, values in posterior.sample_stats.items()}
    draws = {name: values[:, :1] for name, values in posterior.draws.items()}
    fitted = replace(posterior.fit, sample_stats=stats, z=posterior.z[:, :1])
    single = replace(posterior, fit=fitted, draws=draws)
    assert said(convergence.convergence, Subject(single)).startswith("Chains of 1 draw say nothing")


@pytest.mark.slow
def test_posterior_without_arviz_groups_has_a_report(tmp_path):
    posterior = bk.infer(slashed, Y[0], **QUICK)
    with pytest.raises(ValueError, match="would have the same name") as error:
        posterior.to_arviz()
    text = report(posterior, tmp_path / "r.html").read_text(encoding="utf-8")
    assert str(error.value) in text.replace("&#39;", "'")
    assert "a/b" in text and "Median, 50 % interval" in text


@pytest.mark.parametrize("count", [40, 1000])
@pytest.mark.parametrize("same", [True, False])
def test_even_tails_are_refused_by_arviz(count, same):
    log = np.sort(np.random.default_rng(count).normal(size=count))
    if same:
        log[count // 2 :] = log[-1]
    assert bool(has_even_tail(log)) is same
    if same:
        with pytest.raises(ValueError, match="tail values"):
            array_stats.psislw(-log)
    else:
        assert np.isfinite(array_stats.psislw(-log)[1])


def test_facts_of_the_verdict():
    facts = sentences({"rhat": 1.3, "rhat_at": "s", "modes_missed": 1, "khat": -np.inf})
    assert "Largest R-hat 1.3 s below 1.01" in facts
    assert "k-hat of the weights far below 0" in facts
    assert "the draws miss 1 - 0" in facts
    assert "k-hat of the weights 0.5 - below 0.7" in sentences({"khat": 0.5})


def test_good_values_are_the_limits_of_the_verdict():
    assert evidence.good_values()["rhat"] == f"below {GOOD_RHAT}"
    assert (
        evidence.good_values()["log_sd_ratio"]
        == f"below {DIFFERENCE_LIMITS['log_sd_ratio'].good:.2f}"
    )
    assert evidence.good_values()["residual"] == "below 1e-06"


def test_score_of_the_overall_share():
    y = (rng.random(37) < 0.3).astype(float)
    rest = np.array([np.delete(y, i).mean() for i in range(len(y))])
    np.testing.assert_allclose(classes.overall_score(y, True), np.mean((y - rest) ** 2), rtol=1e-12)
    np.testing.assert_allclose(
        classes.overall_score(y, False), np.mean((y - y.mean()) ** 2), rtol=1e-12
    )


def test_loo_needs_finite_log_likelihoods():
    log = np.where(np.arange(100) < 7, np.nan, -1.0)
    assert "not finite at 7 of 100 draws" in why_unavailable(np.tile(log[:, None], (1, 3)))


def test_good_values_of_particles_are_those_without_a_caution():
    sizes = {"ess_bulk": 1e4, "ess_bulk_at": "x", "ess_tail": 1e4, "ess_tail_at": "x"}
    good = sizes | {"log_evidence_error": 0.01, "unmoved": 0.0, "acceptance": 0.9}
    assert _particle_problem(good) is None
    for name in ("ess_bulk", "ess_tail", "log_evidence_error", "unmoved", "acceptance"):
        side, limit = evidence.good_values()[name].split()
        for factor, is_good in ((1.01, side == "above"), (0.99, side == "below")):
            problem = _particle_problem(good | {name: factor * float(limit)})
            assert (problem is None) == is_good, name
