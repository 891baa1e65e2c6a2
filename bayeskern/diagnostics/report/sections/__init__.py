"""The sections of a report, one a file: each is a function of a Subject that yields blocks."""
