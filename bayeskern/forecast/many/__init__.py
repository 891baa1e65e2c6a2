"""Many series: parallel forecasts, their collection, and priors learned from them."""
