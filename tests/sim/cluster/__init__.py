"""Deterministic simulation of a cluster: `python -m tests.sim.cluster --seed 1 --seeds 1000`."""
