"""The register of trends: each has a case, learned numbers, a kernel by hand and a line of docs."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bayeskern.forecast.model.learned import LOG, Features, learned, table
from bayeskern.forecast.model.trends import (
    ALL_TRENDS,
    AVERAGED,
    TRENDS,
    default_kernel,
    in_words,
)
from bayeskern.hyperparameters import is_specified
from tests.forecast.trend_cases import CASES, LEAST, VALUES, T, seasonal

DOCS = Path(__file__).parents[3] / "docs" / "forecasting.md"
TO_LEARN = "run `python -m benchmarks.learn_default_priors --priors {}`"
each_trend = pytest.mark.parametrize("trend", TRENDS)


@each_trend
def test_each_trend_has_a_case(trend):
    assert trend in CASES, f"tests/forecast/trend_cases.py has no case of the trend {trend!r}"


@each_trend
def test_kernels_match_formulas(trend):
    kernel = default_kernel(trend, {"season": 1.0})
    own = {name: VALUES[name] for name in kernel.hyperparameters() if name in VALUES}
    gram = np.asarray(kernel.at(own)(T))
    season = (0.5 + 0.05 * LEAST) * seasonal(1.0, 0.8)
    np.testing.assert_allclose(gram, 1.1 + CASES[trend].gram + season, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("trend", ALL_TRENDS)
def test_each_hyperparameter_is_registered(trend):
    """A hyperparameter with a prior has its unit in the table, under its name in the kernel."""
    free = [n for n, v in default_kernel(trend, {"season": 1.0}).hyperparameters().items()
            if is_specified(v)]  # fmt: skip
    assert {*free, "noise"} == ALL_TRENDS[trend].learned.keys()


@pytest.mark.parametrize("frequency", table())
@pytest.mark.parametrize("trend", ALL_TRENDS)
def test_each_trend_has_learned_priors(trend, frequency):
    for location, scale in learned(frequency).priors_of(ALL_TRENDS[trend]).values():
        assert np.isfinite(location) and 0.0 < scale < 10.0


@pytest.mark.parametrize("frequency", table())
@pytest.mark.parametrize("trend", AVERAGED)
def test_each_averaged_trend_has_learned_weights(trend, frequency):
    intercepts = learned(frequency).weighing.intercepts
    assert intercepts.keys() <= {name + log for name in AVERAGED for log in ("", LOG)}
    for name in (trend, trend + LOG):
        assert name in intercepts, f"learned.json: {name!r} at {frequency}; {TO_LEARN.format('')}"


@each_trend
def test_a_missing_entry_is_refused_by_name(trend):
    """An averaged trend never takes the mean of the others unasked."""
    whole, own = learned("monthly"), TRENDS[trend].learned_as or trend
    others = {name: priors for name, priors in whole.priors.items() if name != own}
    with pytest.raises(ValueError, match=rf"no prior of .* for the trend '{own}' \(monthly\)"):
        replace(whole, priors=others).priors_of(TRENDS[trend])
    weighing = replace(whole.weighing, intercepts={"slope log": 1.0, "reverting log": 3.0})
    features = Features.from_evidence([trend], [0.0], [1.0])
    if trend in AVERAGED:
        with pytest.raises(ValueError, match=f"no intercept of '{trend}'"):
            weighing.log_weights([trend], features, 0)
    else:
        assert weighing.log_weights([trend], features, 0) == 2.0


@each_trend
def test_each_trend_has_a_row_in_the_documentation(trend):
    kernels = [f"`{n}`" for n in map(factors, TRENDS[trend].terms)]
    entry = TRENDS[trend]
    row = f'| `"{trend}"` | {entry.description} | {" + ".join(kernels)} | {entry.extrapolation} |'
    assert row in DOCS.read_text(), f"{DOCS.name} lacks the row\n{row}"


def factors(term):
    """Kernels of a term, multiplied."""
    kernel = term.kernel(0.0)
    return "` x `".join(type(factor).__name__ for factor in getattr(kernel, "terms", (kernel,)))


def test_words_of_trends_and_of_kernels_of_the_user():
    assert in_words("slope") == "local slope" and in_words("steady") == "steady level"
    assert in_words("given") == "the kernel as given" and in_words("weather") == "weather"
