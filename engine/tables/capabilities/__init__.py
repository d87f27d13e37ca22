"""What some tables offer beyond a table's interface: transactions, mutations, partitions, replicas."""
