"""The journal in files: a data directory with segments, their recovery and their verification."""
