"""Turns what psycopg raises into Cortex's errors; messages name the trouble and never the data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors
from psycopg_pool import PoolClosed, PoolTimeout

from cortex.errors import Busy, InputError, Misconfigured, TimedOut, Unavailable

_DOWN = (psycopg.OperationalError, psycopg.InterfaceError, PoolClosed, PoolTimeout)
_OLD_SCHEMA = (
    errors.UndefinedTable,
    errors.UndefinedColumn,
    errors.UndefinedObject,
    errors.UndefinedFunction,
)


@contextmanager
def translated() -> Iterator[None]:
    """Raise CortexErrors in place of psycopg's."""
    try:
        yield
    except errors.QueryCanceled as error:
        raise TimedOut("the catalog took too long", code="catalog.timed_out") from error
    except (errors.SerializationFailure, errors.DeadlockDetected) as error:
        raise Busy("another writer changed the same rows; try again", code="catalog.busy") from error
    except errors.ProgramLimitExceeded as error:
        raise InputError("the catalog refused a value: it is too long", code="catalog.refused") from error
    except _DOWN as error:
        raise Unavailable(
            "the catalog (Postgres) does not answer", code="catalog.unavailable", hint="cortex status"
        ) from error
    except _OLD_SCHEMA as error:
        raise Misconfigured(
            "the catalog's tables are not those of this version", code="catalog.old", hint="cortex migrate"
        ) from error
    except (psycopg.DataError, psycopg.IntegrityError, UnicodeEncodeError) as error:
        raise InputError(f"the catalog refused a value: {_reason(error)}", code="catalog.refused") from error
    except psycopg.Error as error:
        raise Misconfigured(f"the catalog failed: {_reason(error)}", code="catalog.failed") from error


def _reason(error: Exception) -> str:
    """Name the constraint or SQLSTATE that failed: Postgres' own message quotes the row."""
    diagnosis = getattr(error, "diag", None)
    constraint = getattr(diagnosis, "constraint_name", None)
    return constraint or getattr(error, "sqlstate", None) or type(error).__name__
