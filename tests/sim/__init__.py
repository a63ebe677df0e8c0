"""Crash-consistency simulation of journal and broker: `python -m tests.sim --seed 1 --points 20000`."""
