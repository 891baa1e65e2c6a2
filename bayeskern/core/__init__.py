"""What every room needs and none owns: validation, batching, formatting, files, plots, timing."""
