"""The addresses of the HTTP API, one file per kind of thing."""
