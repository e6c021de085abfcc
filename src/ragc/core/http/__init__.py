"""HTTP: a connection pool for one server, and reply bodies of limited size."""
