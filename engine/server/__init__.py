"""What a server process is made of before it has tables: configuration, log, threads, durable files."""
