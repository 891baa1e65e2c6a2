"""Docstrings, messages, comments and pages keep to the terms of the glossary."""

import ast
import io
import re
import tokenize
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("bayeskern", "benchmarks", "models", ".ci")
MODULES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

# Each retired phrase with its replacement.
RETIRED = {
    r"look(s|ed|ing)? back": "rolling-origin evaluation",
    r"wider look": "wider proposal",
    r"climb(s|ed|ing)?": "optimise, ascend",
    r"so many of": "a number of",
    r"as many as this": "this number",
    r"every so m\w+th": "thinning interval",
    r"shall be": "is, are",
    r"the like(s of)?": "name the things",
    r"far out": "in the tails, far from the mode",
    r"floors? of the house|rules of the house": "layers, rules",
    r"are no lines": "non-linear",
}
# A docstring states a purpose; it is no question in disguise.
OPENINGS = re.compile(r"(What|Which|Whether|Those|Where|How|Why|Of|The same|That)\b")


def prose(path):
    """Docstrings, messages and comments of a module, or the text of a page, as (line, text)."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from enumerate(source.splitlines(), 1)
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING, tokenize.FSTRING_MIDDLE):
            yield token.start[0], token.string


def test_retired_phrases_are_gone():
    pattern = re.compile(rf"\b({'|'.join(RETIRED)})\b", re.IGNORECASE)
    uses = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for path in [*MODULES, *PAGES]
        for line, text in prose(path)
        for match in pattern.finditer(text)
    ]
    assert uses == [], f"write as in {RETIRED}"


def docstrings(path):
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, kinds) and ast.get_docstring(node):
            yield getattr(node, "lineno", 1), ast.get_docstring(node)


def test_docstrings_begin_with_a_noun_phrase_or_an_imperative():
    riddles = [
        f"{path.relative_to(ROOT)}:{line}: {text.partition(chr(10))[0]}"
        for path in MODULES
        for line, text in docstrings(path)
        if OPENINGS.match(text)
    ]
    assert riddles == []
