"""Predictions, comparisons, slopes, hypotheses and variance shares of regressions by formula."""

import pickle
from dataclasses import replace

import numpy as np
import numpyro.distributions as dist
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.special import expit

import bayeskern as bk
from bayeskern.formula import Answers, caterpillar, conditional, variance_shares
from bayeskern.formula.frame import Columns, required_columns

FLAT = dist.Normal(0.0, 100.0)


def columns(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"x": rng.normal(size=n), "z": rng.choice(["a", "b", "c"], n)})


@pytest.fixture(scope="module")
def mixed():
    """Posterior of a mixed model, with its data."""
    data, rng = columns(96), np.random.default_rng(1)
    s = np.repeat(np.arange(12), 8) + 100
    slopes = rng.normal(2.0, 0.7, 12)[s - 100]
    noise = rng.normal(size=12)[s - 100] + 0.5 * rng.normal(size=96)
    data = data.assign(s=s, y=1.0 + slopes * data.x + (data.z == "b") + noise)
    model = bk.regression("y ~ x + z + (x | s)", data)
    return bk.infer(model, method="laplace", seed=0), data


@pytest.fixture(scope="module")
def logistic():
    """Posterior of a logistic regression under flat priors, with its data."""
    data, rng = columns(1000), np.random.default_rng(2)
    eta = 0.3 + 0.8 * data.x - 0.9 * (data.z == "b")
    data["y"] = rng.random(1000) < expit(eta)
    priors = dict.fromkeys(("Intercept", "x", "z"), FLAT)
    model = bk.regression("y ~ x + z", data, "bernoulli", priors)
    return bk.infer(replace(model, integrate=False), method="laplace", seed=0), data


@pytest.fixture(scope="module")
def counts():
    """Posterior of a Poisson regression with exposures, with its data."""
    data, rng = columns(90), np.random.default_rng(3)
    data["e"] = rng.uniform(1.0, 5.0, 90)
    data["y"] = rng.poisson(data.e * np.exp(0.2 + 0.4 * data.x))
    model = bk.regression("y | exposure(e) ~ x", data, "poisson")
    return bk.infer(replace(model, integrate=False), method="laplace", seed=0), data


# -- linear models: answers are coefficients -------------------------------------------------------


def test_comparisons_and_slopes_of_a_line_are_its_coefficients(mixed):
    posterior, data = mixed
    draws = posterior.flat
    answers = bk.comparisons(posterior, groups="none")
    assert answers.labels.values.tolist() == [["x", "+1"], ["z", "b - a"], ["z", "c - a"]]
    expected = np.column_stack([draws["x"], draws["z"]])
    np.testing.assert_allclose(answers.draws, expected, atol=1e-10)
    wide = bk.comparisons(posterior, {"x": (1.0, 4.0), "z": ("c", "b")}, groups="none")
    np.testing.assert_allclose(wide.draws[:, 0], 3.0 * draws["x"], atol=1e-10)
    np.testing.assert_allclose(wide.draws[:, 1], draws["z"][:, 0] - draws["z"][:, 1], atol=1e-10)
    assert wide.labels["contrast"].tolist() == ["4 - 1", "b - c"]
    # Of a known group, and averaged over groups of the same size.
    by_group = bk.slopes(posterior, "x", by="s")
    assert by_group.labels["s"].tolist() == sorted(set(data.s))
    slopes = draws["x"][:, None] + draws["x | s"]
    np.testing.assert_allclose(by_group.draws, slopes, atol=1e-7)
    np.testing.assert_allclose(bk.slopes(posterior).draws[:, 0], slopes.mean(axis=1), atol=1e-7)


def test_predictions_are_the_linear_predictor(mixed):
    posterior, data = mixed
    draws = posterior.flat
    grid = bk.datagrid(posterior, x=[-1.0, 2.0], z="b", s=103)
    answers = bk.predictions(posterior, grid)
    common = draws["Intercept"] + draws["z"][:, 0]
    eta = common + draws["Intercept | s"][:, 3]
    slope = draws["x"] + draws["x | s"][:, 3]
    expected = np.column_stack([eta - slope, eta + 2.0 * slope])
    np.testing.assert_allclose(answers.draws, expected, atol=1e-10)
    none = bk.predictions(posterior, grid, groups="none").draws
    np.testing.assert_allclose(none[:, 0], common - draws["x"], atol=1e-10)
    # Averages are those of pandas over the rows.
    rows = bk.predictions(posterior)
    averages = bk.predictions(posterior, by=["z", "s"])
    means = pd.DataFrame(rows.draws.T).groupby([data.z, data.s]).mean()
    np.testing.assert_allclose(averages.draws.T, means, atol=1e-10)
    assert list(map(tuple, averages.labels.to_numpy())) == list(means.index)
    everything = bk.predictions(posterior, "observed", by=True)
    np.testing.assert_allclose(everything.draws[:, 0], rows.draws.mean(axis=1), atol=1e-10)


def test_new_groups_vary_as_the_population(mixed):
    posterior, _ = mixed
    draws, x = posterior.flat, 1.5
    grid = bk.datagrid(posterior, x=x, z="a")
    new = bk.predictions(posterior, grid, groups="new", seed=3)
    effects = new.draws - bk.predictions(posterior, grid, groups="none").draws
    sd_0, sd_x = draws["sd(Intercept | s)"], draws["sd(x | s)"]
    correlation = draws["cor(Intercept, x | s)"]
    variance = sd_0**2 + 2.0 * x * correlation * sd_0 * sd_x + (x * sd_x) ** 2
    standardized = effects[:, 0] / np.sqrt(variance)
    # Each is standard normal: errors of mean and mean square are 1 and sqrt(2) / sqrt(S).
    count = len(standardized)
    assert abs(np.mean(standardized)) < 4.0 / count**0.5
    assert abs(np.mean(standardized**2) - 1.0) < 4.0 * (2.0 / count) ** 0.5
    again = bk.predictions(posterior, grid, groups="new", seed=3)
    np.testing.assert_array_equal(again.draws, new.draws)
    assert (bk.predictions(posterior, grid, groups="new", seed=4).draws != new.draws).all()
    # The same new groups are on both sides of a contrast.
    contrast = bk.comparisons(posterior, "z", grid, groups="new").draws
    np.testing.assert_allclose(contrast, draws["z"], atol=1e-10)


# -- other likelihoods -----------------------------------------------------------------------------


def test_average_marginal_effects_are_those_of_statsmodels(logistic):
    posterior, data = logistic
    X = np.column_stack([np.ones(len(data)), data.x, data.z == "b", data.z == "c"])
    fit = sm.Logit(data.y.astype(float), X.astype(float)).fit(disp=False)
    effects = fit.get_margeff(at="overall", dummy=True)
    answers = [bk.slopes(posterior, "x"), bk.comparisons(posterior, "z")]
    draws = np.concatenate([a.draws for a in answers], axis=1)
    # Posterior and maximum likelihood agree up to terms of order 1/n.
    errors = effects.margeff_se
    assert np.all(np.abs(draws.mean(axis=0) - effects.margeff) < 0.1 * errors)
    np.testing.assert_allclose(draws.std(axis=0), errors, rtol=0.05)


def test_logistic_comparisons_match_numpy(logistic):
    posterior, data = logistic
    draws, rows = posterior.flat, data.head(80)
    b, x = draws["z"], rows.x.to_numpy()
    base = draws["Intercept"][:, None] + draws["x"][:, None] * x
    low, high = expit(base), expit(base + b[:, :1])
    contrast = {"z": ("a", "b")}
    difference = bk.comparisons(posterior, contrast, rows)
    np.testing.assert_allclose(difference.draws[:, 0], (high - low).mean(axis=1), atol=1e-10)
    ratio = bk.comparisons(posterior, contrast, rows, comparison="ratio")
    np.testing.assert_allclose(ratio.draws[:, 0], high.mean(axis=1) / low.mean(axis=1), rtol=1e-10)
    odds = bk.comparisons(posterior, contrast, rows, by=False, comparison="odds_ratio")
    np.testing.assert_allclose(odds.draws, np.exp(b[:, :1]) + 0.0 * base, rtol=1e-8)
    assert (odds.null, odds.labels["contrast"][0]) == (1.0, "odds(b) / odds(a)")
    grid = bk.datagrid(posterior, x=[0.0, 300.0], z="a")
    log_odds = bk.predictions(posterior, grid, scale="log_odds").draws
    # The probability itself is 1 up to rounding.
    np.testing.assert_allclose(log_odds[:, 1], draws["Intercept"] + 300.0 * draws["x"])


def test_logistic_slopes_are_derivatives(logistic):
    posterior, data = logistic
    draws, rows = posterior.flat, data[data.z == "a"].head(80)
    # Rows at the ends of the data take the slope a step inside.
    step = 1e-5 * np.ptp(data.x)
    x = rows.x.clip(data.x.min() + step, data.x.max() - step).to_numpy()
    p = expit(draws["Intercept"][:, None] + draws["x"][:, None] * x)
    slopes = bk.slopes(posterior, newdata=rows, by=False)
    assert slopes.labels["term"].unique().tolist() == ["x"]
    np.testing.assert_allclose(slopes.draws, draws["x"][:, None] * p * (1.0 - p), rtol=1e-7)


def test_ratio_of_counts_is_the_exponential_of_the_coefficient(counts):
    posterior, data = counts
    draws = posterior.flat
    for by in (True, False, "z"):
        ratio = bk.comparisons(posterior, "x", by=by, comparison="ratio").draws
        np.testing.assert_allclose(ratio, np.exp(draws["x"])[:, None] + 0.0 * ratio, rtol=1e-8)
    grid = bk.datagrid(posterior, x=0.5)
    assert grid["e"][0] == pytest.approx(data.e.mean())
    mean = bk.predictions(posterior, grid, groups="none").draws[:, 0]
    expected = data.e.mean() * np.exp(draws["Intercept"] + 0.5 * draws["x"])
    np.testing.assert_allclose(mean, expected, rtol=1e-8)
    link = bk.predictions(posterior, grid, groups="none", scale="link").draws[:, 0]
    np.testing.assert_allclose(link, draws["Intercept"] + 0.5 * draws["x"], atol=1e-10)


def test_ordered_classes_have_a_row_each():
    data, rng = columns(150), np.random.default_rng(5)
    latent = data.x + rng.logistic(size=150)
    names = np.array(["low", "mid", "high"])[np.digitize(latent, [-0.5, 1.0])]
    data["y"] = pd.Categorical(names, ["low", "mid", "high"], ordered=True)
    model = bk.regression("y ~ x", data, "ordered")
    posterior = bk.infer(replace(model, integrate=False), method="map", seed=0)
    answers = bk.predictions(posterior, bk.datagrid(posterior, x=[0.0, 1.0]))
    assert answers.labels["y"].tolist() == ["low", "mid", "high"] * 2
    draws = posterior.flat
    eta = np.array([0.0, 1.0]) * draws["x"][:, None]
    below = expit(draws["cutpoints"][:, None] - eta[..., None])
    expected = np.diff(below, axis=-1, prepend=0.0, append=1.0)
    np.testing.assert_allclose(answers.draws, expected.reshape(len(eta), -1), atol=1e-10)
    difference = bk.comparisons(posterior, "x")
    np.testing.assert_allclose(difference.draws.sum(axis=1), 0.0, atol=1e-10)
    with pytest.raises(ValueError, match="more than two classes"):
        variance_shares(posterior)


def test_probabilities_of_trials_do_not_depend_on_their_number():
    data = pd.DataFrame({"g": list("ab") * 6, "n": np.arange(4, 16)})
    data["y"] = np.random.default_rng(0).binomial(data.n, np.where(data.g == "a", 0.3, 0.7))
    model = bk.regression("y | trials(n) ~ g", data, "binomial")
    posterior = bk.infer(replace(model, integrate=False), method="map", seed=0)
    p = bk.predictions(posterior, scale="probability").draws
    np.testing.assert_allclose(bk.predictions(posterior).draws, p * data.n.to_numpy())
    assert bk.datagrid(posterior)["n"].tolist() == [10]


# -- results ---------------------------------------------------------------------------------------


@pytest.fixture
def answers():
    draws = np.random.default_rng(0).normal([0.5, 2.0, -1.0], [1.0, 0.5, 0.2], (2000, 3))
    labels = pd.DataFrame({"term": ["x", "x", "a|b"], "contrast": ["+1", "b - a", "c - a"]})
    return Answers(labels, draws, "Effects", "response", 0.0)


def test_table_has_moments_quantiles_and_directions(answers):
    table, draws = answers.to_frame(0.8), answers.draws
    np.testing.assert_allclose(table["estimate"], draws.mean(axis=0))
    np.testing.assert_allclose(table["sd"], draws.std(axis=0))
    limits = np.quantile(draws, [0.1, 0.9], axis=0)
    np.testing.assert_allclose(table[["lower", "upper"]].T, limits)
    shares = [(draws[:, 0] > 0).mean(), (draws[:, 1] > 0).mean(), (draws[:, 2] < 0).mean()]
    np.testing.assert_allclose(table["p_direction"], shares)
    assert "p_direction" not in replace(answers, null=None).table
    copy = pickle.loads(pickle.dumps(answers))
    pd.testing.assert_frame_equal(copy.table, answers.table)


def test_hypotheses_are_arithmetic_on_rows(answers):
    b1, b2, b3 = answers.draws.T
    texts = ("b2 - b1 > 0", "b1 < b3", "b1 = 2 * b3", "exp(b1) / b2", "(b1 > 0) & (b2 > b1)")
    result = answers.hypothesis(*texts)
    expected = [b2 - b1, b1 - b3, b1 - 2.0 * b3, np.exp(b1) / b2, (b1 > 0) & (b2 > b1)]
    np.testing.assert_allclose(result.draws, np.column_stack(expected))
    shares = [(b2 > b1).mean(), (b1 < b3).mean(), (b1 > 2.0 * b3).mean()]
    shares += [(b2 > 0).mean(), ((b1 > 0) & (b2 > b1)).mean()]
    np.testing.assert_allclose(result.labels["probability"], shares)
    chained = answers.hypothesis("b3 < b1 < b2").labels["probability"][0]
    assert chained == np.mean((b3 < b1) & (b1 < b2))


@pytest.mark.parametrize(
    "text",
    [
        "b4 - b1", "b1 -", "b1.mean()", "__import__('os').getcwd()", "open('x')", "b1[0]", "'a'",
        "(lambda: 1)()", "exp(b1, out=b2)", "[b1 for b1 in b2]", "b1 if b2 else b3", "b1(b2)",
        "exp(b1, b2)", "exp(b1)(b2)", "exp", "exp()",
    ],
)  # fmt: skip
def test_hypotheses_run_no_other_code(answers, text):
    before = answers.draws.copy()
    with pytest.raises(ValueError, match="arithmetic on the rows b1 to b3"):
        answers.hypothesis(text)
    np.testing.assert_array_equal(answers.draws, before)


def test_text_of_the_table(answers):
    lines = repr(answers).splitlines()
    assert lines[0] == "Effects, response scale, 90 % intervals"
    assert lines[1].split() == ["term", "contrast", "estimate", "sd", "lower", "upper",
                                "p_direction"]  # fmt: skip
    row = answers.to_markdown().splitlines()[-1]
    cells = [cell.strip() for cell in row.replace(r"\|", "/").split("|")[1:-1]]
    assert [*cells[:2], cells[-1]] == ["a/b", "c - a", ">0.999"]
    assert float(cells[2]) == pytest.approx(answers.draws[:, 2].mean(), abs=5e-4)
    latex = answers.to_latex(caption="Effects")
    assert r"p\_direction" in latex and r"\toprule" in latex and r"\caption{Effects}" in latex
    many = Answers(pd.DataFrame({"row": range(500)}), np.zeros((4, 500)), "Predictions")
    assert "... 470 rows ..." in repr(many)


# -- variance --------------------------------------------------------------------------------------


def test_variance_shares_of_a_mixed_model(mixed):
    posterior, data = mixed
    draws = posterior.flat
    mu = bk.predictions(posterior).draws
    explained, noise = mu.var(axis=1, ddof=1), draws["sigma"] ** 2
    shares = variance_shares(posterior)
    values = dict(zip(shares.labels["quantity"], shares.draws.T, strict=True))
    np.testing.assert_allclose(values["R2"], explained / (explained + noise))
    parts = [v for name, v in values.items() if name.startswith("share of ")]
    assert len(parts) == 3
    np.testing.assert_allclose(np.sum(parts, axis=0), values["R2"])
    # z' Sigma z averaged over rows, z = (1, x).
    sd_0, sd_x = draws["sd(Intercept | s)"], draws["sd(x | s)"]
    cross = 2.0 * draws["cor(Intercept, x | s)"] * sd_0 * sd_x * data.x.mean()
    between = sd_0**2 + cross + sd_x**2 * (data.x**2).mean()
    np.testing.assert_allclose(values["ICC(s)"], between / (between + noise))


def test_r2_of_counts_has_their_variance(counts):
    posterior, _ = counts
    mu = bk.predictions(posterior).draws
    explained = mu.var(axis=1, ddof=1)
    r2 = variance_shares(posterior)
    np.testing.assert_allclose(r2.draws[:, 0], explained / (explained + mu.mean(axis=1)))


# -- grids and errors ------------------------------------------------------------------------------


def test_datagrid_has_typical_values(mixed):
    posterior, data = mixed
    grid = bk.datagrid(posterior, z=["a", "c"], x=[np.min(data.x), 2.0])
    assert grid.columns.tolist() == ["x", "z", "s"]
    assert set(zip(grid.x, grid.z, strict=True)) == {
        (v, z) for v in (data.x.min(), 2.0) for z in "ac"
    }
    typical = bk.datagrid(posterior)
    assert typical.x[0] == pytest.approx(data.x.mean())
    assert (typical.z[0], typical.s[0]) == (data.z.mode()[0], data.s.mode()[0])
    assert bk.datagrid(posterior, x=lambda x: x.quantile([0.25, 0.75])).x.tolist() == pytest.approx(
        np.quantile(data.x, [0.25, 0.75])
    )
    everyone = bk.datagrid(posterior, z=["a", "b"], counterfactual=True)
    assert len(everyone) == 2 * len(data)
    averages = bk.predictions(posterior, everyone, by="z").draws
    contrast = bk.comparisons(posterior, {"z": ("a", "b")}).draws[:, 0]
    np.testing.assert_allclose(averages[:, 1] - averages[:, 0], contrast, atol=1e-10)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: bk.comparisons(p, "xx"), "Did you mean 'x'"),
        (lambda p: bk.predictions(p, by="zz"), "Did you mean 'z'"),
        (lambda p: bk.datagrid(p, zz=1), "Did you mean 'z'"),
        (lambda p: bk.predictions(p, {"x": [1.0], "zz": ["a"], "s": [100]}), "no column 'z'"),
        (lambda p: bk.predictions(p, {"x": [1.0], "z": ["d"], "s": [100]}), "levels 'd'"),
        (lambda p: p.predict({"x": [1.0], "z": ["a"]}), "no column 's'"),
        (lambda p: bk.comparisons(p, {"z": ("a", "bb")}), "Did you mean 'b'"),
        (lambda p: bk.comparisons(p, {"z": 1}), "must be two levels"),
        (lambda p: bk.comparisons(p, {"x": "one"}), "finite number"),
        (lambda p: bk.slopes(p, "z"), "use bk.comparisons"),
        (lambda p: bk.predictions(p, scale="log_odds"), "Choose from response, link"),
        (lambda p: bk.predictions(p, groups="all"), "Choose from known, new, none"),
        (lambda p: bk.comparisons(p, comparison="odds_ratio"), "Choose from response, link"),
    ],
)
def test_errors_name_what_is_accepted(mixed, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(mixed[0])


def test_other_posteriors_are_refused(mixed):
    coin = bk.infer(bk.BetaBernoulli(1.0, 1.0), [1, 0, 1], method="exact", seed=0)
    with pytest.raises(TypeError, match=r"bk.regression.*got a posterior of BetaBernoulli"):
        bk.predictions(coin)
    with pytest.raises(TypeError, match="posterior is needed"):
        bk.slopes(mixed[0].known_target.model)


def test_levels_given_as_numbers_are_levels():
    data = pd.DataFrame({"p": pd.Categorical([1, 2, 3]), "x": [0.0, 1.0, 2.0]})
    columns, _ = Columns.fit("1 + x + p", data)
    expected = [[1.0, 5.0, 1.0, 0.0], [1.0, 6.0, 0.0, 1.0]]
    good = pd.DataFrame({"x": [5.0, 6.0], "p": [2, 3]})
    np.testing.assert_array_equal(columns(good), expected)
    # Data that are refused leave no trace.
    for bad in ({"x": ["0", "1"], "p": [2, 3]}, {"x": [0.0, 0.0], "p": [2, 9]}):
        with pytest.raises(ValueError, match="newdata"):
            columns(pd.DataFrame(bad))
    np.testing.assert_array_equal(columns(good), expected)


def test_required_columns_are_those_of_the_terms():
    frame = pd.DataFrame({name: [1.0] for name in ("z", "b", "a", "p q", "y")})
    sources = ["poly(z, 2):C(b)", "log(`p q`) + I(a**2) + scale(z)"]
    assert required_columns(sources, frame, "y ~ ...") == ["z", "b", "p q", "a"]
    with pytest.raises(ValueError, match="no column 'bb'.*Did you mean 'b'"):
        required_columns(["poly(bb, 2)"], frame, "y ~ ...")


def test_a_point_estimate_has_no_spread(mixed):
    posterior, _ = mixed
    point = replace(posterior, draws={site: x[:1, :1] for site, x in posterior.draws.items()})
    answers = bk.comparisons(point, "x", groups="none")
    np.testing.assert_allclose(answers.draws, posterior.flat["x"][:1, None], atol=1e-10)
    # Effects of new groups vary with sd(Intercept | s) at least.
    new = bk.predictions(point, {"x": [0.0], "z": ["a"]}, groups="new").draws
    sd = posterior.flat["sd(Intercept | s)"][0]
    assert new.std() == pytest.approx(sd, rel=4.0 / (2.0 * len(new)) ** 0.5)


# -- pictures --------------------------------------------------------------------------------------


def test_a_caterpillar_shows_shrinkage(mixed):
    posterior, data = mixed
    draws = posterior.flat
    ax = caterpillar(posterior).axes[1]
    means, alone = (line.get_xdata() for line in ax.lines if line.get_linestyle() == "None")
    order = np.argsort(-draws["x | s"].mean(axis=0))
    np.testing.assert_allclose(means, draws["x | s"].mean(axis=0)[order])
    # Least squares in each group, less the common effects.
    fits = []
    for g in 100 + order:
        rows = data[data.s == g]
        levels = pd.get_dummies(rows.z, dtype=float).reindex(columns=["b", "c"], fill_value=0.0)
        residuals = rows.y - levels.to_numpy() @ draws["z"].mean(axis=0)
        fits.append(np.polyfit(rows.x, residuals, 1)[0] - draws["x"].mean())
    np.testing.assert_allclose(alone, fits, atol=1e-8)


def test_conditional_plots_show_predictions_and_partial_residuals(mixed):
    posterior, data = mixed
    fig = conditional(posterior)
    assert [ax.get_xlabel() for ax in fig.axes] == ["x", "z"]
    line, points = fig.axes[0].lines[0], fig.axes[0].collections[0].get_offsets()
    grid = bk.datagrid(posterior, x=[data.x.min(), data.x.max()])
    ends = bk.predictions(posterior, grid, groups="none").draws.mean(axis=0)
    np.testing.assert_allclose(line.get_ydata()[[0, -1]], ends)
    residuals = data.y - bk.predictions(posterior).draws.mean(axis=0)
    on_line = np.interp(data.x, line.get_xdata(), line.get_ydata())
    np.testing.assert_allclose(points, np.column_stack([data.x, on_line + residuals]))


def test_plots_of_answers_are_curves_or_rows(mixed):
    posterior, _ = mixed
    grid = bk.datagrid(posterior, x=np.linspace(1.0, -1.0, 12), z=["a", "b"])
    answers = bk.predictions(posterior, grid)
    ax = answers.plot().axes[0]
    assert [line.get_label() for line in ax.lines] == ["z a", "z b"]
    rows = (answers.labels.z == "b").to_numpy()
    # From the lowest x to the highest.
    np.testing.assert_allclose(ax.lines[1].get_ydata(), answers.draws[:, rows].mean(axis=0)[::-1])
    # Numbers of groups are no numbers.
    ax = bk.slopes(posterior, by="s").plot().axes[0]
    texts = [text.get_text() for text in ax.get_yticklabels()]
    assert texts == [f"x, {100 + g}" for g in range(12)]


def test_conditional_plots_have_a_curve_for_each_group_of_a_function():
    data, rng = columns(90), np.random.default_rng(5)
    data["t"] = np.arange(90) % 6 * 2
    data["y"] = np.where(data.z == "b", 2.0, 1.0) * data.x + 0.3 * rng.normal(size=90)
    model = bk.regression("y ~ z + s(x, k=5, by=z) + rw(t, by=z)", data)
    posterior = bk.infer(model, method="laplace", seed=0, progress=False)
    # The time of the data next to the mean, 5.
    assert bk.datagrid(posterior)["t"].item() in (4, 6)
    _, by_x, by_t = conditional(posterior, ["z", "x", "t"]).axes
    assert [text.get_text() for text in by_x.get_legend().get_texts()] == ["a", "b", "c"]
    for line, level in zip(by_x.lines, "abc", strict=True):
        x, y = line.get_data()
        expected = bk.predictions(posterior, bk.datagrid(posterior, x=x, z=level)).draws
        np.testing.assert_allclose(y, expected.mean(axis=0), rtol=1e-10)
    np.testing.assert_array_equal(by_t.lines[0].get_xdata(), np.arange(0, 12, 2))


def test_zeros_and_ones_are_compared_and_factors_have_no_slope():
    data, rng = columns(60), np.random.default_rng(6)
    data["treated"] = rng.integers(0, 2, 60)
    data["y"] = 2.0 * data.treated + rng.normal(size=60)
    posterior = bk.infer(bk.regression("y ~ treated", data), method="laplace", progress=False)
    answers = bk.comparisons(posterior)
    assert answers.labels["contrast"].tolist() == ["1 - 0"]
    np.testing.assert_allclose(answers.draws[:, 0], posterior.flat["treated"])
    posterior = bk.infer(bk.regression("y ~ z", data), method="laplace", progress=False)
    with pytest.raises(ValueError, match="no column has a slope.*bk.comparisons"):
        bk.slopes(posterior)
