"""A server of several processes: the replica process owns the replica, workers forked from it run queries.

The front door (``front_door``, in the replica process) takes connections and passes them on; a worker's ``receiver``
serves them. ``connections`` is what the door knows of each without asking.
"""
