"""The regression model by a formula: a NumPyro model that holds its data."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import numpyro
from jax import Array
from numpyro import handlers

from bayeskern.formula import code
from bayeskern.formula.field import Effects
from bayeskern.formula.integrated import Rows, marginal
from bayeskern.formula.predictive import new_rows, responses
from bayeskern.formula.sentences import sentences
from bayeskern.formula.structure import Structure
from bayeskern.linear.prediction import thinned_draws
from bayeskern.prediction.empirical import DRAWS_AT_A_POINT, SampledPrediction
from bayeskern.prediction.response import ResponsePrediction
from bayeskern.protocols import Marginal


class Regression(Structure):
    """Regression model of a formula and data, as `bk.regression` returns it.

    It is itself a NumPyro model, model(y, extra), and holds its data: `bk.infer(model)`. Its sites
    are the effects by the names of their terms, their scales as `sd(x | group)`, and the parameters
    of the likelihood.

    Attributes:
        rows: The columns of the data.
        y: The observations, (n,).
        extra: Values that the likelihood needs of each row.
        integrate: True to integrate the effects out, False to sample them; None to let the
            inference method decide.
    """

    rows: Rows
    y: Array
    extra: dict[str, Array]
    integrate: bool | None = eqx.field(static=True, default=None)

    def __call__(self, y: Array | None = None, extra: dict[str, Array] | None = None):
        likelihood = self.sample_likelihood(self.rows.parameters)
        dense = [self.common.sample(), *(term.sample() for term in self.terms)]
        groups = [term.sample() for term in self.groups]
        b = Effects(jnp.concatenate(dense), tuple(self.by_factor(groups)))
        eta = self.rows.offset + self.rows.design @ b
        observed = likelihood.distribution(eta, **(self.extra if extra is None else extra))
        if self.rows.weights is None or y is None:
            return numpyro.sample("y", observed, obs=y)
        with handlers.scale(scale=self.rows.weights):  # pyright: ignore[reportArgumentType]
            return numpyro.sample("y", observed, obs=y)

    def code(self) -> str:
        """Text of a NumPyro program of the model with its effects sampled.

        The function `model(data, y=None)` of the program reads `data = self.arrays()`. It has the
        sites and, up to numbers rounded to six digits, the log joint density of this model.
        """
        return code.program(self, self.rows, self.extra)

    def arrays(self) -> dict[str, Array]:
        """Arrays that the program of `code` reads, by name."""
        return code.arrays(self, self.rows, self.extra)

    # -- protocols ---------------------------------------------------------------------------------

    def prepare(self, *args: Any, y: Any = None, **kwargs: Any) -> tuple[Self, tuple]:
        """Return the model and its arguments, the observations and their extra values.

        Args:
            *args: Not accepted, because the model has its data.
            y: Other observations of the same rows, such as simulated ones, (n,).
            **kwargs: Not accepted.

        Raises:
            TypeError: If there are other arguments than y.
        """
        if args or kwargs:
            raise TypeError(
                "a regression has its data already: write bk.infer(bk.regression(formula, data))."
            )
        if y is None:
            return self, (self.y, self.extra)
        if self.classes is not None:
            y = [self.classes.index(label) for label in np.asarray(y).tolist()]
        return self, (jnp.asarray(y, self.y.dtype), self.extra)

    def restore(self, args: tuple, columns: Any, classes: tuple | None) -> tuple[Self, tuple]:
        """Return the model and the saved arguments; `bk.load(path, model)` calls it."""
        return self, args

    def for_method(self, name: str, samples_latents: bool, uses_priors: bool) -> Self:
        """Copy that integrates the effects out or samples them, as the method requires.

        Under Gaussian noise they are always integrated out.
        """
        likelihood = self.likelihood
        smooth = likelihood.log_concave and not likelihood.kinked and likelihood.outputs is None
        integrate = self.has_scales and (self.is_gaussian or (smooth and not samples_latents))
        if self.integrate is not None or integrate == self.integrate:
            return self
        return replace(self, integrate=integrate)

    @property
    def is_plain(self) -> bool:
        """True if the effects are sampled."""
        return self.integrate is False

    def marginal(self, y: Array, extra: dict[str, Array] | None = None) -> Marginal | None:
        """The model with its effects integrated out; None if they are sampled."""
        if self.integrate is False:
            return None
        structure = Structure(**{f.name: getattr(self, f.name) for f in fields(Structure)})
        return marginal(structure, self.rows, y, self.extra if extra is None else extra)

    def predictive(
        self,
        draws: dict[str, np.ndarray],
        data: tuple,
        newdata: Any = None,
        latent: bool = False,
        groups: str = "known",
        seed: int = 0,
        **extra: Any,
    ) -> SampledPrediction:
        """Predict new observations, or the linear predictor, at the rows of a table.

        Args:
            draws: Posterior draws of all sites, each (S, *site).
            data: Arguments of the model; not used.
            newdata: A table with the columns of the formula; the data of the fit by default.
            latent: True to predict the linear predictor.
            groups: "known": rows of known groups have their effects, and a group that is not known
                is drawn from the population. "new": all groups are new. "none": group effects are
                0.
            seed: Seed of new observations and of the effects of new groups.
            **extra: Values that the likelihood needs of each row, such as `trials`.

        Returns:
            A `ResponsePrediction`; with `latent=True`, a `SampledPrediction` of eta.
        """
        frame = self.source.value.table(newdata)
        count = len(next(iter(draws.values())))
        if count == 1 and not latent:
            # A point estimate still gives a distribution of y: repeat it.
            indices = np.zeros(DRAWS_AT_A_POINT, int)
        else:
            indices = thinned_draws(count, len(frame))
        draws = {site: np.asarray(values)[indices] for site, values in draws.items()}
        rows = new_rows(self, draws, frame, groups, seed, extra)
        if latent:
            return SampledPrediction("eta", rows.eta)
        y, mean, probabilities = responses(self, draws, rows, seed)
        ordered = self.likelihood.is_ordered
        mean = probabilities if probabilities is not None and mean.ndim > 2 else mean.mean(axis=0)
        return ResponsePrediction(y, mean, probabilities, self.classes, ordered)

    def sentences(self, draws: dict[str, np.ndarray]) -> list[str]:
        """Sentences on the effects, in the units of the data, for draws (S, *site)."""
        return list(sentences(self, draws))

    @property
    def title(self) -> str:
        """Heading of a report: the formulas."""
        return ", ".join(self.formulas)

    def __repr__(self) -> str:
        formulas = self.formulas[0] if len(self.formulas) == 1 else self.formulas
        return f"regression({formulas!r}, {type(self.likelihood).__name__})"

    @property
    def classes(self) -> tuple | None:
        """Labels of the classes of y; None if y has no classes."""
        return self.likelihood.classes

    @property
    def _axes_of_groups(self) -> dict[str, str]:
        """Name of the axis of each grouping factor; another one where a site has its name."""
        sites = {site for site, _, _ in self.common.slices}
        groups = {term.group for term in self.groups}
        return {group: f"group {group}" if group in sites else group for group in groups}

    @property
    def coords(self) -> dict[str, Any]:
        """Labels of the groups of each factor, and of the columns of terms with several."""
        coords: dict[str, Any] = {}
        for term in (self.common, *self.terms, *self.distributional.values()):
            coords |= {f"{site} column": labels for site, labels in term.labels.items()}
        axes = self._axes_of_groups
        return coords | {axes[term.group]: term.levels.value for term in self.groups}

    @property
    def dims(self) -> dict[str, list[str]]:
        """Names of the axes of the sites."""
        dims = {}
        for term in (self.common, *self.terms, *self.distributional.values()):
            dims |= {site: [f"{site} column"] for site in term.labels}
        for term in self.groups:
            axes = [self._axes_of_groups[term.group], *term.effects.axes_of_a_group]
            dims |= dict.fromkeys(term.effects.sites_of_groups, axes)
        return dims
