"""Local learning: what a party computes on its own machine. No federation inside; torch, numpy and scipy only."""
