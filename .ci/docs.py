"""Builds the documentation into build/site.

The pages are those of docs/, CONTRIBUTING, the changelog, the notebooks with their committed
outputs, the gallery, and a list of all modules. Each page of the reference opens with a table of
its objects. The build fails on a broken link, anchor or picture, and on a docstring that does not
fit its signature.
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

import griffe
from latex2mathml.converter import convert

from bayeskern import kernels
from bayeskern.inference import METHODS
from bayeskern.kernels.registry import CAPABILITIES, KERNELS

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build" / "docs"
SITE = ROOT / "build" / "site"
TOP_LEVEL = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
PACKAGE = griffe.load("bayeskern", search_paths=[ROOT])
# The code of each notebook.
NOTEBOOKS = {
    notebook: "\n".join(
        "".join(cell["source"])
        for cell in json.loads(notebook.read_text())["cells"]
        if cell["cell_type"] == "code"
    )
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb"))
}


def main() -> int:
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for page in [*(ROOT / name for name in TOP_LEVEL), *(ROOT / "docs").rglob("*.md")]:
        (PAGES / place(page)).write_text(typeset(relinked(page.read_text(), page)))
    for page in (PAGES / "api").glob("*.md"):
        page.write_text(with_summaries(with_methods(with_kernels(page.read_text()))))
    for notebook in NOTEBOOKS:
        write_notebook(notebook, PAGES / place(notebook))
    for chart in (ROOT / "benchmarks" / "results").glob("*.png"):
        (PAGES / place(chart)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(chart, PAGES / place(chart))
    (PAGES / "files.md").write_text(list_of_modules())
    (PAGES / "gallery.md").write_text(gallery())
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
    """Path among the pages of a file of the repository; None if it is not a page."""
    path = path.relative_to(ROOT)
    if path.parts[0] == "docs":
        return path.relative_to("docs")
    if path == Path("models"):
        return Path("gallery.md")
    if path.suffix == ".png":
        return path
    if path.suffix == ".ipynb":
        return path.with_suffix(".md")
    return Path(TOP_LEVEL[str(path)]) if str(path) in TOP_LEVEL else None


def relinked(text: str, page: Path) -> str:
    """The text of a page whose links, which hold in the repository, hold among the pages.

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

    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", link, text)


def typeset(text: str) -> str:
    """A text whose formulas are MathML, which needs no script; code stays as it is."""

    def formula(match):
        code, display, inline = match.groups()
        if code:
            # In a table GitHub needs a backslash before a bar, also in code; the site shows it.
            return code if code.startswith("```") else code.replace(r"\|", "|")
        if display:
            return f'\n<div class="formula">{mathml(display.strip(), "block")}</div>\n'
        return f"<span>{mathml(inline)}</span>"  # In a span it stays within its line.

    return re.sub(
        r"(```.*?```|`[^`\n]*`)|\$\$(.+?)\$\$|\$([^$\n]+)\$", formula, text, flags=re.DOTALL
    )


def mathml(formula: str, display: str = "inline") -> str:
    """A formula in MathML, with a space between the name of a function and its argument."""
    function = r"(?<!<msub>)(?<!<msup>)(<mi>(?:log|exp|sin|cos|tan|det|arccos)</mi>)(?=<m(?!o\b))"
    return re.sub(function, r'\1<mspace width="0.17em" />', convert(formula, display=display))


def with_kernels(text: str) -> str:
    """A page of the reference in which two comments are replaced by lists of all kernels."""
    kinds = [KERNELS[name] for name in kernels.__all__ if name in KERNELS and name != "Kernel"]
    rows = [("kernel", *CAPABILITIES.values()), ["---"] * (1 + len(CAPABILITIES))]
    by_file = {}
    for kind in kinds:
        if kind.offers:
            marks = ("yes" if capability in kind.offers else "" for capability in CAPABILITIES)
            rows.append((f"`{kind.__name__}`", *marks))
        by_file.setdefault(kind.__module__, []).append(f"::: bayeskern.kernels.{kind.__name__}\n")
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    sections = (
        "\n".join([f"## {sys.modules[module].__doc__.partition('\n')[0].rstrip('.')}\n", *objects])
        for module, objects in by_file.items()
    )
    text = text.replace("<!-- table of kernels -->", table)
    return text.replace("<!-- kernels by file -->", "\n".join(sections))


def with_methods(text: str) -> str:
    """A page of the reference in which a comment is replaced by the list of all methods."""
    objects = (f"::: bayeskern.inference.{method.__name__}\n" for method in METHODS.values())
    return text.replace("<!-- methods -->", "\n".join(objects))


def with_summaries(text: str) -> str:
    """A page of the reference with a table of its objects before the first heading or object."""
    paths = re.findall(r"^::: (\S+)", text, flags=re.MULTILINE)
    rows = "\n".join(map(summary, paths))
    table = f"| object | summary | file | in notebooks |\n|---|---|---|---|\n{rows}\n\n"
    start = re.search(r"^(## |::: )", text, flags=re.MULTILINE).start()
    return text[:start] + table + text[start:]


def summary(path: str) -> str:
    """A row of the table: an object, its purpose, its file, the notebooks that use it."""
    thing = PACKAGE[path.removeprefix("bayeskern.")]
    purpose = thing.docstring.value.partition("\n")[0].replace("|", "\\|")
    file = thing.filepath.relative_to(ROOT / "bayeskern")
    anchor = "bayeskern" + "".join(file.parent.parts)
    # Some names occur in two modules, such as `priors.Laplace` and `bk.Laplace`.
    module = re.search(r"priors|likelihoods|$", path)[0]
    before = rf"\b{module}\." if module else r"(?<![\w.])(bk\.|kernels\.|ridge\.)*"
    uses = [
        f"[{notebook.stem[:2]}](../notebooks/{notebook.stem}.md)"
        for notebook, code in NOTEBOOKS.items()
        if re.search(rf"{before}{thing.name}\(", code)
    ]
    return (
        f"| [`{thing.name}`](#{path}) | {purpose} "
        f"| [`{file}`](../files.md#{anchor}) | {', '.join(uses)} |"
    )


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


def gallery() -> str:
    """A page with the description and the code of every problem in models/."""
    lines = [
        "# Gallery",
        "",
        "Problems with data, to fit from the command line (`bayeskern fit coin`), from Python",
        '(`gallery.load("coin").fit()`), or to copy.',
        "[Fit a NumPyro model](howto/fit_a_model.md#the-gallery-and-files-of-your-own) says how a",
        "file of your own takes their place.",
    ]
    table, sections = ["", "| problem | what it is |", "|---|---|"], []
    for path in sorted((ROOT / "models").glob("[!_]*.py")):
        title, _, text = ast.get_docstring(ast.parse(path.read_text())).partition("\n")
        table.append(f"| [`{path.stem}`](#{path.stem}) | {title} |")
        code = path.read_text().split('"""\n', 1)[1].strip()
        sections += ["", f"## {path.stem}", "", f"**{title}**", text]
        sections += ["", "<details markdown><summary>Code</summary>", ""]
        sections += ["```python", code, "```", "", "</details>"]
    return "\n".join(lines + table + sections) + "\n"


def write_notebook(notebook: Path, page: Path) -> None:
    """A notebook as a page, its pictures as files beside it."""
    page.parent.mkdir(exist_ok=True)
    parts = []
    for cell in json.loads(notebook.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            folded = source.replace("<details>", "<details markdown>")
            parts.append(typeset(relinked(folded, notebook)))
        elif source:
            parts.append(f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            picture = page.with_name(f"{page.stem}_{len(parts)}.png")
            parts.append(f'<div class="output" markdown>\n\n{shown(output, picture)}\n\n</div>')
    page.write_text("\n\n".join(parts) + "\n")


def shown(output: dict, picture: Path) -> str:
    """One output of a cell in Markdown; a picture is written to its file."""
    data = output.get("data", {})
    if "image/png" in data:
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return f"![Figure]({picture.name})"
    text = "".join(output.get("text") or data["text/plain"]).rstrip()
    return f"```text\n{text}\n```"


class Addresses(HTMLParser):
    """The addresses that a page refers to, and the anchors that it has."""

    def __init__(self, html: str):
        super().__init__()
        self.found, self.anchors = set(), {""}
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found |= {value for name, value in attrs if name in ("href", "src") and value}
        self.anchors |= {value for name, value in attrs if name == "id"}


def broken_links() -> list[str]:
    """The local addresses in the built site that lead to no file, or to no anchor of a page."""
    pages = {page: Addresses(page.read_text()) for page in sorted(SITE.rglob("index.html"))}
    broken = []
    for page, addresses in pages.items():
        for address in sorted(addresses.found):
            link = urlsplit(address)
            if link.scheme or link.netloc:
                continue
            target = (page.parent / unquote(link.path)).resolve() if link.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                broken.append(f"{page.relative_to(SITE)}: {address} leads nowhere")
            elif target in pages and unquote(link.fragment) not in pages[target].anchors:
                broken.append(f"{page.relative_to(SITE)}: {address} has no such anchor")
    return broken


if __name__ == "__main__":
    sys.exit(main())
