"""The paper has the sections and references that JOSS asks for, and no figures of its own."""

import re
from pathlib import Path

import bayeskern as bk

ROOT = Path(__file__).parent.parent
PAPER = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8").split("---\n", 2)[2]
# Journal of Open Source Software, "JOSS paper format".
SECTIONS = [
    "Summary",
    "Statement of need",
    "State of the field",
    "Software design",
    "Research impact statement",
    "AI usage disclosure",
    "Acknowledgements",
    "References",
]


def section(name):
    return PAPER.partition(f"# {name}\n")[2].partition("\n# ")[0]


def test_sections_and_length():
    assert re.findall(r"^# (.+)$", PAPER, flags=re.MULTILINE) == SECTIONS
    assert 800 <= len(PAPER.split()) <= 1200


def test_references_are_those_cited():
    bibliography = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
    entries = re.findall(r"^@\w+\{([\w-]+),", bibliography, flags=re.MULTILINE)
    assert len(entries) == len(set(entries))
    assert set(re.findall(r"@([\w-]+)", PAPER)) == set(entries)


def test_picture_exists_and_is_referred_to():
    ((label, path),) = re.findall(r"\\label\{(\w+)\}\]\((\S+)\)", PAPER)
    assert (ROOT / "paper" / path).exists()
    assert f"\\autoref{{{label}}}" in PAPER


def test_figures_stand_in_the_documentation():
    pages = [ROOT / "README.md", ROOT / "docs" / "figures.md", ROOT / "docs" / "verdicts.md"]
    known = {n for page in pages for n in re.findall(r"\d[\d.,]*\d|\d", page.read_text())}
    stated = re.findall(r"\d[\d.,]*\d|\d", section("Research impact statement"))
    assert len(stated) > 10
    assert [number for number in stated if number not in known] == []


def test_citation_has_the_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    version = re.search(r"^version: (\S+)", citation, flags=re.MULTILINE)
    assert version is not None and version[1] == bk.__version__
