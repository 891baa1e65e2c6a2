"""Rolling-origin evaluation of a fitted series: scores, naive benchmark, verdict."""
