"""The connectors' own test suites, run against Headwater: what they start as `tarantool` is launcher.py here."""
