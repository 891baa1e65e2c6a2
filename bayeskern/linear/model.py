"""Base class of linear models: NumPyro model, data, priors and predictions."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpy.typing import ArrayLike

from bayeskern.core import validation
from bayeskern.likelihoods import Likelihood
from bayeskern.likelihoods.labels import decode
from bayeskern.linear.design import Design, OpaqueStatic
from bayeskern.linear.intercept import FIXED, Intercept, as_intercept
from bayeskern.linear.prediction import (
    linear_predictor,
    linear_predictors,
    responses,
    thinned_draws,
)
from bayeskern.linear.priors import GaussianGivenScales, Prior, as_prior, gaussian_prior
from bayeskern.linear.statistics import (
    SufficientStatistics,
    collinear_columns,
    pooled,
    require_finite,
)
from bayeskern.prediction.empirical import DRAWS_AT_A_POINT, SampledPrediction
from bayeskern.prediction.mixture import Quantiles
from bayeskern.prediction.response import ResponsePrediction, from_prior
from bayeskern.protocols import NotKeptError


class LinearModel(eqx.Module):
    """Linear model y ~ likelihood(eta) with eta = intercept + features(x)'weights.

    The sites are `weights` (p,), or (outputs, p); `intercept`; the hyperparameters of the prior,
    as `prior.<name>`, and of the likelihood; and the observed `y`. `prepare` returns a copy whose
    argument X is the feature matrix instead of the data.

    Attributes:
        prior: The prior on the weights.
        intercept: The prior on the intercept; None for no intercept.
        design: The transformer from data to features; fitted to the first data.
        prepared: Whether default priors are set and X is the feature matrix.
        seen: The statistics of the rows given to `update`.
        statistics: The statistics of all rows.
        batch: The number of rows in each step of SVI; None for all.
        likelihood_argument: The name of the argument that holds the likelihood.
    """

    prior: Prior = eqx.field(default=None, converter=as_prior, kw_only=True)
    #: the sd of Gaussian weights, kept as `prior`
    prior_sd: dataclasses.InitVar[Any] = eqx.field(default=None, kw_only=True)
    intercept: Intercept | None = eqx.field(default=True, converter=as_intercept, kw_only=True)
    design: OpaqueStatic | None = eqx.field(static=True, default=None, kw_only=True)
    prepared: bool = eqx.field(static=True, default=False, kw_only=True)
    seen: SufficientStatistics | None = eqx.field(default=None, kw_only=True)
    statistics: SufficientStatistics | None = eqx.field(default=None, kw_only=True)

    batch: ClassVar[int | None] = None
    likelihood_argument: ClassVar[str]

    def __post_init__(self, prior_sd):
        if prior_sd is not None:
            self.prior = gaussian_prior(prior_sd, self.prior)

    @property
    def observation_model(self) -> Likelihood:
        """The likelihood, whatever the name of its argument."""
        return getattr(self, self.likelihood_argument)

    @property
    def outputs(self) -> int | None:
        """The number of linear predictors of each row; None for one, so that eta is (n,)."""
        return self.observation_model.outputs

    @property
    def fitted_design(self) -> Design:
        """The fitted transformer from data to features."""
        assert self.design is not None
        return self.design.value

    @property
    def all_rows(self) -> SufficientStatistics:
        """The statistics of all rows; for prepared models only."""
        assert self.statistics is not None
        return self.statistics

    @property
    def size(self) -> int:
        """The number of features of a prepared model."""
        return len(self.fitted_design.names)

    @property
    def _transformer(self) -> Any:
        """The unfitted transformer; None if the columns of X are the features."""
        return self.features.value  # pyright: ignore[reportAttributeAccessIssue]

    def with_observation_model(self, likelihood: Likelihood) -> Self:
        """Return a copy with this likelihood."""
        return dataclasses.replace(self, **{self.likelihood_argument: likelihood})

    def __repr__(self) -> str:
        parts = [] if self._transformer is None else [f"features={self._transformer!r}"]
        parts += [f"prior={self.prior!r}", f"{self.likelihood_argument}={self.observation_model!r}"]
        return f"{type(self).__name__}({', '.join(parts)}, intercept={self.intercept or False!r})"

    # -- the NumPyro model ------------------------------------------------------------------------

    def __call__(self, X=None, y=None, extra=None, **extras):
        if not self.prepared:
            # `prepare` needs concrete data: NumPyro's own inference traces this call.
            with jax.ensure_compile_time_eval():
                model, args = self.prepare(X, y, **extras)
            return model(*args)
        assert X is not None
        likelihood, weights, intercept = self.parameters(X.shape[1])
        if self.seen is not None:
            shift, noise = 0.0 if intercept is None else intercept, likelihood.noise_variance
            numpyro.factor("seen", self.seen.log_likelihood(weights, shift, noise))
        return self.observe(likelihood, X, weights, intercept, y, extra)

    def observe(self, likelihood: Likelihood, X, weights, intercept, y, extra: dict | None):
        """Sample y given features X and weights; `batch` rows at a time in SVI."""
        if self.batch is None:
            eta = linear_predictor(X, weights, intercept)
            return numpyro.sample("y", likelihood.distribution(eta, **(extra or {})), obs=y)
        with numpyro.plate("rows", len(X), subsample_size=min(self.batch, len(X))) as rows:
            eta = linear_predictor(jnp.asarray(X)[rows], weights, intercept)
            extra = {name: jnp.asarray(value)[rows] for name, value in (extra or {}).items()}
            y = None if y is None else jnp.asarray(y)[rows]
            return numpyro.sample("y", likelihood.distribution(eta, **extra), obs=y)

    def parameters(self, p: int) -> tuple:
        """Sample the hyperparameters of the likelihood, the weights, and any intercept.

        Returns:
            The likelihood, the weights, and the intercept or None.
        """
        likelihood = self.observation_model.sample("")
        prior = self.prior.distribution(p, likelihood.noise_variance)
        outputs = self.outputs
        dims = ["feature"] if outputs is None else ["output", "feature"]
        if outputs is not None:
            prior = prior.expand([outputs]).to_event(1)
        weights = numpyro.sample("weights", prior, infer={"event_dims": dims})
        if self.intercept is None:
            return likelihood, weights, None
        intercept = self._sample_intercept(self.intercept, weights, likelihood.noise_variance)
        return likelihood, weights, intercept

    def _sample_intercept(self, intercept: Intercept, weights, noise):
        mean, sd = intercept.moments
        loc = mean - weights @ intercept.point
        if intercept.is_fixed:
            return numpyro.deterministic("intercept", loc)
        if intercept.is_flat:
            prior = dist.ImproperUniform(dist.constraints.real, loc.shape, ())
        else:
            prior = dist.Normal(loc, sd * (jnp.sqrt(noise) if self.prior.per_noise else 1.0))
        infer = {"event_dims": ["output"]} if loc.ndim else {}
        return numpyro.sample("intercept", prior.to_event(loc.ndim), infer=infer)

    # -- data -------------------------------------------------------------------------------------

    def prepare(
        self, X: ArrayLike | None = None, y: ArrayLike | None = None, **extra
    ) -> tuple[Self, tuple]:
        """Compute the features, check the data and set default priors.

        Args:
            X: Inputs, shape (n,) or (n, d), or a data frame.
            y: Observations, shape (n,), or (n, outputs) for several outputs; may be None if no
                default prior needs them.
            **extra: The values that the likelihood needs of each row, such as `exposure`.

        Returns:
            The prepared model and its arguments: the features (n, p), y and the extra values.

        Raises:
            ValueError: If the data do not fit the model, or the posterior would be improper.
        """
        if X is None:
            raise ValueError("X is missing: give the inputs, one row for each observation.")
        design, features = self._design_and_features(X, "X")
        likelihood, y, extra = self.observation_model.prepare(y, len(features), extra)
        intercept = self.intercept
        if intercept is not None and not likelihood.takes_intercept:
            intercept = FIXED
        model = dataclasses.replace(
            self.with_observation_model(likelihood),
            design=OpaqueStatic(design),
            intercept=intercept,
        )
        if y is None:
            return model._prepared_without_y(features), (features, None, extra)
        statistics = SufficientStatistics.of_features(features)
        require_finite(statistics, features)
        location, sd = likelihood.eta_location_scale(y, extra)  # pyright: ignore[reportArgumentType]
        model = dataclasses.replace(model, statistics=statistics)
        model = model._with_default_priors(location, sd)
        return model, (features, y, extra) if extra else (features, y)

    def _design_and_features(self, X, name: str) -> tuple[Design, np.ndarray]:
        if self.design is None:
            return Design.fit(self._transformer, X)
        return self.fitted_design, self.fitted_design(X, name)

    def _prepared_without_y(self, X) -> Self:
        """Prepared copy without data; raise ValueError if a default prior needs y."""
        validation.finite(X, "X")
        values = {**self.prior.hyperparameters(), **self.observation_model.hyperparameters()}
        unset = [name for name, value in values.items() if value is None]
        intercept = self.intercept
        if intercept is not None and intercept.sd is None:
            unset.append("intercept")
        if unset:
            raise ValueError(
                "y is missing: give the observations, because they set the default priors on "
                f"{', '.join(unset)}."
            )
        if intercept is not None:
            intercept = intercept.with_defaults(np.zeros(X.shape[1]), 0.0, 1.0)
        return dataclasses.replace(self, prepared=True, intercept=intercept)

    def _with_default_priors(self, location, sd_y: float) -> Self:
        """Prepared copy with default priors; raise ValueError for an improper posterior."""
        statistics, p = self.all_rows, self.size
        sds, mean_x = statistics.sds[:p], statistics.mean[:p]
        # A column with a smaller sd is constant up to rounding errors.
        constant = sds <= 1e-10 * np.abs(mean_x)
        prior = self.prior.with_defaults(np.where(constant, 0.0, sds), sd_y, int(statistics.n))
        intercept = self.intercept
        if intercept is not None:
            default_sd = 10.0 if prior.per_noise else 2.5 * sd_y
            intercept = intercept.with_defaults(mean_x, location, default_sd)
        model = dataclasses.replace(self, prior=prior, intercept=intercept, prepared=True)
        model._check_columns(constant)
        return model

    def _check_columns(self, constant: np.ndarray) -> None:
        """Check that the data determine the weights.

        Under a flat prior, raise ValueError if they do not; under a proper prior, warn.
        """
        n, names = int(self.all_rows.n), self.fitted_design.names
        p = len(names)
        if not self.prior.proper and n < p + (self.intercept is not None):
            raise ValueError(
                f"{n} rows do not determine {p} weights under a flat prior: the posterior would be "
                "improper. Use prior=priors.Gaussian(scale), or fewer features."
            )
        if n < p or (n == p and self.prior.proper):
            return
        problem = None
        if self.intercept is not None and constant.any():
            column = names[int(np.argmax(constant))]
            problem = f"column {column!r} is constant, like the intercept"
        else:
            collinear = collinear_columns(self.all_rows, self.intercept is not None, names)
            if collinear:
                problem = f"columns {collinear} are perfectly collinear"
        if problem and not self.prior.proper:
            raise ValueError(
                f"{problem}: under a flat prior the posterior would be improper. Remove a column, "
                "or use prior=priors.Gaussian(scale)."
            )
        if problem:
            warnings.warn(
                f"{problem}; only the prior identifies the weights.", UserWarning, stacklevel=2
            )

    def restore(self, args: tuple, columns, classes) -> tuple[Self, tuple]:
        """Prepare the model again from saved arguments; `bk.load` calls it.

        Args:
            args: The saved arguments of the prepared model: features, y, and any extra values.
            columns: The columns of the data frame of the fit; None for an array.
            classes: The labels of the classes of y; None if y has no classes.

        Returns:
            The prepared model and its arguments.

        Raises:
            NotKeptError: If a transformer was fitted to the data, which a file does not keep.
        """
        if self.prepared:
            return self, args
        X, y, *rest = args
        if self._transformer is not None:
            raise NotKeptError(
                "the file lacks the transformer that was fitted to the data: load the file with "
                "model=posterior.target.model, the fitted model."
            )
        names = columns or tuple(f"x{i}" for i in range(X.shape[1]))
        design = OpaqueStatic(Design(None, columns, X.shape[1], names))
        model = dataclasses.replace(self, design=design)
        if classes is not None:
            model = model.with_observation_model(
                dataclasses.replace(self.observation_model, classes=classes)
            )
        return model.prepare(X, decode(y, classes), **dict(*rest))

    # -- coefficients ------------------------------------------------------------------------------
    #
    # Coefficients belong to the columns [1, x - center]; to x - center if the intercept is fixed;
    # to x if there is no intercept.

    def root_of_products(self) -> np.ndarray:
        """M with M'M = Z'Z, where Z = [1, x - center, y], or [x, y] without an intercept.

        The columns of x are those of u, if weights = L u: see `Prior.root`.
        """
        rows, intercept = self.all_rows, self.intercept
        M = rows.around(np.asarray(intercept.center)) if intercept else rows.about_zero()
        if self.prior.root is not None:
            first = intercept is not None
            columns = slice(first, first + self.size)
            M[:, columns] = M[:, columns] @ np.asarray(self.prior.root)
        return M

    def weights_of(self, u):
        """The weights of u, (..., p): u itself, or L u for correlated weights."""
        return u if self.prior.root is None else u @ self.prior.root.T

    def moments(self, p: int) -> tuple[jax.Array, jax.Array]:
        """Sample the scales of the prior inside a NumPyro model.

        Returns:
            The prior means and sds of the coefficients, (p,) or (1 + p,) each. The means are
            (outputs, 1 + p) if the intercepts of several outputs have different means.
        """
        assert isinstance(self.prior, GaussianGivenScales)
        loc, sd = self.prior.moments(p)
        if self.intercept is None or self.intercept.is_fixed:
            return loc, sd
        mean, intercept_sd = self.intercept.moments
        loc = jnp.broadcast_to(loc, (*mean.shape, p))
        loc = jnp.concatenate([mean[..., None], loc], axis=-1)
        return loc, jnp.concatenate([jnp.reshape(intercept_sd, 1), sd])

    def shape(self) -> np.ndarray:
        """The prior sds of the coefficients up to a common factor: (p,), or (1 + p,).

        If the prior does not determine them: sds under which all columns contribute equally.
        """
        relative_sds = self._relative_prior_sds
        if relative_sds is None:
            sds, sd_y = self._spreads()
            relative_sds = (sd_y or 1.0) / np.where(sds > 0, sds, 1.0)
        if self.intercept is None or self.intercept.is_fixed:
            return relative_sds
        # Under a flat prior, the sd of y, so that no coefficient dominates the others.
        sd = self._spreads()[1] if self.intercept.is_flat else float(self.intercept.moments[1])
        return np.concatenate([[sd or 1.0], relative_sds])

    @property
    def is_aligned(self) -> bool:
        """True if all prior sds of the weights are known up to one common factor."""
        return self.prior.proper and self._relative_prior_sds is not None

    @property
    def _relative_prior_sds(self) -> np.ndarray | None:
        sds, sd_y = self._spreads()
        return self.prior.shape(sds, sd_y or 1.0)

    def _spreads(self) -> tuple[np.ndarray, float]:
        """The sds of the features, (p,), and the sd of y, pooled over the outputs."""
        sds = np.asarray(self.all_rows.sds)
        return sds[: self.size], pooled(sds[self.size :])

    @property
    def is_proper(self) -> bool:
        """True if no coefficient has a flat prior."""
        return self.prior.proper and not (self.intercept is not None and self.intercept.is_flat)

    # -- names ------------------------------------------------------------------------------------

    @property
    def coords(self) -> dict:
        """Labels of the axes of `weights`: features, and classes if outputs are classes."""
        coords = {} if self.design is None else {"feature": list(self.fitted_design.names)}
        if self.classes:
            coords["output"] = list(self.classes)
        return coords

    @property
    def classes(self) -> tuple | None:
        """The labels of the classes of y; None if y has no classes."""
        return self.observation_model.classes

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of the data frame of the fit; None for an array."""
        return None if self.design is None else self.fitted_design.columns

    # -- prediction -------------------------------------------------------------------------------

    def predictive(
        self,
        draws: dict,
        data: tuple,
        X_new: ArrayLike,
        latent: bool = False,
        seed: int = 0,
        **extra,
    ) -> Quantiles:
        """Predict new observations at X_new.

        With many points, the draws are thinned evenly, to save memory.

        Args:
            draws: Posterior draws of all sites, each of shape (S, ...).
            data: The data that the model was fitted to; not used.
            X_new: New inputs, shape (m,) or (m, d), or a data frame.
            latent: Whether to predict the linear predictor instead.
            seed: The seed of the draws.
            **extra: The values that the likelihood needs of each new row (`exposure` is 1 by
                default).

        Returns:
            A `ResponsePrediction`; with `latent=True`, a `SampledPrediction` of eta.
        """
        likelihood, X = self.observation_model, self.fitted_design(X_new)
        extra = likelihood.prepare(None, len(X), extra).extra
        names = likelihood.hyperparameters()
        values = {name: value for name, value in draws.items() if name in names}
        sites = (values, draws["weights"], draws.get("intercept"))
        count = len(draws["weights"])
        if count == 1 and not latent:
            # A point estimate still gives a distribution of y: repeat it.
            indices = np.zeros(DRAWS_AT_A_POINT, int)
        else:
            indices = thinned_draws(count, len(X) * (likelihood.outputs or 1))
        sites = jax.tree.map(lambda site: jnp.asarray(site)[indices], sites)
        if latent:
            return SampledPrediction("eta", linear_predictors(X, *sites[1:]))
        y, mean, probabilities = responses(likelihood, X, sites, extra, jax.random.key(seed))
        ordered = likelihood.is_ordered
        return ResponsePrediction(y, mean, probabilities, self.classes, ordered=ordered)

    def prior_predictive(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        draws: int = 1000,
        seed: int = 0,
        **extra,
    ) -> SampledPrediction:
        """Draw new observations from the prior.

        Args:
            X: Inputs, shape (n,) or (n, d), or a data frame.
            y: Observations, used only by default priors.
            draws: The number of draws.
            seed: The seed of the draws.
            **extra: The values that the likelihood needs of each row, such as `exposure`.

        Returns:
            A `SampledPrediction`.

        Raises:
            ValueError: If a prior is flat.
        """
        if not self.is_proper:
            raise ValueError("a flat prior has no draws: give weights and intercept proper priors.")
        model = self if self.prepared else self.prepare(X, y, **extra)[0]
        if model.batch is not None:
            # Draw all rows, not one minibatch.
            model = dataclasses.replace(model, batch=None)
        features = model.fitted_design(X, "X")
        extra = model.observation_model.read_extra(extra, len(features))
        return from_prior(model, (features, None, extra), draws, seed)
