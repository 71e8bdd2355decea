"""Privacy: where noise comes from, what a mechanism did, and what it adds up to."""
