"""Headwater: a replica-set node that speaks and stores what Tarantool speaks and stores."""

__version__ = "0.1.0"
