import numpy as np
import pytest

from bayeskern import datasets


def test_names_and_shapes():
    sizes = {"airline": 144, "co2": 526, "motorcycle": 133, "nile": 100, "sunspots": 309}
    assert datasets.names() == tuple(sizes)
    for name, size in sizes.items():
        data = datasets.load(name)
        assert data.times.shape == data.values.shape == (size,)
        assert data.values.dtype == np.float64
        assert data.name == name and data.path.is_file()
        assert data.title and data.source and data.licence and data.time_name and data.value_name
        assert (np.diff(data.times).astype(float) >= 0).all()
        assert f"`{name}.csv`" in data.path.with_name("SOURCES.md").read_text(encoding="utf-8")


def test_co2_keeps_its_gaps():
    data = datasets.load("co2")
    months = np.arange("1958-03", "2002-01", dtype="datetime64[M]")
    np.testing.assert_array_equal(data.times, months.astype("datetime64[D]"))
    gaps = np.array(["1958-06", "1958-10", "1964-02", "1964-03", "1964-04"], "datetime64[M]")
    np.testing.assert_array_equal(months[np.isnan(data.values)], gaps)
    # NOAA's annual means, on a newer calibration scale: 315.98 in 1959, 371.32 in 2001
    year = data.times.astype("datetime64[Y]").astype(int) + 1970
    assert np.nanmean(data.values[year == 1959]) == pytest.approx(315.98, abs=0.1)
    assert np.nanmean(data.values[year == 2001]) == pytest.approx(371.32, abs=0.6)


def test_co2_is_the_monthly_mean_of_statsmodels():
    weekly = pytest.importorskip("statsmodels.api").datasets.co2.load_pandas().data["co2"]
    np.testing.assert_allclose(
        datasets.load("co2").values, weekly.resample("MS").mean(), atol=0.00051
    )


def test_airline():
    data = datasets.load("airline")  # Box, Jenkins and Reinsel, Series G
    assert data.times[0] == np.datetime64("1949-01-01")
    assert data.times[-1] == np.datetime64("1960-12-01")
    assert (data.values[0], data.values[-1], data.values.max()) == (112, 432, 622)


def test_nile():
    data = datasets.load("nile")
    assert data.times.dtype == np.int64 and (data.times[0], data.times[-1]) == (1871, 1970)
    assert data.values.mean() == pytest.approx(919.35)  # Durbin and Koopman (2012), section 2.2
    drop = data.values[data.times > 1898].mean() - data.values[data.times <= 1898].mean()
    assert drop == pytest.approx(-248, abs=1)  # 1098 before, 850 after


def test_sunspots():
    data = datasets.load("sunspots")
    np.testing.assert_array_equal(data.times, np.arange(1700, 2009))
    assert data.times[np.argmax(data.values)] == 1957 and data.values.max() == 190.2


def test_motorcycle_has_repeated_times():
    data = datasets.load("motorcycle")
    assert len(np.unique(data.times)) == 94  # Davison and Hinkley's `motor` has one row for each
    assert (data.times[0], data.times[-1]) == (2.4, 57.6)
    assert (data.values.min(), data.values.max()) == (-134.0, 75.0)


@pytest.mark.parametrize(("name", "near"), [("c02", "co2"), ("sunspot", "sunspots")])
def test_unknown_name(name, near):
    with pytest.raises(ValueError, match=f"{name}.*Did you mean '{near}'.*motorcycle"):
        datasets.load(name)


def test_unlike_any_name():
    with pytest.raises(ValueError, match="name='zzz' is not known. Choose from airline"):
        datasets.load("zzz")
