"""Groups, subjects and items."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro import plate, sample


def groups_of_counts(rng: np.random.Generator) -> Callable[[], None]:
    """Accidents on 30 roads with their own rates, non-centred."""
    y = rng.poisson(np.exp(1.5 + 0.5 * rng.normal(size=30)))

    def model():
        m, tau = sample("m", dist.Normal(0, 3)), sample("tau", dist.HalfNormal(1))
        with plate("road", 30):
            e = sample("e", dist.Normal(0, 1))
            sample("y", dist.Poisson(jnp.exp(m + tau * e)), obs=jnp.asarray(y))

    return model


def centred_subjects(rng: np.random.Generator) -> Callable[[], None]:
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


def intercepts_and_slopes(rng: np.random.Generator) -> Callable[[], None]:
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


def correlated_slopes(rng: np.random.Generator) -> Callable[[], None]:
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


def subjects_and_items(rng: np.random.Generator) -> Callable[[], None]:
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


def nested_classes(rng: np.random.Generator) -> Callable[[], None]:
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


def batters(rng: np.random.Generator) -> Callable[[], None]:
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


def four_crossed_factors(rng: np.random.Generator) -> Callable[[], None]:
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


def item_responses(rng: np.random.Generator) -> Callable[[], None]:
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


def growth_curves(rng: np.random.Generator) -> Callable[[], None]:
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


def measurement_error(rng: np.random.Generator) -> Callable[[], None]:
    """Regression on a blood value that was measured with error, 60 persons."""
    true = rng.normal(120, 12, 60)
    seen, y = true + rng.normal(0, 8, 60), 20 + 0.4 * true + rng.normal(0, 4, 60)

    def model():
        m, s = sample("m", dist.Normal(120, 20)), sample("s", dist.HalfNormal(20))
        a, b = sample("a", dist.Normal(0, 50)), sample("b", dist.Normal(0, 1))
        sd = sample("sd", dist.HalfNormal(10))
        with plate("person", 60):
            x = sample("x", dist.Normal(m, s))
            sample("seen", dist.Normal(x, 8.0), obs=jnp.asarray(seen))
            sample("y", dist.Normal(a + b * x, sd), obs=jnp.asarray(y))

    return model


def tumours(rng: np.random.Generator) -> Callable[[], None]:
    """Binomial counts in 40 groups, logit-normal rates, non-centred."""
    n = rng.integers(10, 50, 40)
    y = rng.binomial(n, 1 / (1 + np.exp(1.9 - rng.normal(0, 0.7, 40))))

    def model():
        m, tau = sample("m", dist.Normal(0, 2)), sample("tau", dist.HalfCauchy(1))
        with plate("group", 40):
            z = sample("z", dist.Normal(0, 1))
            logits = m + tau * z
            sample("y", dist.Binomial(jnp.asarray(n), logits=logits), obs=jnp.asarray(y))

    return model


def discriminating_items(rng: np.random.Generator) -> Callable[[], None]:
    """Two-parameter items: 80 persons x 12 items."""
    ability, difficulty = rng.normal(0, 1, 80), rng.normal(0, 1, 12)
    steep = rng.lognormal(0.2, 0.3, 12)
    y = rng.binomial(1, 1 / (1 + np.exp(-steep * (ability[:, None] - difficulty))))

    def model():
        with plate("item", 12):
            a, d = sample("a", dist.LogNormal(0, 0.5)), sample("d", dist.Normal(0, 2))
        with plate("person", 80):
            z = sample("z", dist.Normal(0, 1))
        sample("y", dist.Bernoulli(logits=a * (z[:, None] - d)).to_event(2), obs=jnp.asarray(y))

    return model


def censored_lifetimes(rng: np.random.Generator) -> Callable[[], None]:
    """Log-normal lifetimes of 60 bulbs of 6 makers, hours, half of them censored at 1,200."""
    maker = np.repeat(np.arange(6), 10)
    life = np.exp(7.0 + rng.normal(0, 0.3, 6)[maker] + rng.normal(0, 0.5, 60))
    ended, hours = life < 1200, np.minimum(life, 1200)

    def model():
        m, tau = sample("m", dist.Normal(7, 1)), sample("tau", dist.HalfNormal(0.5))
        sd = sample("sd", dist.HalfNormal(1))
        with plate("maker", 6):
            e = sample("e", dist.Normal(m, tau))
        sample(
            "y",
            dist.RightCensoredDistribution(dist.LogNormal(e[maker], sd), jnp.asarray(~ended)),
            obs=jnp.asarray(hours),
        )

    return model


MODELS = (
    groups_of_counts,
    centred_subjects,
    intercepts_and_slopes,
    correlated_slopes,
    subjects_and_items,
    nested_classes,
    batters,
    four_crossed_factors,
    item_responses,
    growth_curves,
    measurement_error,
    tumours,
    discriminating_items,
    censored_lifetimes,
)
