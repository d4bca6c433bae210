"""What stands beside Ray: the relay, which brings the engines up to date when it starts, and the job that asks a question."""

from __future__ import annotations

from typing import Any

from kuberay.pods import (
    DOCUMENTS_TO_FILL,
    OWN_HOME,
    SCRATCH,
    SHARED_HOME,
    Size,
    container,
    labels,
    pod,
    secrets,
)

SMALL = Size("500m", "1Gi")
_OWN = (SCRATCH, OWN_HOME)
_SHARED = (SCRATCH, SHARED_HOME, DOCUMENTS_TO_FILL)
# An abstention is an answer, but not to a question whose answer you know to be there. Nothing of it is logged.
_ASK = """\
set -o pipefail
cortex ask "$QUESTION" --json | python -c '
import json, sys
answer = json.load(sys.stdin)
if "error" in answer:
    sys.exit(answer["error"]["message"])
print(len(answer["citations"]), "citations")
sys.exit(answer["abstained"] or not answer["citations"])'
"""


def relay() -> dict[str, Any]:
    """State the relay: one, as only one delivers at a time. It is also where the operator's commands are run.

    Before each start the catalog gets this version's tables, and SpiceDB its schema and what it lacks, as by `cortex up`.
    """
    migrate, permissions, deliver = (
        container(name, SMALL, _SHARED, secrets(), command=["python", "-m", module])
        for name, module in (
            ("migrate", "data_jobs.migrate"),
            ("permissions", "data_jobs.reload_permissions"),
            ("relay", "data_jobs.relay"),
        )
    )
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "cortex-relay", "labels": labels("relay")},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels("relay")},
            "template": pod("relay", [deliver], _SHARED, initContainers=[migrate, permissions]),
        },
    }


def ask_job() -> dict[str, Any]:
    """State the job that asks a real question with a person's token; it fails unless the answer has a citation."""
    told = [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": "cortex-ask", "key": key}}}
        for name, key in (("CORTEX_TOKEN", "token"), ("QUESTION", "question"))
    ]
    asks = container("ask", SMALL, _OWN, told, command=["bash", "-c", _ASK])
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "cortex-ask", "labels": labels("ask")},
        # Gone an hour after it ended, so that it may be applied again.
        "spec": {
            "backoffLimit": 4,
            "ttlSecondsAfterFinished": 3600,
            "template": pod("ask", [asks], _OWN, restartPolicy="Never"),
        },
    }
