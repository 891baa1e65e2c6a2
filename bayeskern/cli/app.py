"""The command line application, to which the modules of this package add commands."""

from __future__ import annotations

from cyclopts import App, Parameter

import bayeskern as bk

app = App(
    name="bayeskern",
    help="""Forecasts with honest uncertainty, and Bayesian models with a verdict on each result.

    Any command takes --debug, which shows the traceback of an error.
    """,
    version=bk.__version__,
    version_flags=["--version"],
    default_parameter=Parameter(negative=()),
)
