"""Crash-consistency simulation of the journal: `python -m tests.sim --seed 1 --points 20000`."""
