"""Switching over: forks of a table's epochs, who may follow whom, promises, tickets, tails."""
