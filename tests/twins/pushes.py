"""The queue of pushes in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from cortex.ports.connectors import SourceConfig
from cortex.ports.ingest import Push


class TwinPushes:
    """Port PushQueue, over sources that a test names."""

    def __init__(self, *sources: SourceConfig) -> None:
        self.sources = {config.source_id: config for config in sources}
        self.recorded: dict[tuple[str, str], Push] = {}
        self.settled: set[tuple[str, str]] = set()

    def source(self, source_id: str) -> SourceConfig | None:
        return self.sources.get(source_id)

    def record(self, source_id: str, push_id: str, changed_ids: Sequence[str]) -> bool:
        is_new = (source_id, push_id) not in self.recorded
        self.recorded.setdefault((source_id, push_id), Push(push_id, tuple(changed_ids)))
        return is_new

    def waiting(self, source_id: str) -> list[Push]:
        return [
            push for key, push in self.recorded.items() if key[0] == source_id and key not in self.settled
        ]

    def waiting_sources(self) -> list[str]:
        return sorted({key[0] for key in self.recorded if key not in self.settled})

    def settle(self, source_id: str, push_ids: Collection[str]) -> None:
        self.settled |= {(source_id, push_id) for push_id in push_ids}
