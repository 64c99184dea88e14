"""A data directory out of snapshots and logs, or out of a DataFrame.

docs/restore.md tells it for users. The order of the modules is sources → plan → survey → cut → system → buckets →
split → reduce → write → build.
"""
