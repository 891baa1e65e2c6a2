"""The sections of a report: each is a function of a subject that yields blocks."""
