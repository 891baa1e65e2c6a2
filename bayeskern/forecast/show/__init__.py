"""Parts of figures, pages and tables, from arrays and text."""
