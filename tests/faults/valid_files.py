"""Small sound files of each format, as bytes by name: the start of every fault."""

import gzip
import io
import json
from functools import cache

import numpy as np
import pandas as pd

ROWS = 36
MONTHS = [str(month) for month in np.datetime64("2018-01") + np.arange(ROWS)]
VALUES = [round(100.5 + 3 * i + 10 * (i % 12), 1) for i in range(ROWS)]


def csv(separator=",", decimal="."):
    rows = [f"{m}-01{separator}{v}" for m, v in zip(MONTHS, VALUES, strict=True)]
    return "\n".join([f"month{separator}sales", *rows, ""]).replace(".", decimal)


def frame():
    return pd.DataFrame({"month": pd.to_datetime(MONTHS), "sales": VALUES})


def parquet(table=None):
    buffer = io.BytesIO()
    (frame() if table is None else table).to_parquet(buffer)
    return buffer.getvalue()


def workbook(table=None):
    buffer = io.BytesIO()
    (frame() if table is None else table).to_excel(buffer, index=False)
    return buffer.getvalue()


@cache
def valid_files():
    """Bytes of each file, by the name of its format."""
    records = [{"month": m, "sales": v} for m, v in zip(MONTHS, VALUES, strict=True)]
    return {
        "csv": csv().encode(),
        "semicolons": csv(";", ",").encode(),
        "tabs": csv("\t").encode("utf-8-sig"),
        "utf-16": csv().encode("utf-16"),
        "records": json.dumps(records).encode(),
        "lines": "\n".join(map(json.dumps, records)).encode(),
        "columns": json.dumps({"month": MONTHS, "sales": VALUES}).encode(),
        "object": json.dumps(dict(zip(MONTHS, VALUES, strict=True))).encode(),
        "parquet": parquet(),
        "workbook": workbook(),
        "csv.gz": gzip.compress(csv().encode()),
        "parquet.gz": gzip.compress(parquet()),
    }
