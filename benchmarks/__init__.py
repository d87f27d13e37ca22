"""Pando beside its peers, on the same machine, data and run. Figures are ratios: peer's time ÷ Pando's time."""
