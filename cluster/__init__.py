"""Cluster: how one machine runs it all."""
