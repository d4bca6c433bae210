"""Data jobs: documents to chunks to vectors, in a Ray Data job or in one process."""
