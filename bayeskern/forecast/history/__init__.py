"""Long series: basis functions and a short-memory residual, in time linear in their length."""
