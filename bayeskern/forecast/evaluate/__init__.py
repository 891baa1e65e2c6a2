"""Rolling-origin evaluation of a forecast: scores, naive benchmark, verdict."""
