"""What all packages share: checks of input, batching, formatting, files, figures, timing."""
