"""Rolling-origin evaluation of a forecast: scores, the naive benchmark, the verdict."""
