"""What every front of a server shares: sessions, counts, metrics, log-ins."""
