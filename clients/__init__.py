"""Clients: what people use; they reach Cortex over HTTP only."""
