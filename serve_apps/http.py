"""The HTTP API: one FastAPI app over a query path, the same under Ray Serve, under a test client and in a notebook."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

import cortex
from cortex.api import Problem
from cortex.settings import Settings
from serve_apps.guard import Guard
from serve_apps.identity import Identity
from serve_apps.metrics import Metrics
from serve_apps.problems import MEDIA_TYPE, install, problem_kinds
from serve_apps.routes import pushes
from serve_apps.routes.health import health_routes
from serve_apps.routes.mcp import mcp_routes
from serve_apps.routes.pages import page_routes
from serve_apps.routes.pushes import push_routes
from serve_apps.routes.queries import query_routes
from serve_apps.routes.sessions import session_routes
from serve_apps.routes.sources import source_routes
from serve_apps.service import Backend

_ABOUT = """Search with citations over what you already have. Send `Authorization: Bearer …` (`cortex token USER`). A
service whose token has the scope `act` names the person it asks for in `Cortex-Act-For`.
Every error is an RFC 9457 problem document with a stable `code` and a `remedy`: retry, retry-after, restart, skip,
stop or tell-user."""
_OPEN = {"/healthz", "/readyz", "/metrics", pushes.PATH}


def make_app(backend: Backend, settings: Settings) -> FastAPI:
    """Make the app. It holds no engine itself: everything it asks is in `backend`."""
    metrics = Metrics(backend.stages)
    identity = Identity(settings, backend.queries)
    app = FastAPI(
        title="Cortex",
        version=cortex.__version__,
        description=_ABOUT,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # FastAPI's own spans, metrics and logs name paths, and repeat what was sent; ours do neither.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.include_router(query_routes(backend.queries, identity, settings, metrics))
    app.include_router(mcp_routes(backend.queries, identity, settings, metrics))
    app.include_router(session_routes(backend.queries, identity, settings))
    app.include_router(source_routes(backend.desk, identity))
    app.include_router(push_routes(backend.pushes))
    app.include_router(health_routes(backend.queries, settings, metrics))
    app.include_router(page_routes())
    install(app)
    app.add_middleware(Guard, settings=settings, metrics=metrics)
    _describe(app)
    return app


def _describe(app: FastAPI) -> None:
    """Say in the OpenAPI document how callers prove who they are, and that every error is a problem document."""
    generate = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            document = generate()
            parts = document.setdefault("components", {})
            parts["securitySchemes"] = {
                "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
                "session": {"type": "apiKey", "in": "cookie", "name": "cortex_session"},
            }
            schemas = parts.setdefault("schemas", {})
            schemas["Problem"] = Problem.model_json_schema()
            for unused in ("HTTPValidationError", "ValidationError"):
                schemas.pop(unused, None)
            for path, operations in document["paths"].items():
                for operation in operations.values():
                    _describe_operation(path, operation)
            document["x-problems"] = problem_kinds()
            app.openapi_schema = document
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _describe_operation(path: str, operation: dict[str, Any]) -> None:
    operation["responses"].pop("422", None)
    operation["responses"]["default"] = {
        "description": "A problem document",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    if path not in _OPEN:
        operation["security"] = [{"token": []}, {"session": []}]
    if path == "/v1/answer":
        content = operation["responses"]["200"]["content"]
        content["text/event-stream"] = {"schema": {"type": "string"}}
