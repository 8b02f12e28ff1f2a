"""What producers and operators use: pushes, queries, actions, and the connections under them."""
