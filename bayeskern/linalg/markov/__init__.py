"""Covariance matrices of state-space models: Kalman filter and smoother."""
