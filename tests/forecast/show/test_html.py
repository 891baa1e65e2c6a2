"""Results in notebooks: text from data is escaped, pictures are inside the page."""

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import bayeskern as bk

NAME = '<script>alert("x")</script> & $y$'
ONE = {"season": 0, "trend": "drift", "model": bk.StructuralModel(log=False, method="map")}


class Reader(HTMLParser):
    """Tags, texts and cells of a page; tags must be closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.texts, self.attributes = [], [], [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def noise(n=30, seed=0):
    return np.random.default_rng(seed).standard_normal(n)


@pytest.fixture(scope="module")
def series():
    values = noise()
    values[20] = 25.0
    return pd.Series(values, pd.date_range("2020-01-01", periods=30, freq="MS"), name=NAME)


def results(series):
    yield bk.forecast(series, 14, **ONE), 13
    yield bk.backtest(series, 2, cutoffs=2, progress=False, **ONE), 3
    yield bk.anomalies(series, **ONE), 2
    yield bk.fill_gaps(series.drop(series.index[5]), **ONE), 2
    both = pd.DataFrame({"id": [NAME] * 30 + ["b"] * 30, "t": [*series.index] * 2})
    both["y"] = [*series, *noise(seed=1)]
    many = bk.forecast_many(both, 2, id="id", time="t", value="y", progress=False, **ONE)
    yield many, 3


@pytest.mark.slow
def test_pages(series):
    for result, rows in results(series):
        page = result._repr_html_()
        reader = Reader(page)
        assert "script" not in reader.tags and "<script" not in page
        assert any(NAME in text for text in reader.texts)
        assert reader.tags.count("tr") == rows, type(result)
        for picture in re.findall(r'src="data:image/png;base64,([^"]*)"', page):
            assert base64.b64decode(picture).startswith(b"\x89PNG")
        # Nothing is loaded from elsewhere, and nothing runs.
        assert not re.search(r"https?:|javascript:| on[a-z]+=", page)


def test_page_of_a_forecast_has_words_verdict_and_values(series):
    f = bk.forecast(series, 14, **ONE)
    text = " ".join(Reader(f._repr_html_()).texts)
    assert "In four cases out of five" in text and f"Verdict: {f.trust.verdict}" in text
    assert "2 steps left out before the last one" in text
    for time in f.times[[0, 10, 13]]:
        assert str(time.astype("M8[M]")) in text


def test_constant_series_has_a_page():
    assert "the forecast repeats it" in bk.forecast([1.0] * 5, 2)._repr_html_()
