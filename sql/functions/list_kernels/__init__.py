"""NumPy kernels over lists, shared by functions of arrays, maps and lambdas."""
