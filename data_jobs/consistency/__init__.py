"""Compares what the stores hold with what the catalog says, and mends it without showing anyone more than before."""
