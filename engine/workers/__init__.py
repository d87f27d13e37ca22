"""A server of several processes: a replica process, and workers that run queries.

The replica process owns the replica and forks the workers. Its connection dispatcher (``connections``) accepts
connections and passes them to workers, whose ``receiver`` serves them.
"""
