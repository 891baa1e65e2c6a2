"""What linear models share: features, priors, the NumPyro model itself, and what it predicts."""

from __future__ import annotations

import dataclasses
import warnings
from typing import ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

from bayeskern.core import validation
from bayeskern.core.batching import CHUNK, batch_size, evenly
from bayeskern.likelihoods import Likelihood
from bayeskern.likelihoods.labels import decode
from bayeskern.linear.design import Aside, Design
from bayeskern.linear.intercept import FIXED, Intercept, as_intercept
from bayeskern.linear.priors import Prior, as_prior
from bayeskern.linear.statistics import Statistics
from bayeskern.prediction.empirical import SampledPrediction
from bayeskern.prediction.mixture import MOST_DRAWS
from bayeskern.prediction.response import ResponsePrediction, from_prior

# Singular values below this share of the largest one, of columns brought to one length, are none.
RANK = 1e-10
# A column whose sd is below this share of its size is constant.
CONSTANT = 1e-10
# A point estimate has one draw of the weights; so many observations are drawn at it.
AT_A_POINT = 1000
# A prediction has at most so many numbers, draws times points, as long as it keeps MOST_DRAWS.
NUMBERS = 2 * 10**7


class LinearModel(eqx.Module):
    """y ~ likelihood(eta), eta = intercept + features(x)'weights.

    Sites: `weights` (p,), or (outputs, p); `intercept`; the prior's, under `prior.`; those of the
    likelihood by their names; the observed `y`. A copy that `prepare` returned takes features.
    """

    prior: Prior = eqx.field(default=None, converter=as_prior, kw_only=True)
    intercept: Intercept | None = eqx.field(default=True, converter=as_intercept, kw_only=True)
    #: how features are made; set when the first data were seen
    design: Aside | None = eqx.field(static=True, default=None, kw_only=True)
    #: whether defaults are set, so that X holds features and y is checked
    prepared: bool = eqx.field(static=True, default=False, kw_only=True)
    #: the statistics of the rows given to `update`, and of all of them
    seen: Statistics | None = eqx.field(default=None, kw_only=True)
    statistics: Statistics | None = eqx.field(default=None, kw_only=True)

    #: what the argument is called that holds the likelihood
    noise_name: ClassVar[str]

    @property
    def noise_model(self) -> Likelihood:
        """The likelihood, whatever the argument is called."""
        return getattr(self, self.noise_name)

    def with_noise_model(self, likelihood: Likelihood) -> Self:
        return dataclasses.replace(self, **{self.noise_name: likelihood})

    def __repr__(self) -> str:
        features = self.features.value
        parts = [] if features is None else [f"features={features!r}"]
        parts += [f"prior={self.prior!r}", f"{self.noise_name}={self.noise_model!r}"]
        return f"{type(self).__name__}({', '.join(parts)}, intercept={self.intercept or False!r})"

    # -- the NumPyro model ------------------------------------------------------------------------

    def __call__(self, X=None, y=None, extra=None, **extras):
        if not self.prepared:
            # NumPyro's own inference traces the model, though the data are known.
            with jax.ensure_compile_time_eval():
                model, args = self.prepare(X, y, **extras)
            return model(*args)
        likelihood, weights, intercept = self.parameters(X.shape[1])
        noise = getattr(likelihood, "noise", None)
        if self.seen is not None:
            level = 0.0 if intercept is None else intercept
            numpyro.factor("seen", self.seen.log_likelihood(weights, level, noise))
        eta = linear_predictor(X, weights, intercept)
        return numpyro.sample("y", likelihood.distribution(eta, **(extra or {})), obs=y)

    def parameters(self, p: int):
        """Sample the likelihood's parameters, the weights, and the intercept (None without one)."""
        likelihood = self.noise_model.sample("")
        # Only Gaussian noise has a variance of its own.
        noise = getattr(likelihood, "noise", None)
        own = self.prior.distribution(p, noise)
        outputs = likelihood.outputs
        dims = ["feature"] if outputs is None else ["output", "feature"]
        if outputs is not None:
            own = own.expand([outputs]).to_event(1)
        weights = numpyro.sample("weights", own, infer={"event_dims": dims})
        if self.intercept is None:
            return likelihood, weights, None
        return likelihood, weights, self._sample_intercept(weights, noise)

    def _sample_intercept(self, weights, noise):
        loc = self.intercept.loc - weights @ self.intercept.center
        if self.intercept.is_fixed:
            return numpyro.deterministic("intercept", loc)
        if self.intercept.is_flat:
            own = dist.ImproperUniform(dist.constraints.real, loc.shape, ())
        else:
            sd = self.intercept.sd * (jnp.sqrt(noise) if self.prior.per_noise else 1.0)
            own = dist.Normal(loc, sd)
        infer = {"event_dims": ["output"]} if loc.ndim else {}
        return numpyro.sample("intercept", own.to_event(loc.ndim), infer=infer)

    # -- data -------------------------------------------------------------------------------------

    def prepare(self, X=None, y=None, **extra) -> tuple[Self, tuple]:
        """Make the features, check the data and set default priors: a model, and its arguments."""
        if X is None:
            raise ValueError("X is missing: give the inputs, a row for each observation.")
        design, made = self._designed(X, "X")
        likelihood, y, extra = self.noise_model.prepare(y, len(made), extra)
        intercept = self.intercept
        if intercept is not None and not likelihood.takes_intercept:
            intercept = FIXED
        model = dataclasses.replace(
            self.with_noise_model(likelihood), design=Aside(design), intercept=intercept
        )
        if y is None:
            return model._ready(made), (made, None, extra)
        statistics = Statistics.of_features(made)
        require_finite(statistics, made)
        level, sd = likelihood.level(y, extra)
        model = dataclasses.replace(model, statistics=statistics)
        model = model._with_priors(statistics, level, sd, design.names)
        return model, (made, y, extra) if extra else (made, y)

    def _designed(self, X, name: str) -> tuple[Design, np.ndarray]:
        if self.design is None:
            return Design.fit(self.features.value, X)
        return self.design.value, self.design.value(X, name)

    def _ready(self, X) -> Self:
        """Without y there is nothing to take default priors from; those that are given will do."""
        validation.finite(X, "X")
        zero = np.zeros(X.shape[1])
        known = {**self.prior.hyperparameters(), **self.noise_model.hyperparameters()}
        unknown = [name for name, value in known.items() if value is None]
        intercept = self.intercept
        if intercept is not None and intercept.sd is None:
            unknown.append("intercept")
        if unknown:
            raise ValueError(
                "y is missing: give the observations, since default priors are on their scale "
                f"(here of {', '.join(unknown)})."
            )
        if intercept is not None:
            intercept = intercept.with_defaults(zero, 0.0, 1.0)
        return dataclasses.replace(self, prepared=True, intercept=intercept)

    def _with_priors(self, statistics: Statistics, level: float, sd_y: float, names) -> Self:
        """Default priors on the scale of the data, and a look at what the data do not determine."""
        sds, mean_x, n = statistics.sds[:-1], statistics.mean[:-1], int(statistics.n)
        constant = sds <= CONSTANT * np.abs(mean_x)
        prior = self.prior.with_defaults(np.where(constant, 0.0, sds), sd_y, n)
        intercept = self.intercept
        if intercept is not None:
            wide = 10.0 if prior.per_noise else 2.5 * sd_y
            intercept = intercept.with_defaults(mean_x, level, wide)
        model = dataclasses.replace(self, prior=prior, intercept=intercept, prepared=True)
        model._look_at_columns(statistics, constant, names)
        return model

    def _look_at_columns(self, statistics, constant, names) -> None:
        """Refuse, or warn of, columns whose weights the data alone do not determine."""
        n, p = int(statistics.n), len(names)
        if not self.prior.proper and n < p + (self.intercept is not None):
            raise ValueError(
                f"{n} rows do not determine {p} weights under a flat prior: the posterior would be "
                "improper. Take prior=priors.Gaussian(scale), or leave features out."
            )
        if n < p or (n == p and self.prior.proper):
            return
        said = None
        if self.intercept is not None and constant.any():
            column = names[int(np.argmax(constant))]
            said = f"column {column!r} is constant, so it cannot be told from the intercept"
        else:
            together = _collinear(statistics, self.intercept is not None, names)
            if together:
                said = f"columns {together} are perfectly collinear"
        if said and not self.prior.proper:
            raise ValueError(
                f"{said}: under a flat prior the posterior would be improper. Leave one out, or "
                "take prior=priors.Gaussian(scale), which would make it proper."
            )
        if said:
            warnings.warn(
                f"{said}; only the prior tells their weights apart.", UserWarning, stacklevel=2
            )

    def restore(self, args: tuple, columns, classes) -> tuple[Self, tuple]:
        """The model as it was prepared, from the arguments that it had then, and those arguments.

        columns, classes: what it was fitted to, None where there were none. Raises ValueError where
        the features were learnt from data, which a file does not keep.
        """
        if self.prepared:
            return self, args
        X, y, *rest = args
        if self.features.value is not None:
            raise ValueError(
                "the features were learnt from data, which a file does not keep, so there is "
                "nothing to predict from: load it with model=posterior.target.model, the model as "
                "it was fitted."
            )
        names = columns or tuple(f"x{i}" for i in range(X.shape[1]))
        design = Aside(Design(None, columns, X.shape[1], names))
        model = dataclasses.replace(self, design=design)
        if classes is not None:
            model = model.with_noise_model(dataclasses.replace(self.noise_model, classes=classes))
        return model.prepare(X, decode(y, classes), **dict(*rest))

    # -- coefficients: of [1, x - center], of x - center where the intercept is fixed, or of x -----

    def moments(self, p: int):
        """Sample the scales of the prior: means and sds of the coefficients given them."""
        loc, sd = self.prior.moments(p)
        if self.intercept is None or self.intercept.is_fixed:
            return loc, sd
        first = (jnp.reshape(v, 1) for v in (self.intercept.loc, self.intercept.sd))
        return tuple(jnp.concatenate(pair) for pair in zip(first, (loc, sd), strict=True))

    def shape(self) -> np.ndarray:
        """The prior sds of the coefficients up to a factor that varies; else what evens columns."""
        own = self._prior_shape
        if own is None:
            sds, sd_y = self.statistics.sds[:-1], self.statistics.sds[-1] or 1.0
            own = sd_y / np.where(sds > 0, sds, 1.0)
        if self.intercept is None or self.intercept.is_fixed:
            return own
        # In the units of y, so that no coefficient dwarfs the others.
        level = self.statistics.sds[-1] if self.intercept.is_flat else float(self.intercept.sd)
        return np.concatenate([[level or 1.0], own])

    @property
    def is_aligned(self) -> bool:
        """Whether the prior sds of the weights are always `shape` times one number."""
        return self.prior.proper and self._prior_shape is not None

    @property
    def _prior_shape(self) -> np.ndarray | None:
        sds = np.asarray(self.statistics.sds)
        return self.prior.shape(sds[:-1], sds[-1] or 1.0)

    @property
    def is_proper(self) -> bool:
        """Whether no coefficient has a flat prior."""
        return self.prior.proper and not (self.intercept is not None and self.intercept.is_flat)

    # -- names ------------------------------------------------------------------------------------

    @property
    def coords(self) -> dict:
        """Labels for the axes: the features, and the outputs where they are classes."""
        found = {} if self.design is None else {"feature": list(self.design.value.names)}
        if self.classes:
            found["output"] = list(self.classes)
        return found

    @property
    def classes(self) -> tuple | None:
        """The labels of the classes that y is of, if it is."""
        return getattr(self.noise_model, "classes", None)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the data frame it was fitted to."""
        return None if self.design is None else self.design.value.columns

    # -- prediction -------------------------------------------------------------------------------

    def predictive(
        self, draws: dict, data: tuple, X_new, latent: bool = False, seed: int = 0, **extra
    ):
        """New observations at X_new, a ResponsePrediction; the linear predictor with `latent`.

        draws: of all sites, each (S, shape). extra: what the likelihood needs of each new row
        (exposure is 1 where it is not given). At many points the draws are thinned evenly, to
        NUMBERS numbers in all, but to no fewer than MOST_DRAWS draws.
        """
        likelihood, X = self.noise_model, self.design.value(X_new)
        extra = likelihood.prepare(None, len(X), extra).extra
        values = {k: v for k, v in draws.items() if k in {*likelihood.hyperparameters()}}
        parts = (values, draws["weights"], draws.get("intercept"))
        count = len(draws["weights"])
        rows = kept(count, len(X) * (likelihood.outputs or 1))
        rows = np.zeros(AT_A_POINT, int) if count == 1 and not latent else rows
        parts = jax.tree.map(lambda v: jnp.asarray(v)[rows], parts)
        if latent:
            return SampledPrediction("eta", etas(X, *parts[1:]))
        drawn, mean, chances = _responses(likelihood, X, parts, extra, jax.random.key(seed))
        return ResponsePrediction(drawn, mean, chances, self.classes, ordered=likelihood.is_ordered)

    def prior_predictive(self, X, y=None, draws: int = 1000, seed: int = 0, **extra):
        """Draws of new observations from the prior: a SampledPrediction.

        y is only for default priors, which are on its scale.
        """
        if not self.is_proper:
            raise ValueError("a flat prior cannot be drawn from: give the weights a proper one.")
        model = self if self.prepared else self.prepare(X, y, **extra)[0]
        made = model.design.value(X, "X")
        extra = model.noise_model.read_extra(extra, len(made))
        return from_prior(model, (made, None, extra), draws, seed)


def kept(count: int, size: int) -> np.ndarray:
    """Which of `count` draws a prediction takes that has `size` numbers for each of them."""
    return evenly(count, max(MOST_DRAWS, NUMBERS // size))


def require_finite(statistics: Statistics, X) -> None:
    """Refuse features that are not finite, by their first row."""
    if not statistics.is_finite:
        validation.finite(X, "X")
        raise ValueError("X has values so large that their squares overflow: take other units.")


def linear_predictor(X, weights, intercept):
    """eta: (n,), or (n, outputs) for weights (outputs, p)."""
    eta = X @ weights.T
    return eta if intercept is None else eta + intercept


@eqx.filter_jit
def etas(X, weights, intercept):
    """The linear predictor at features X (m, p) for draws of the weights: (S, m, ...)."""
    return jax.lax.map(lambda part: linear_predictor(X, *part), (weights, intercept))


def _responses(likelihood, X, parts, extra, key):
    """Draws of y (S, m), the mean of E[y | x], and the mean chance of each class, or None."""
    count = len(parts[1])
    step = max(1, CHUNK // (count * (likelihood.outputs or 1)))
    found = []
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        now = {name: value[rows] for name, value in extra.items()}
        own = jax.random.fold_in(key, start)
        found.append(jax.device_get(_responses_at(likelihood, X[rows], parts, now, own)))
    drawn, mean, chances = zip(*found, strict=True)
    chances = np.concatenate(chances) if likelihood.classifies else None
    return np.concatenate(drawn, axis=1), np.concatenate(mean), chances


@eqx.filter_jit
def _responses_at(likelihood, X, parts, extra, key):
    def one(item):
        (values, *coefficients), key = item
        at = likelihood.at(values)
        eta = linear_predictor(X, *coefficients)
        chances = at.probabilities(eta, **extra) if at.classifies else None
        return at.distribution(eta, **extra).sample(key), at.mean(eta, **extra), chances

    keys = jax.random.split(key, len(parts[1]))
    drawn, *averages = jax.lax.map(one, (parts, keys), batch_size=batch_size(len(X)))
    return drawn, *jax.tree.map(lambda v: jnp.mean(v, axis=0), averages)


def _collinear(statistics: Statistics, centred: bool, names) -> str | None:
    """The columns that take part in an exact linear relation, if there is one."""
    M = statistics.R[:, :-1] if centred else statistics.about_zero()[:, :-1]
    size = np.linalg.norm(M, axis=0)
    _, S, Vt = np.linalg.svd(M / np.where(size > 0, size, 1.0))
    if len(S) == 0 or S[-1] > RANK * S[0]:
        return None
    taking_part = np.abs(Vt[-1]) > 1e-6
    return ", ".join(repr(name) for name, own in zip(names, taking_part, strict=True) if own)
