"""A nightly job: update saved forecasts by new sales, make them add up, and write a report.

    python nightly.py forecasts new.csv regions.csv out

The folder was written once by

    bayeskern forecast-many sales.csv --id store --horizon 28 --folder forecasts

and is replaced last and in one step: after a crash at any moment, run the job again.
"""

import sys
from pathlib import Path

import pandas as pd

import bayeskern as bk


def main(folder: str, new: str, regions: str, out: str) -> None:
    forecasts = bk.load(folder).update(new)  # rows of earlier days are skipped
    reconciled = bk.reconcile(forecasts, pd.read_csv(regions)[["region", "store"]])
    forecasts.export(Path(out) / "stores.csv")
    reconciled.export(Path(out) / "reconciled.csv")
    bk.report(forecasts, Path(out) / "report.html")
    forecasts.save(folder)
    print(forecasts)


if __name__ == "__main__":
    main(*sys.argv[1:])
