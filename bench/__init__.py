"""How fast Headwater is, measured beside the installed Tarantool: `make bench`."""
