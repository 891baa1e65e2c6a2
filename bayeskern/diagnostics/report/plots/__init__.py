"""The figures of a report, by the section that they stand in."""
