"""The report in a real browser, where there is one: nothing overflows, nothing is complained of."""

import html
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import bayeskern as bk
from bayeskern.diagnostics.report import report

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WIDTHS = (375, 1280)


def browser() -> str | None:
    """A Chromium on the path, or the one that Playwright keeps."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    kept = Path.home().glob(".cache/ms-playwright/chromium*/chrome-*/*")
    own = [str(p) for p in kept if p.name in ("chrome", "headless_shell", "chrome-headless-shell")]
    return found or next(iter(own), None)


def probe(text: str) -> str:
    """A page that opens a report at each width and writes down how wide its content is."""
    frames = "".join(
        f'<iframe style="border:0;width:{width}px;height:900px" srcdoc="{html.escape(text)}">'
        "</iframe>"
        for width in WIDTHS
    )
    return f"""<!DOCTYPE html><body>{frames}<p id="widths"></p><script>
    onload = () => widths.textContent = "widths:" + [...document.querySelectorAll("iframe")]
      .map(f => f.contentDocument.documentElement.scrollWidth).join();
    </script></body>"""


@pytest.mark.skipif(browser() is None, reason="there is no Chromium on the path")
def test_nothing_overflows_and_the_console_is_silent(tmp_path):
    def model(y):
        name = numpyro.sample("a_rather_long_name_" * 4, dist.Normal(0.0, 5.0))
        numpyro.sample("y", dist.Normal(name, 1.0).expand([len(y)]).to_event(1), obs=y)

    y = np.random.default_rng(0).normal(size=30)
    posterior = bk.infer(model, y, method="laplace", progress=False)
    page = tmp_path / "probe.html"
    page.write_text(probe(report(posterior, tmp_path / "report.html").read_text(encoding="utf-8")))
    command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=5000"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=60
    )
    found = re.search(r"widths:([\d,]+)", done.stdout.partition('id="widths"')[2])
    assert found, done.stderr[-500:]
    for wanted, width in zip(WIDTHS, found[1].split(","), strict=True):
        assert int(width) <= wanted
    assert "CONSOLE" not in done.stderr
