"""Builds the documentation into build/site.

The pages are those of docs/, the README as the front page, CONTRIBUTING, the changelog, the
notebooks with their committed outputs, and a list of all modules. The build fails on a broken link
or picture, and on a docstring that does not fit its signature.
"""

import ast
import base64
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from latex2mathml.converter import convert

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
TOP_LEVEL = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}


def main() -> int:
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for page in [*(ROOT / name for name in TOP_LEVEL), *(ROOT / "docs").rglob("*.md")]:
        (PAGES / place(page)).write_text(relinked(page))
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        write_notebook(notebook, PAGES / place(notebook))
    for chart in (ROOT / "benchmarks" / "results").glob("*.png"):
        (PAGES / place(chart)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(chart, PAGES / place(chart))
    (PAGES / "files.md").write_text(list_of_modules())
    command = ["zensical", "build", "--strict", "--clean"]
    build = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    print(build.stdout)
    if build.returncode or "griffe: " in build.stdout:
        return 1
    broken = broken_links()
    print(*broken, sep="\n")
    return int(bool(broken))


def place(path: Path) -> Path | None:
    """Where a file of the repository stands among the pages; None if it does not."""
    path = path.relative_to(ROOT)
    if path.parts[0] == "docs":
        return path.relative_to("docs")
    if path.suffix == ".png":
        return path
    if path.suffix == ".ipynb":
        return path.with_suffix(".md")
    return Path(TOP_LEVEL[str(path)]) if str(path) in TOP_LEVEL else None


def relinked(page: Path) -> str:
    """A page whose links, which hold in the repository, hold among the pages.

    Where a link leads to a file that is no page, such as a module, its words stay.
    """

    def link(match):
        words, address = match.groups()
        if urlsplit(address).scheme or address.startswith("#"):
            return match[0]
        target, _, anchor = address.partition("#")
        target = place((page.parent / target).resolve())
        if target is None:
            return words
        address = os.path.relpath(target, place(page).parent)
        return f"[{words}]({address}{'#' * bool(anchor)}{anchor})"

    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", link, page.read_text())


def list_of_modules() -> str:
    """A page with the first line of every module's docstring."""
    lines = ["# Every file", "", "The first line of each module, package by package."]
    for folder in [ROOT / "bayeskern", *sorted((ROOT / "bayeskern").rglob("*/"))]:
        modules = sorted(folder.glob("*.py"))
        if modules:
            lines += [
                "",
                f"## {folder.relative_to(ROOT)}",
                "",
                "| file | what it holds |",
                "|---|---|",
            ]
        for module in modules:
            docstring = ast.get_docstring(ast.parse(module.read_text())) or ""
            purpose = re.sub(r"([\[\]|*_<])", r"\\\1", docstring.partition("\n")[0])
            lines.append(f"| `{module.name}` | {purpose} |")
    return "\n".join(lines) + "\n"


def write_notebook(notebook: Path, page: Path) -> None:
    """A notebook as a page, its pictures as files beside it."""
    page.parent.mkdir(exist_ok=True)
    parts = []
    for cell in json.loads(notebook.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(re.sub(r"\$([^$]+)\$", mathml, source))
        elif source:
            parts.append(f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            picture = page.with_name(f"{page.stem}_{len(parts)}.png")
            parts.append(f'<div class="output" markdown>\n\n{shown(output, picture)}\n\n</div>')
    page.write_text("\n\n".join(parts) + "\n")


def mathml(formula: re.Match) -> str:
    """A formula in TeX as MathML, which needs no script; in a span it stays within its line."""
    return f"<span>{convert(formula[1])}</span>"


def shown(output: dict, picture: Path) -> str:
    """One output of a cell in Markdown; a picture is written to its file."""
    data = output.get("data", {})
    if "image/png" in data:
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return f"![Figure]({picture.name})"
    text = "".join(output.get("text") or data["text/plain"]).rstrip()
    return f"```text\n{text}\n```"


class Addresses(HTMLParser):
    """The addresses that a page refers to."""

    def __init__(self, html: str):
        super().__init__()
        self.found = set()
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found |= {value for name, value in attrs if name in ("href", "src") and value}


def broken_links() -> list[str]:
    """The local addresses in the built site behind which there is no file."""
    broken = []
    for page in sorted(SITE.rglob("index.html")):
        for address in sorted(Addresses(page.read_text()).found):
            link = urlsplit(address)
            target = page.parent / unquote(link.path)
            is_page = target.is_file() or (target / "index.html").is_file()
            if not (link.scheme or link.netloc or is_page):
                broken.append(f"{page.relative_to(SITE)}: {address} leads nowhere")
    return broken


if __name__ == "__main__":
    sys.exit(main())
