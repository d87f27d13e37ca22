"""A server of several processes: the replica process owns the replica, workers forked from it run queries.

The front door (``connections.dispatcher``, in the replica process) takes connections and passes them on; a worker's
``connections.receiver`` serves them. ``connections.connection_states`` is what the door knows of each without asking.
"""
