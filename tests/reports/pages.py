"""Pages of HTML, taken apart: tags, tables, text."""

from html.parser import HTMLParser

VOID = {"meta", "img", "br", "hr", "link", "input"}


class Page(HTMLParser):
    """Tags, tables and text of a page; all tags must be closed."""

    def __init__(self, text: str):
        super().__init__(convert_charrefs=True)
        self.tags, self.open, self.text, self.tables = [], [], [], []
        self.in_view = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        folded = "details" in self.open and "summary" not in self.open
        if not folded and {"svg", "style", "title"}.isdisjoint(self.open):
            self.in_view += data.split()
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data

    @property
    def ids(self):
        return [a["id"] for _, a in self.tags if "id" in a]

    def table(self, *head):
        """Rows of the first table with this start of its head, by their first cell."""
        (found, *_) = [t for t in self.tables if t[0][: len(head)] == list(head)]
        return {row[0]: dict(zip(found[0], row, strict=True)) for row in found[1:]}

    @property
    def words(self) -> str:
        """All text, with single spaces."""
        return " ".join(" ".join(self.text).split())

    def count(self, tag: str) -> int:
        """Number of tags of a name."""
        return sum(name == tag for name, _ in self.tags)


def page_of(blocks) -> Page:
    """The page of some blocks."""
    return Page("".join(block.html() for block in blocks))


def texts(blocks) -> list[str]:
    """The text of each block that has neither a table nor a figure."""
    pages = [page_of([block]) for block in blocks]
    return [p.words for p in pages if not (p.count("table") or p.count("figure"))]
