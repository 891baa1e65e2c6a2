"""Models that analysts type every week, in raw units, with data simulated from them.

Each function takes a generator and returns a NumPyro model without arguments.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import deterministic, plate, sample

from tests.inference.zoo.moments import Moments, on_grid

Model = Callable[[], None]


def linear_regression(rng: np.random.Generator) -> Model:
    """Rent by area, rooms and age, 120 flats."""
    X = np.stack([rng.normal(70, 25, 120), rng.poisson(3, 120), rng.uniform(0, 80, 120)], axis=1)
    y = 250.0 + X @ [9.0, 40.0, -2.0] + rng.normal(0, 90, 120)

    def model():
        b0, sd = sample("b0", dist.Normal(800, 500)), sample("sd", dist.Exponential(0.01))
        b = sample("b", dist.Normal(0, 100).expand([3]).to_event(1))
        sample("y", dist.Normal(b0 + jnp.asarray(X) @ b, sd), obs=jnp.asarray(y))

    return model


def logistic_regression(rng: np.random.Generator) -> Model:
    """Default by income and debt, 200 persons."""
    X = np.stack([rng.lognormal(10.3, 0.4, 200) / 1e4, rng.gamma(2.0, 2.0, 200)], axis=1)
    y = rng.binomial(1, 1 / (1 + np.exp(1.0 + 0.5 * X[:, 0] - 0.4 * X[:, 1])))

    def model():
        a, b = sample("a", dist.Normal(0, 5)), sample("b", dist.Normal(0, 2).expand([2]))
        sample("y", dist.Bernoulli(logits=a + jnp.asarray(X) @ b), obs=jnp.asarray(y))

    return model


def negative_binomial(rng: np.random.Generator) -> Model:
    """Visits to a doctor by age and insurance, 150 persons."""
    age, insured = rng.uniform(20, 80, 150), rng.binomial(1, 0.7, 150)
    mean = np.exp(0.2 + 0.015 * age + 0.4 * insured)
    y = rng.poisson(mean * rng.gamma(1.5, 1 / 1.5, 150))

    def model():
        a, b = sample("a", dist.Normal(0, 3)), sample("b", dist.Normal(0, 0.1))
        c, shape = sample("c", dist.Normal(0, 2)), sample("shape", dist.Gamma(2, 1))
        mean = jnp.exp(a + b * jnp.asarray(age) + c * jnp.asarray(insured))
        sample("y", dist.NegativeBinomial2(mean, shape), obs=jnp.asarray(y))

    return model


def ordered_grades(rng: np.random.Generator) -> Model:
    """Grades 0 to 3 by hours of study, 120 pupils."""
    hours = rng.gamma(3.0, 3.0, 120)
    y = np.sum(0.2 * hours[:, None] + rng.logistic(size=(120, 1)) > [0.0, 1.5, 3.5], axis=1)

    def model():
        b = sample("b", dist.Normal(0, 1))
        ordered = dist.transforms.OrderedTransform()
        cuts = sample("cuts", dist.TransformedDistribution(dist.Normal(0, 3).expand([3]), ordered))
        sample("y", dist.OrderedLogistic(b * jnp.asarray(hours), cuts), obs=jnp.asarray(y))

    return model


def weibull_survival(rng: np.random.Generator) -> Model:
    """Days to failure of 80 machines, censored after 400 days."""
    load = rng.uniform(0.5, 2.0, 80)
    t = 350.0 / load * rng.weibull(1.6, 80)
    failed, t = t < 400.0, np.minimum(t, 400.0)

    def model():
        a, b = sample("a", dist.Normal(6, 2)), sample("b", dist.Normal(0, 2))
        k = sample("k", dist.Gamma(2, 1))
        z = k * (jnp.log(t) - a - b * jnp.log(load))
        numpyro.factor("y", jnp.sum(failed * (jnp.log(k / t) + z) - jnp.exp(z)))

    return model


def shares(rng: np.random.Generator) -> Model:
    """Share of a budget spent on food by income, beta regression, 90 households."""
    income = rng.lognormal(8.0, 0.5, 90)
    mean = 1 / (1 + np.exp(-(6.0 - 0.9 * np.log(income))))
    y = np.clip(rng.beta(20 * mean, 20 * (1 - mean)), 1e-4, 1 - 1e-4)

    def model():
        a, b = sample("a", dist.Normal(0, 10)), sample("b", dist.Normal(0, 2))
        precision = sample("precision", dist.HalfNormal(50))
        mean = jax.nn.sigmoid(a + b * jnp.log(income))
        sample("y", dist.BetaProportion(mean, precision), obs=jnp.asarray(y))

    return model


def robust_regression(rng: np.random.Generator) -> Model:
    """Calibration of an instrument with outliers, 60 readings."""
    x = rng.uniform(0, 100, 60)
    y = 3.0 + 1.7 * x + 2.0 * rng.standard_t(2.0, 60)

    def model():
        a, b = sample("a", dist.Normal(0, 50)), sample("b", dist.Normal(0, 10))
        sd, nu = sample("sd", dist.HalfNormal(10)), sample("nu", dist.Gamma(2, 0.1))
        sample("y", dist.StudentT(nu, a + b * jnp.asarray(x), sd), obs=jnp.asarray(y))

    return model


def groups_of_counts(rng: np.random.Generator) -> Model:
    """Accidents on 30 roads with their own rates, non-centred."""
    y = rng.poisson(np.exp(1.5 + 0.5 * rng.normal(size=30)))

    def model():
        m, tau = sample("m", dist.Normal(0, 3)), sample("tau", dist.HalfNormal(1))
        with plate("road", 30):
            e = sample("e", dist.Normal(0, 1))
            sample("y", dist.Poisson(jnp.exp(m + tau * e)), obs=jnp.asarray(y))

    return model


def centred_subjects(rng: np.random.Generator) -> Model:
    """Reaction times of 20 subjects, 8 each, ms, centred."""
    who = np.repeat(np.arange(20), 8)
    y = 300.0 + rng.normal(0, 40, 20)[who] + rng.normal(0, 30, 160)

    def model():
        m, tau = sample("m", dist.Normal(300, 100)), sample("tau", dist.HalfNormal(100))
        sd = sample("sd", dist.HalfNormal(100))
        with plate("subject", 20):
            s = sample("s", dist.Normal(m, tau))
        sample("y", dist.Normal(s[who], sd), obs=jnp.asarray(y))

    return model


def _sleep(rng: np.random.Generator):
    who, day = np.repeat(np.arange(18), 10), np.tile(np.arange(10.0), 18)
    a, b = 250.0 + rng.normal(0, 25, 18), 10.0 + rng.normal(0, 6, 18)
    return who, day, a[who] + b[who] * day + rng.normal(0, 25, 180)


def intercepts_and_slopes(rng: np.random.Generator) -> Model:
    """Reaction times of 18 subjects over 10 days, ms, non-centred."""
    who, day, y = _sleep(rng)

    def model():
        a, b = sample("a", dist.Normal(250, 100)), sample("b", dist.Normal(0, 20))
        sd = sample("sd", dist.HalfNormal(50))
        ta, tb = sample("ta", dist.HalfNormal(50)), sample("tb", dist.HalfNormal(20))
        with plate("subject", 18):
            za, zb = sample("za", dist.Normal(0, 1)), sample("zb", dist.Normal(0, 1))
        mean = a + ta * za[who] + (b + tb * zb[who]) * day
        sample("y", dist.Normal(mean, sd), obs=jnp.asarray(y))

    return model


def correlated_slopes(rng: np.random.Generator) -> Model:
    """Reaction times of 18 subjects over 10 days, with correlated intercepts and slopes."""
    who, day, y = _sleep(rng)

    def model():
        a, b = sample("a", dist.Normal(250, 100)), sample("b", dist.Normal(0, 20))
        sd = sample("sd", dist.HalfNormal(50))
        tau = sample("tau", dist.HalfNormal(jnp.array([50.0, 20.0])).to_event(1))
        L = sample("L", dist.LKJCholesky(2, 2.0))
        with plate("subject", 18):
            z = sample("z", dist.Normal(0, 1).expand([2]).to_event(1))
        u = z @ (tau[:, None] * L).T
        mean = a + u[who, 0] + (b + u[who, 1]) * day
        sample("y", dist.Normal(mean, sd), obs=jnp.asarray(y))

    return model


def subjects_and_items(rng: np.random.Generator) -> Model:
    """24 subjects x 16 items, crossed intercepts and a slope, ms, non-centred."""
    who, item = np.repeat(np.arange(24), 16), np.tile(np.arange(16), 24)
    x = np.where((who + item) % 2 == 0, -0.5, 0.5)
    subject, slope = rng.normal(0, 60, 24), rng.normal(0, 15, 24)
    y = 500.0 + subject[who] + rng.normal(0, 35, 16)[item] + (30.0 + slope[who]) * x
    y = y + rng.normal(0, 70, len(y))

    def model():
        a, b = sample("a", dist.Normal(500, 200)), sample("b", dist.Normal(0, 50))
        sd = sample("sd", dist.HalfNormal(100))
        ts, ti = sample("ts", dist.HalfNormal(100)), sample("ti", dist.HalfNormal(100))
        tb = sample("tb", dist.HalfNormal(50))
        with plate("subject", 24):
            zs, zb = sample("zs", dist.Normal(0, 1)), sample("zb", dist.Normal(0, 1))
        with plate("item", 16):
            zi = sample("zi", dist.Normal(0, 1))
        mean = a + ts * zs[who] + ti * zi[item] + (b + tb * zb[who]) * x
        sample("y", dist.Normal(mean, sd), obs=jnp.asarray(y))

    return model


def nested_classes(rng: np.random.Generator) -> Model:
    """12 schools x 4 classes x 8 pupils, centred."""
    school = np.repeat(np.arange(12), 4)
    class_ = np.repeat(np.arange(48), 8)
    classes = rng.normal(0, 8, 12)[school] + rng.normal(0, 4, 48)
    y = 500.0 + classes[class_] + rng.normal(0, 20, 384)

    def model():
        m, sd = sample("m", dist.Normal(500, 50)), sample("sd", dist.HalfNormal(30))
        ts, tc = sample("ts", dist.HalfNormal(20)), sample("tc", dist.HalfNormal(20))
        with plate("school", 12):
            s = sample("s", dist.Normal(m, ts))
        with plate("class", 48):
            c = sample("c", dist.Normal(s[school], tc))
        sample("y", dist.Normal(c[class_], sd), obs=jnp.asarray(y))

    return model


def batters(rng: np.random.Generator) -> Model:
    """Hits of 20 batters, beta-binomial with mean and concentration."""
    n = rng.integers(30, 120, 20)
    y = rng.binomial(n, rng.beta(0.27 * 60, 0.73 * 60, 20))

    def model():
        mean = sample("mean", dist.Uniform(0, 1))
        concentration = sample("concentration", dist.LogNormal(3, 1))
        with plate("batter", 20):
            p = sample("p", dist.Beta(mean * concentration, (1 - mean) * concentration))
            sample("y", dist.Binomial(jnp.asarray(n), p), obs=jnp.asarray(y))

    return model


def horseshoe(rng: np.random.Generator) -> Model:
    """Regularised horseshoe, 30 columns of which 3 matter, 80 rows."""
    X = rng.normal(size=(80, 30))
    y = X[:, :3] @ [2.0, -1.5, 1.0] + rng.normal(size=80)

    def model():
        sd, tau = sample("sd", dist.HalfNormal(2)), sample("tau", dist.HalfCauchy(0.05))
        slab2 = sample("slab2", dist.InverseGamma(2, 8))
        with plate("column", 30):
            local, z = sample("local", dist.HalfCauchy(1)), sample("z", dist.Normal(0, 1))
        scale = jnp.sqrt(slab2 * local**2 / (slab2 + tau**2 * local**2))
        b = deterministic("b", z * tau * scale)
        sample("y", dist.Normal(jnp.asarray(X) @ b, sd), obs=jnp.asarray(y))

    return model


def penalised_spline(rng: np.random.Generator) -> Model:
    """A smooth curve by 20 hat functions with a random-walk penalty, 100 points."""
    x = np.sort(rng.uniform(0, 1, 100))
    y = 50.0 + 10.0 * np.sin(6.0 * x) + rng.normal(0, 3, 100)
    knots = np.linspace(0, 1, 20)
    B = np.maximum(0.0, 1.0 - np.abs(x[:, None] - knots) / (knots[1] - knots[0]))

    def model():
        sd, tau = sample("sd", dist.HalfNormal(10)), sample("tau", dist.HalfNormal(10))
        first = sample("first", dist.Normal(50, 30))
        z = sample("z", dist.Normal(0, 1).expand([19]).to_event(1))
        w = first + jnp.concatenate([jnp.zeros(1), tau * jnp.cumsum(z)])
        sample("y", dist.Normal(jnp.asarray(B) @ w, sd), obs=jnp.asarray(y))

    return model


def four_crossed_factors(rng: np.random.Generator) -> Model:
    """1,500 rows with intercepts of four crossed factors of 6 to 30 levels."""
    sizes = {"shop": 30, "product": 20, "weekday": 7, "season": 6}
    codes = {name: rng.integers(0, k, 1500) for name, k in sizes.items()}
    y = 40.0 + rng.normal(0, 6, 1500)
    for i, (name, k) in enumerate(sizes.items()):
        y = y + rng.normal(0, 2.0 + i, k)[codes[name]]

    def model():
        mean, sd = sample("m", dist.Normal(40, 20)), sample("sd", dist.HalfNormal(20))
        for name, k in sizes.items():
            tau = sample(f"tau_{name}", dist.HalfNormal(10))
            with plate(name, k):
                z = sample(f"z_{name}", dist.Normal(0, 1))
            mean = mean + tau * z[codes[name]]
        sample("y", dist.Normal(mean, sd), obs=jnp.asarray(y))

    return model


def item_responses(rng: np.random.Generator) -> Model:
    """100 persons x 10 items, abilities and difficulties."""
    ability, difficulty = rng.normal(0, 1.2, 100), rng.normal(0, 1, 10)
    y = rng.binomial(1, 1 / (1 + np.exp(difficulty - ability[:, None])))

    def model():
        ta = sample("ta", dist.HalfNormal(2))
        with plate("person", 100):
            z = sample("z", dist.Normal(0, 1))
        with plate("item", 10):
            d = sample("d", dist.Normal(0, 2))
        logits = ta * z[:, None] - d
        sample("y", dist.Bernoulli(logits=logits).to_event(2), obs=jnp.asarray(y))

    return model


def random_walk_of_counts(rng: np.random.Generator) -> Model:
    """100 weekly counts whose log rate wanders."""
    y = rng.poisson(np.exp(2.0 + np.cumsum(rng.normal(0, 0.15, 100))))

    def model():
        first, tau = sample("first", dist.Normal(2, 2)), sample("tau", dist.HalfNormal(0.5))
        z = sample("z", dist.Normal(0, 1).expand([99]).to_event(1))
        rate = first + jnp.concatenate([jnp.zeros(1), tau * jnp.cumsum(z)])
        sample("y", dist.Poisson(jnp.exp(rate)).to_event(1), obs=jnp.asarray(y))

    return model


def growth_curves(rng: np.random.Generator) -> Model:
    """Logistic growth of 8 plants, 7 weeks each, with their own final heights, cm."""
    who, week = np.repeat(np.arange(8), 7), np.tile(np.arange(1.0, 8.0), 8)
    final = rng.normal(120, 15, 8)
    y = final[who] / (1 + np.exp(-(week - 4.0) / 1.1)) + rng.normal(0, 5, 56)

    def model():
        m, tau = sample("m", dist.Normal(100, 50)), sample("tau", dist.HalfNormal(30))
        mid, rate = sample("mid", dist.Normal(4, 2)), sample("rate", dist.LogNormal(0, 1))
        sd = sample("sd", dist.HalfNormal(20))
        with plate("plant", 8):
            final = sample("final", dist.Normal(m, tau))
        mean = final[who] * jax.nn.sigmoid((week - mid) / rate)
        sample("y", dist.Normal(mean, sd), obs=jnp.asarray(y))

    return model


STUDIES = np.array([4.0, -2.0, 9.0])
HALF_CAUCHY = dist.HalfCauchy(1.0)
HALF_T = dist.FoldedDistribution(dist.StudentT(3.0, 0.0, 2.5))
CLUSTERS = np.array([-8.0, -7.6, -7.9, 0.0, 8.0, 8.2])


def three_studies(prior: dist.Distribution) -> Model:
    """Three studies with known errors: mean and sd between, non-centred."""

    def model():
        m, tau = sample("m", dist.Normal(0, 10)), sample("tau", prior)
        with plate("study", 3):
            e = sample("e", dist.Normal(0, 1))
            sample("y", dist.Normal(m + tau * e, 1.0), obs=jnp.asarray(STUDIES))

    return model


def three_studies_truth(prior: dist.Distribution) -> dict[str, Moments]:
    """Moments of tau by quadrature: y has variance 1 + tau^2, and a common variance of 100."""
    tau = np.exp(np.linspace(-8.0, 12.0, 20_001))
    v = 1.0 + tau**2
    log_p = np.log(tau) + np.asarray(prior.log_prob(jnp.asarray(tau))) - np.log(v)
    log_p -= 1.5 * np.var(STUDIES) / v + 0.5 * np.log(v + 300.0)
    return on_grid(log_p - 1.5 * np.mean(STUDIES) ** 2 / (v + 300.0), tau=tau)


def three_studies_cauchy(rng: np.random.Generator) -> Model:
    """Three studies, half-Cauchy sd."""
    return three_studies(HALF_CAUCHY)


def three_studies_half_t(rng: np.random.Generator) -> Model:
    """Three studies, half-t sd."""
    return three_studies(HALF_T)


def two_clusters(rng: np.random.Generator) -> Model:
    """Location of six values in two clusters, Student t noise."""

    def model():
        m = sample("m", dist.Normal(0, 20))
        sample("y", dist.StudentT(1.5, m, 0.5).expand([6]).to_event(1), obs=jnp.asarray(CLUSTERS))

    return model


def two_clusters_truth() -> dict[str, Moments]:
    """Moments by quadrature."""
    m = np.linspace(-100.0, 100.0, 400_001)
    squares = np.square((CLUSTERS[:, None] - m) / 0.5)
    return on_grid(-0.5 * (m / 20.0) ** 2 - 1.25 * np.sum(np.log1p(squares / 1.5), axis=0), m=m)


MODELS = (
    linear_regression,
    logistic_regression,
    negative_binomial,
    ordered_grades,
    weibull_survival,
    shares,
    robust_regression,
    groups_of_counts,
    centred_subjects,
    intercepts_and_slopes,
    correlated_slopes,
    subjects_and_items,
    nested_classes,
    batters,
    horseshoe,
    penalised_spline,
    four_crossed_factors,
    item_responses,
    random_walk_of_counts,
    growth_curves,
    three_studies_cauchy,
    three_studies_half_t,
    two_clusters,
)
BY_NAME = {model.__name__: model for model in MODELS}
# Exact moments where one scale or location is left, whatever the seed.
EXACT = {
    "three_studies_cauchy": lambda: three_studies_truth(HALF_CAUCHY),
    "three_studies_half_t": lambda: three_studies_truth(HALF_T),
    "two_clusters": two_clusters_truth,
}
