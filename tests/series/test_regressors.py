"""Files of events: names and dates as the test wrote them, or why they are refused."""

import numpy as np
import pytest

from bayeskern.series.regressors import read_events


def test_events_of_a_file(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("Date;Name\n13.01.2024;Fair\n14.02.2024;Strike\n05.02.2024;Fair\n")
    events = read_events(path)
    assert list(events) == ["Fair", "Strike"]
    np.testing.assert_array_equal(events["Fair"], np.array(["2024-01-13", "2024-02-05"], "M8[D]"))
    np.testing.assert_array_equal(events["Strike"], np.array(["2024-02-14"], "M8[D]"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("day,what\n2024-01-13,Fair\n", "must have columns name and date; got day, what"),
        ("name,date\nFair,2024-01-13\n,2024-01-14\n", "row 2: the event has no name"),
        ("name,date\nFair,2024-01-13\nFair,soon\n", "date, row 2: cannot read 'soon'"),
        ("name,date\nFair,01/02/2024\n", "2024-02-01 .* or 2024-01-02 .*Write the dates of events"),
        ("name,date\nFair,17\nFair,18\n", "events need dates.* got numbers"),
    ],
)
def test_bad_events(tmp_path, text, message):
    path = tmp_path / "events.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_events(path)
    with pytest.raises(ValueError, match="none.csv is not a file"):
        read_events(tmp_path / "none.csv")
