"""Benchmarks: each prints one JSON line, beside a reference measured in the same run."""
