"""Size limit of a report on many posteriors."""

import re
from unittest import mock

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from markupsafe import Markup

import bayeskern as bk
from bayeskern.reports import document, report
from bayeskern.reports.blocks import Block
from bayeskern.reports.document import Section, render
from bayeskern.reports.subject import Subject

y = np.random.default_rng(0).normal(size=30)


def model(y):
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    numpyro.sample("y", dist.Normal(mu, 1.0).expand([len(y)]).to_event(1), obs=y)


@pytest.fixture(scope="module")
def posterior():
    return bk.infer(model, y, method="map", seed=0, progress=False)


def chapter(subject, i, with_model, bar):
    pictures = [Markup(f'<svg id="{i}">{"." * 150_000 * j}</svg>') for j in (1, 2)]
    blocks = [Block("convergence", "elbo", figure=picture) for picture in pictures]
    return document.Chapter(i, subject.name, "good", [Section(f"{i}-x", "X", blocks)])


@pytest.mark.slow
def test_eight_posteriors_fit_into_three_megabytes(posterior):
    subjects = [Subject(posterior, f"posterior {i}") for i in range(8)]
    with mock.patch.object(document, "_chapter", chapter):
        text = render(subjects)
    assert 2_000_000 < len(text.encode()) < 3_000_000
    left = len(re.findall("A figure was left out here", text))
    # The figure of the comparison, and the figures that are kept.
    assert 0 < left <= 8 and len(re.findall("<figure>", text)) == 1 + 16 - left
    assert f"{left} of the 16 figures on single posteriors are left out" in text
    # The remark comes with the verdicts, before the figures.
    assert text.index("are left out, the largest first") < text.index('id="comparison"')


def test_name_without_an_encoding_is_written(posterior, tmp_path):
    with mock.patch.object(document, "_chapter", chapter):
        path = report({"a\ud800": posterior, "b": posterior}, tmp_path / "report.html")
    assert r"a\ud800" in path.read_text(encoding="utf-8")
