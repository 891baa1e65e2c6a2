"""The report in a browser, if one is installed: no overflow, an empty console."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from PIL import Image

import bayeskern as bk
from bayeskern.reports import report

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "chromium-headless-shell",
)
# Widths of a phone and of a desktop, side by side in one window.
WIDTHS, HEIGHT = (390, 1280), 1400
LONG = "N" * 200


def browser() -> str | None:
    """Path of a Chromium: on the path, or from Playwright."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    kept = Path.home().glob(".cache/ms-playwright/chromium*/chrome-*/*")
    own = [str(p) for p in kept if p.name in ("chrome", "headless_shell", "chrome-headless-shell")]
    return found or next(iter(own), None)


needs_browser = pytest.mark.skipif(browser() is None, reason="there is no Chromium on the path")


def model(y):
    level = numpyro.sample("a_rather_long_name_" * 4, dist.Normal(0.0, 5.0))
    sd = numpyro.sample("sd", dist.HalfNormal(2.0))
    with numpyro.plate("row", len(y)):
        numpyro.sample("y", dist.Normal(level, sd), obs=y)


def probe(text: str) -> str:
    """A page that opens a report at each width and logs the width of its content."""
    frames = "".join(
        f'<iframe style="border:0;width:{width}px;height:{HEIGHT}px" srcdoc="{html.escape(text)}">'
        "</iframe>"
        for width in WIDTHS
    )
    # A frame is transparent if its colour scheme differs from that of the page.
    return f"""<!DOCTYPE html><meta name="color-scheme" content="light dark">
    <body style="margin:0;display:flex">{frames}<script>
    onload = () => console.log("widths:" + [...document.querySelectorAll("iframe")]
      .map(f => f.contentDocument.documentElement.scrollWidth).join());
    </script></body>"""


def posteriors():
    y = np.random.default_rng(0).normal(size=30)
    return {
        LONG if method == "laplace" else method: bk.infer(
            model, y, method=method, seed=0, progress=False
        )
        for method in ("laplace", "map")
    }


def collection():
    """A short series without a forecast, and series of which one has a long name."""
    y = 50.0 + np.cumsum(np.random.default_rng(0).normal(size=30))
    frame = pd.DataFrame({"month": pd.date_range("2020-01-01", periods=30, freq="MS"), "y": y})
    parts = [frame.assign(store="a"), frame.assign(store=LONG), frame[:1].assign(store="new")]
    options = {"season": 0, "trend": "drift", "workers": 1, "progress": False}
    return bk.forecast_many(pd.concat(parts), 6, id="store", value="y", **options)


@pytest.fixture(scope="module", params=[posteriors, collection])
def page(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    path = folder / "probe.html"
    text = report(request.param(), folder / "report.html").read_text(encoding="utf-8")
    path.write_text(probe(text))
    return path


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overflows_and_the_console_is_empty(page, scheme, tmp_path):
    shot = tmp_path / "shot.png"
    command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000"]
    command += [f"--blink-settings=preferredColorScheme={'01'[scheme == 'light']}"]
    command += [f"--window-size={sum(WIDTHS)},{HEIGHT}", "--hide-scrollbars"]
    done = subprocess.run(
        [*command, f"--screenshot={shot}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    found = re.search(r"widths:([\d,]+)", "".join(said))
    assert found, done.stderr[-500:]
    assert len(said) == 1, said
    for wanted, width in zip(WIDTHS, found[1].split(","), strict=True):
        assert int(width) <= wanted
    seen = np.asarray(Image.open(shot).convert("L"), float)
    for frame in np.split(seen, [WIDTHS[0]], axis=1):
        paper = np.median(frame)
        assert paper > 240 if scheme == "light" else paper < 40
        # Text, rules and figures.
        assert np.mean(np.abs(frame - paper) > 60) > 0.01
