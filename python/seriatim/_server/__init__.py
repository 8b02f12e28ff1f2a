"""What runs jobs: the server, its hosts, and how a delivery is executed."""
