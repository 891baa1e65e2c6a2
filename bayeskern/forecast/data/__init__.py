"""Series and their time axes, read from files, frames and arrays."""
