"""What can be wrong with a request, each with its HTTP status in Qdrant's error shape."""

from __future__ import annotations


class Problem(Exception):
    """A refusal: `status` is the HTTP status, the message goes to the caller."""

    status = 400


class BadRequest(Problem):
    status = 400


class NotFound(Problem):
    status = 404


class AlreadyExists(Problem):
    status = 409


class Unsupported(Problem):
    """Part of Qdrant's API that this subset lacks."""

    status = 501
