"""SQL functions: the function table, one family a module, and the kernels behind them."""
