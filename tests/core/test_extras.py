"""Optional packages: the message names the package and the extra that installs it."""

import builtins
import runpy
import sys

import pytest

import bayeskern as bk


@pytest.fixture
def without(monkeypatch):
    """Return a function after which importing a package fails."""

    def remove(package):
        real = builtins.__import__

        def refusing(name, *args, **kwargs):
            if name.partition(".")[0] == package:
                raise ModuleNotFoundError(f"No module named {package!r}", name=package)
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", refusing)

    return remove


def test_report_names_its_extra(without, monkeypatch):
    without("jinja2")
    for module in [name for name in sys.modules if name.startswith("bayeskern.reports")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ImportError, match=r"jinja2: pip install 'bayeskern\[report\]'"):
        bk.report  # noqa: B018


def test_holidays_name_their_extra(without):
    without("holidays")
    with pytest.raises(ImportError, match=r"holidays: pip install 'bayeskern\[holidays\]'"):
        bk.forecast("co2", 12, holidays="DE")


def test_command_line_names_its_extra(without, monkeypatch):
    without("cyclopts")
    for name in [name for name in sys.modules if name.startswith("bayeskern.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(bk, "cli", raising=False)
    with pytest.raises(SystemExit, match=r"cyclopts: pip install 'bayeskern\[cli\]'"):
        runpy.run_module("bayeskern", run_name="__main__")
