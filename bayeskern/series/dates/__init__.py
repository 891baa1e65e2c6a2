"""Written forms of dates, and how ambiguous ones are told apart."""
