"""NumPy kernels over whole columns."""
