"""What some tables offer beside the interface of a table: transactions, mutations, partitions, replicas."""
