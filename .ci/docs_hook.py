"""The README is the first page of the documentation, and its pictures lie beside that page."""


def on_page_content(html, **_):
    return html.replace('src="docs/', 'src="')
