"""Rows that are means, integrals and derivatives of a process, and their kernel."""
