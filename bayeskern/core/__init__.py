"""Text, checks of input, files and the codec of saved state, figures, timing; no statistics."""
