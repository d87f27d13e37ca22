"""Switching over: PROMOTE, SWITCH and REJOIN, and how clusters tell each other."""
