"""The parts that all fronts of a server share: sessions, counts, metrics, logins."""
