"""Broken and hostile files as bytes by name; none of them holds a table that can be read."""

import gzip
import io
import json
import zipfile
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tests.faults.valid_files import MONTHS, ROWS, VALUES, csv, parquet, valid_files

LINES = csv().splitlines()


@cache
def broken_files():
    """Bytes of each broken file, by a name that says what is wrong."""
    return {
        **{f"text: {name}": as_bytes(text) for name, text in broken_texts().items()},
        **{f"json: {name}": as_bytes(text) for name, text in broken_json().items()},
        **{f"gzip: {name}": content for name, content in broken_gzip().items()},
        **{f"workbook: {name}": content for name, content in broken_workbooks().items()},
        **{f"parquet: {name}": content for name, content in broken_parquet().items()},
    }


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def with_cells(values, times=MONTHS):
    """CSV of which the last values, or all times, are others."""
    values = [*map(str, VALUES[: ROWS - len(values)]), *values]
    return "\n".join(["month,sales", *map(",".join, zip(times, values, strict=True))])


# -- text ------------------------------------------------------------------------------------------


def broken_texts():
    rng = np.random.default_rng(0)
    bad_values = {
        "formula": "=1+1",
        "hexadecimal": "0x10",
        "underscores": "1_000",
        "too large for a float": "1e999",
        "infinite": "-inf",
        "digits of another script": "١٢",
        "wide digits": "\uff11\uff12",
        "a boolean": "True",
        "a list": "[1 2]",
        "control characters": "\x1b[2J\x07",
        "reversed text": "\u202e321",
        "a huge cell": "x" * 200_000,
        "many digits and a letter": "9" * 5000 + "x",
    }
    bad_times = {
        "the 30th of February": "2020-02-30",
        "month 13": "2020-13-01",
        "year 0": "0000-00-00",
        "a far year": "999999999-01-01",
        "words": "soon",
        "control characters": "\x1b]0;title\x07",
        "an infinite number": "1e999",
        "not a number": "nan",
    }
    header = LINES[0]
    return {
        "empty": "",
        "blank lines": "\n" * 1000,
        "a mark of UTF-8 only": b"\xef\xbb\xbf",
        "a mark of UTF-16 only": b"\xff\xfe",
        "spaces": " " * 1000,
        "a header only": header,
        "comments only": "# a\n# b\n",
        "one row": "\n".join(LINES[:2]),
        "two rows": "\n".join(LINES[:3]),
        "no values": "\n".join([header, *(f"{m}-01," for m in MONTHS)]),
        "a short row": "\n".join([*LINES[:9], "2018-09-01", *LINES[10:]]),
        "a long row": "\n".join([*LINES[:9], "2018-09-01,1,2,3", *LINES[10:]]),
        "an open quotation mark": "\n".join([*LINES[:9], '2018-09-01,"1', *LINES[10:]]),
        "a header twice": csv().replace("month,sales", "sales,sales"),
        "a date twice": csv().replace("2018-05-01", "2018-04-01"),
        "NUL bytes": csv().replace("2018-05-01", "2018\x0005-01"),
        "zeros": b"\x00" * 1000,
        "random bytes": rng.integers(0, 256, 4000, dtype=np.uint8).tobytes(),
        "UTF-16 without a mark": csv().encode("utf-16-le"),
        "UTF-32": csv().encode("utf-32"),
        "half a letter of UTF-16": csv().encode("utf-16") + b"\x00",
        "a lone surrogate in UTF-16": csv("\t").encode("utf-16") + b"\x00\xd8a\x00",
        "EBCDIC": csv().encode("cp037"),
        **{f"value {name}": with_cells([cell]) for name, cell in bad_values.items()},
        **{f"time {n}": with_cells([], [*MONTHS[:-1], cell]) for n, cell in bad_times.items()},
        "two values in a column": with_cells(["1 2"]),
        "many columns": "\n".join([",".join(map(str, range(5000))), ",".join("1" * 5000)]),
        "a page of the web": "<!doctype html><table></table>",
        "a pickle": b"\x80\x04\x95\x10\x00\x00\x00",
    }


# -- JSON ------------------------------------------------------------------------------------------


def broken_json():
    records = [{"month": m, "sales": v} for m, v in zip(MONTHS, VALUES, strict=True)]
    text = json.dumps(records)

    def with_value(value):
        return text.replace(f'"sales": {VALUES[-1]}', f'"sales": {value}')

    return {
        "lists in lists": "[" * 200_000,
        "closed lists in lists": "[" * 100_000 + "]" * 100_000,
        "objects in objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
        "nested on a second line": '{"a": 1}\n' + "[" * 200_000,
        "cut off": text[: len(text) // 2],
        "followed by text": f"{text} and so on",
        "an empty list": "[]",
        "an empty object": "{}",
        "empty records": "[{}, {}, {}]",
        "lists": json.dumps([*zip(MONTHS, VALUES, strict=True)]),
        "nothing": "[null, null, null]",
        "columns of two lengths": json.dumps({"month": MONTHS, "sales": VALUES[1:]}),
        "a field twice": text.replace('"month"', '"sales"'),
        "a time twice": '{"2020-01": 1, "2020-01": 2, "2020-02": 3, "2020-03": 4}',
        "UTF-16": text.encode("utf-16"),
        "not in UTF-8": text.encode().replace(b"month", b"m\xf6nth"),
        "a lone surrogate as a name": text.replace('"month"', '"\\ud800"'),
        "a lone surrogate as a cell": with_value('"\\udfff"'),
        "a list as a cell": with_value("[1, 2]"),
        "an object as a cell": with_value('{"a": 1}'),
        "an infinite cell": with_value("Infinity"),
        "ten thousand digits": with_value("9" * 10_000),
        "words": '["a", "b", "c"]',
    }


# -- gzip ------------------------------------------------------------------------------------------


def broken_gzip():
    whole = gzip.compress(csv().encode())
    return {
        "cut off": whole[: len(whole) // 2],
        "ten bytes": whole[:10],
        "two bytes": whole[:2],
        "a wrong checksum": whole[:-8] + b"\x00" * 8,
        "a wrong length": whole[:-4] + b"\xff" * 4,
        "garbage": whole[:10] + b"\xff" * 100,
        "garbage after the end": whole + b"\x01" * 100,
        "another method": whole[:2] + b"\x07" + whole[3:],
        "gzipped twice": gzip.compress(whole),
        "nothing in it": gzip.compress(b""),
    }


def newline_bomb(size):
    """Gzipped line breaks, `size` bytes when unpacked."""
    member = gzip.compress(b"\n" * 2**20)
    return member * (size // 2**20)


# -- workbooks -------------------------------------------------------------------------------------

SHEET, STRINGS, BOOK = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml", "xl/workbook.xml"


def edited(part, change, content=None):
    """A workbook of which one part is changed, or left out if `change` is None."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content or valid_files()["workbook"])) as before,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as after,
    ):
        for name in before.namelist():
            if name != part:
                after.writestr(name, before.read(name))
            elif change is not None:
                after.writestr(name, change(before.read(name)))
        if part not in before.namelist():
            after.writestr(part, change(b""))
    return buffer.getvalue()


def replaced(old, new):
    def change(text):
        assert old in text
        return text.replace(old, new)

    return change


def changed_entry(content, offset, value):
    """A zip file with other bytes in each entry of its directory."""
    parts = content.split(b"PK\x01\x02")
    start = offset - 4
    edit = [part[:start] + value + part[start + len(value) :] for part in parts[1:]]
    return b"PK\x01\x02".join([parts[0], *edit])


def with_rows(rows):
    """A workbook whose sheet has these rows, as XML."""
    head = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    return edited(SHEET, lambda _: head + b"<sheetData>" + rows + b"</sheetData></worksheet>")


def with_texts(texts):
    """A workbook of which all texts are in a part of their own, as XML."""
    types = b"application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    override = b'<Override PartName="/%b" ContentType="%b"/></Types>' % (STRINGS.encode(), types)
    content = edited("[Content_Types].xml", replaced(b"</Types>", override))
    inline = b't="inlineStr"><is><t>month</t></is>'
    content = edited(SHEET, replaced(inline, b't="s"><v>0</v>'), content)
    head = b'<sst xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
    return edited(STRINGS, lambda _: texts.replace(b"<sst>", head), content)


def cell(reference, value=1):
    return f'<c r="{reference}"><v>{value}</v></c>'.encode()


def row(number, *cells):
    return f'<row r="{number}">'.encode() + b"".join(cells) + b"</row>"


def laughs():
    """XML that becomes 2 GB of text when its entities are replaced."""
    entities = [b'<!ENTITY a0 "ha ha ha ha ha ha ha">']
    for i in range(1, 9):
        entities.append(f'<!ENTITY a{i} "{f"&a{i - 1};" * 12}">'.encode())
    return b"<?xml version='1.0'?><!DOCTYPE x [" + b"".join(entities) + b"]>"


def broken_workbooks():
    whole = valid_files()["workbook"]
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("readme.txt", "no workbook")
    secret = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]>'
    return {
        "another zip file": other.getvalue(),
        "four bytes": b"PK\x03\x04",
        "cut off": whole[: len(whole) // 2],
        "a wrong checksum": changed_entry(whole, 16, b"\x00\x00\x00\x00"),
        "encrypted": changed_entry(whole, 8, b"\x01"),
        "an unknown compression": changed_entry(whole, 10, b"\x63"),
        "a wrong size": changed_entry(whole, 24, b"\x05\x00\x00\x00"),
        "a size of 4 GB": changed_entry(whole, 24, b"\xf0\xff\xff\xff"),
        "no sheet": edited(SHEET, None),
        "no list of sheets": edited(BOOK, None),
        "no list of parts": edited("[Content_Types].xml", None),
        "no texts": with_texts(b"<sst></sst>"),
        "an empty sheet": edited(SHEET, lambda _: b""),
        "a sheet without rows": with_rows(b""),
        "a sheet cut off": edited(SHEET, lambda text: text[: len(text) // 2]),
        "texts cut off": with_texts(b"<sst><si><t>month"),
        "a list of sheets cut off": edited(BOOK, lambda text: text[: len(text) // 2]),
        "styles cut off": edited("xl/styles.xml", lambda text: text[: len(text) // 2]),
        "an unknown tag": edited(SHEET, replaced(b"<v>", b"<w>")),
        "NUL bytes": edited(SHEET, lambda text: text.replace(b"2", b"\x00")),
        "a text that is not there": with_rows(row(1, b'<c r="A1" t="s"><v>9999</v></c>')),
        "a negative text": with_rows(row(1, b'<c r="A1" t="s"><v>-5</v></c>')),
        "a style that is not there": with_rows(row(1, b'<c r="A1" s="9999"><v>1</v></c>')),
        "a wrong reference": with_rows(row(1, cell("1A"))),
        "a column too far": with_rows(row(1, cell("ZZZZZZ1"))),
        "a row without a number": with_rows(b'<row r="x">' + cell("A1") + b"</row>"),
        "a value without a number": with_rows(row(1, cell("A1", "x"))),
        "a far date": edited(SHEET, replaced(b"<v>43101</v>", b"<v>1e300</v>")),
        "an impossible date": edited(
            SHEET, replaced(b't="n"><v>43101</v>', b't="d"><v>2018-13-45</v>')
        ),
        "cells far apart": with_rows(row(1, cell("A1")) + row(1_048_576, cell("XFD1048576"))),
        "entities in entities": with_texts(laughs() + b"<sst><si><t>&a8;</t></si></sst>"),
        "entities in a sheet": edited(
            SHEET, lambda text: laughs() + text.replace(b"month", b"&a8;")
        ),
        "an external entity": with_texts(secret + b"<sst><si><t>&a;</t></si></sst>"),
    }


# -- Parquet ---------------------------------------------------------------------------------------


def arrow(**columns):
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def two_columns_of_one_name():
    buffer = io.BytesIO()
    arrays = [pa.array(MONTHS), pa.array(VALUES), pa.array(VALUES)]
    pq.write_table(pa.Table.from_arrays(arrays, names=["month", "sales", "sales"]), buffer)
    return buffer.getvalue()


def with_a_wrong_checksum():
    buffer = io.BytesIO()
    table = pa.table({"month": MONTHS, "sales": VALUES})
    options = {"use_dictionary": False, "compression": "none", "write_page_checksum": True}
    pq.write_table(table, buffer, **options)
    value = np.float64(VALUES[5]).tobytes()
    assert value in buffer.getvalue()
    return buffer.getvalue().replace(value, np.float64(999.0).tobytes(), 1)


def broken_parquet():
    whole, months = valid_files()["parquet"], pa.array(MONTHS)
    times = pd.DataFrame({"month": pd.to_timedelta(np.arange(ROWS), "D"), "sales": VALUES})
    return {
        "four bytes": b"PAR1",
        "cut off": whole[: len(whole) // 2],
        "no footer": whole[:-100],
        "garbage in the footer": whole[:-60] + b"\xff" * 52 + whole[-8:],
        "a wrong length of the footer": whole[:-8] + b"\xff\xff\xff\x7f" + whole[-4:],
        "a wrong checksum of the data": with_a_wrong_checksum(),
        "garbage in the data": whole[:4] + b"\xff" * 60 + whole[64:],
        "lists": arrow(month=months, sales=pa.array([[v] for v in VALUES])),
        "records": arrow(month=months, sales=pa.array([{"v": v} for v in VALUES])),
        "maps": arrow(
            month=months,
            sales=pa.array([[("v", v)] for v in VALUES], pa.map_(pa.string(), pa.float64())),
        ),
        "bytes": arrow(month=months, sales=pa.array([b"\xff\x00"] * ROWS)),
        "nothing": arrow(month=months, sales=pa.nulls(ROWS)),
        "no rows": arrow(month=months[:0], sales=pa.array(VALUES)[:0]),
        "no columns": parquet(pd.DataFrame(index=range(3))),
        "two columns of one name": two_columns_of_one_name(),
        "durations as times": parquet(times),
        "an infinite value": arrow(month=months, sales=pa.array([*VALUES[1:], np.inf])),
    }
