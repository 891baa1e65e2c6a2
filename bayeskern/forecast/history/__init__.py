"""Long series: basis functions and a short-memory residual, in linear time."""
