"""Leave-one-out cross-validation of posteriors."""
