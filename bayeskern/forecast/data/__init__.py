"""A series: read from files, frames and arrays, on a time axis with a known frequency."""
