"""Plots of ArviZ for binary events and counts, in panels of the report.

Saeilynoja et al. (2026), "Recommendations for visual predictive checks in Bayesian workflow";
Dimitriadis, Gneiting and Jordan (2021), "Stable reliability diagrams for probabilistic
classifiers"; Kleiber and Zeileis (2016), "Visualizing count data regressions using rootograms".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from bayeskern.core.plotting import BLUE
from bayeskern.reports.style import GREY, INK, panels, title

# Probability of the bands.
BAND = 0.95
# The report adds its own labels.
NO_LABELS: dict[str, Any] = {"title": False, "xlabel": False, "ylabel": False}


class Event(NamedTuple):
    """A binary event, and draws of it from the predictions of the model.

    Attributes:
        name: Title of its panel.
        y: 1 where the event happened, (n,).
        draws: Draws of y, (S, n); their means are the predicted probabilities.
    """

    name: str
    y: np.ndarray
    draws: np.ndarray


def calibration(events: Sequence[Event]) -> Figure:
    """Plot the frequency of each event by its predicted probability.

    The frequency is estimated by isotonic regression.
    """
    from arviz_plots import plot_ppc_pava  # slow to import

    fig, axes = panels(len(events), columns=3, height=2.1 if len(events) > 1 else 2.8)
    by_axis = {f"event{i}": (ax, e) for i, (ax, e) in enumerate(zip(axes, events, strict=True))}
    visuals = {
        "lines": {"color": BLUE},
        "credible_interval": {"color": GREY},
        "reference_line": {"color": GREY},
    }
    _draw(plot_ppc_pava, fig, by_axis, ci_prob=BAND, visuals=visuals)
    for ax, event in zip(axes, events, strict=True):
        if len(events) > 1:
            title(ax, event.name)
        ax.set_xlim(-0.03, 1.03)
        ax.set_ylim(-0.03, 1.03)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(PercentFormatter(1.0, symbol=""))
        ax.set_xlabel("predicted, %")
    axes[0].set_ylabel("observed, %")
    return fig


def residuals(event: Event, covariates: Mapping[str, np.ndarray]) -> Figure:
    """Plot observed frequency minus predicted probability of an event.

    There is a panel for each covariate (n,).
    """
    from arviz_plots import plot_ppc_pava_residuals  # slow to import

    fig, axes = panels(len(covariates), columns=2, height=2.1)
    is_large = len(event.y) > 400
    # A rasterised image cannot adapt to the colours of the page.
    marker = {"color": "#2a86c6" if is_large else BLUE, "rasterized": is_large, "size": 9}
    visuals = {
        "markers": marker,
        "credible_interval": {"color": GREY},
        "reference_line": {"color": GREY},
    }
    for ax, (name, x) in zip(axes, covariates.items(), strict=True):
        _draw(
            plot_ppc_pava_residuals, fig, {"event": (ax, event)}, x_var=x, ci_prob=BAND,
            visuals=visuals,
        )  # fmt: skip
        ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
        ax.set_xlabel(name)
    axes[0].set_ylabel("observed - predicted, %")
    return fig


def rootogram(ax: Any, y: np.ndarray, replicates: np.ndarray, low: int, high: int) -> None:
    """Draw how often each count occurs in y (n,) and in the replicates (S, n).

    The height is the square root of the number of observations.

    Args:
        ax: The panel.
        y: Observed counts.
        replicates: Counts drawn from the model.
        low: Smallest count shown.
        high: Largest count shown.
    """
    from arviz_plots import plot_ppc_rootogram  # slow to import

    visuals = {
        "observed_markers": {"color": INK, "label": "observed", "zorder": 3},
        "predictive_markers": {"color": BLUE, "label": "the model, 95 %", "marker": "_"},
        "credible_interval": {"color": BLUE},
        "grid": False,
    }
    # Counts outside the panel become one value, because the time of ArviZ grows with the number of
    # distinct values.
    shown = np.clip(replicates, low - 1, high + 1).astype(int)
    counts = Event("", y.astype(int), shown)
    options = {"ci_prob": BAND, "point_estimate": "mean", "visuals": visuals}
    _draw(plot_ppc_rootogram, ax.figure, {"counts": (ax, counts)}, **options)
    ax.set_xlim(low - 0.6, high + 0.6)
    ax.set_ylabel("observations (root scale)")
    ax.xaxis.get_major_locator().set_params(integer=True)


def _draw(
    plot: Callable, fig: Figure, panels: Mapping[str, tuple[Any, Event]], **options: Any
) -> None:
    """Draw a plot of ArviZ into panels of a figure, without pyplot."""
    import arviz as az  # slow to import
    import xarray as xr
    from arviz_plots.plot_collection import PlotCollection

    tree = az.from_dict(
        {
            "posterior_predictive": {k: e.draws[None] for k, (_, e) in panels.items()},
            "observed_data": {name: event.y for name, (_, event) in panels.items()},
        }
    )
    axes = {name: xr.DataArray(np.array(ax, dtype=object)) for name, (ax, _) in panels.items()}
    root = xr.Dataset({"figure": np.array(fig, dtype=object)})
    viz = xr.DataTree(root, children={"plot": xr.DataTree(xr.Dataset(axes))})
    # Some steps of ArviZ, such as the scale of an axis, loop over the variables of this data set.
    data = xr.Dataset(dict.fromkeys(panels, 0.0))
    options["visuals"] = NO_LABELS | options["visuals"]
    plot(tree, plot_collection=PlotCollection(data, viz, backend="matplotlib"), **options)
