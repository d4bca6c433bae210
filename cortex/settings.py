"""Settings: read once from `CORTEX_*` variables and `$CORTEX_HOME/settings.env`; each number has a unit and a reason."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from cortex.errors import Misconfigured


class Settings(BaseSettings):
    """Every setting of Cortex. Empty engine URLs mean: `cortex up` starts the embedded engine and fills them in."""

    model_config = SettingsConfigDict(env_prefix="CORTEX_", extra="ignore", frozen=True)

    # Places
    home: Path = Field(
        default_factory=lambda: Path.home() / ".cortex",
        description="the one data directory: databases, index, objects, keys, logs, run state",
    )
    eval_data: Path | None = Field(default=None, description="folder of evaluation sets, read only")

    # Engines: a URL given replaces the embedded engine by a server
    postgres_url: str = Field(default="", description="postgresql://user:password@host:port/database")
    qdrant_url: str = Field(default="", description="http://host:port")
    qdrant_api_key: SecretStr = Field(default=SecretStr(""), description="sent to the Qdrant server")
    spicedb_url: str = Field(default="", description="host:port of SpiceDB's gRPC API")
    spicedb_token: SecretStr = Field(default=SecretStr(""), description="preshared key of SpiceDB")
    spicedb_tls: bool = Field(default=False, description="use TLS towards SpiceDB; needed off loopback")
    objects_url: str = Field(
        default="", description="file:///… or s3://bucket/prefix; empty: $CORTEX_HOME/objects"
    )
    ray_address: str = Field(
        default="", description="host:port of the Ray head, or empty for the embedded one"
    )

    ray_dashboard: bool = Field(
        default=False, description="start Ray's dashboard too; it costs 250 MB and nothing of Cortex needs it"
    )
    ray_token_path: str = Field(
        default="",
        description="file with Ray's token: export RAY_AUTH_MODE=token, RAY_AUTH_TOKEN_PATH=<this>",
    )

    # Serving
    http_url: str = Field(
        default="", description="where clients reach the API; `cortex up` fills in its own, port included"
    )
    http_host: str = Field(default="127.0.0.1", description="loopback by default: exposing it is a decision")
    http_port: int = Field(default=8642, ge=0, le=65535, description="0 takes a free port")
    placement: Literal["fused", "staged"] = Field(
        default="fused", description="one deployment, or one per stage"
    )
    serve_config: Path | None = Field(
        default=None,
        description="your own serve_apps/placements.yaml: replicas, GPUs, queues and time limits of every deployment",
    )
    tenant_id: str = Field(default="default", description="the tenant of tokens from the local issuer")
    oidc_issuers: str = Field(
        default="", description="comma-separated issuer=path-to-JWKS-file pairs that may sign tokens"
    )
    token_ttl_s: int = Field(default=3600, ge=1, description="lifetime of a token from `cortex token`")
    metrics_token: SecretStr = Field(
        default=SecretStr(""), description="bearer token for /metrics off loopback"
    )
    session_ttl_s: int = Field(
        default=43_200, ge=60, description="lifetime of a browser session begun with a one-time code"
    )
    public_url: str = Field(
        default="", description="https://name as browsers see it behind a proxy; its host is then accepted"
    )
    is_demo: bool = Field(default=False, description="demo home: the person switch exists")
    demo_people: str = Field(
        default="", description="comma-separated user=scopes pairs that a demo home may switch between"
    )
    max_concurrent_requests: int = Field(
        default=64, ge=1, description="searches and answers in flight per replica; more are told to wait"
    )
    max_body_bytes: int = Field(default=1_000_000, description="largest HTTP request body")
    audience_limit: int = Field(
        default=50,
        ge=1,
        description="most people for whom one answer is checked; each is a check in SpiceDB of every candidate",
    )
    max_query_chars: int = Field(
        default=2_000, description="longest question; longer ones are documents, not questions"
    )
    request_timeout_s: float = Field(default=30.0, description="a search that takes longer is given up")
    fetch_page_chars: int = Field(
        default=40_000,
        ge=1,
        description="characters of a document that an agent fetches at once, about 10,000 tokens; a longer one has pages",
    )

    # Embedding
    embedding_model: str = Field(
        default="all-MiniLM-L6-v2",
        description="built-in name, or a folder with model.onnx and tokenizer.json",
    )
    embedding_scripts: str = Field(
        default="",
        description="comma-separated scripts the model knows (latin, cyrillic, han, kana, hangul …); empty: latin for "
        "the built-in English model, any for a folder. Questions in other scripts lean on the lexical lane",
    )
    embedding_threads: int = Field(
        default=1, ge=1, description="ONNX threads per session; actors multiply it"
    )
    embedding_batch_size: int = Field(
        default=8,
        ge=1,
        description="texts per ONNX run, length-sorted; 4-8 are fastest on one core, 32 a third slower",
    )
    embedding_max_tokens: int = Field(
        default=256, ge=16, description="the model's window; MiniLM was trained at 256 or less"
    )

    # Loading
    ingest_workers: int = Field(
        default=0, ge=0, description="processes of a bulk load that parse and embed; 0: one per core of Ray"
    )
    ingest_gpus_per_worker: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of a GPU that each embedding process of a bulk load holds; 0: no GPUs, a share: nothing but "
        "GPUs. Not set: a quarter, where Ray has GPUs and onnxruntime is the build for them",
    )

    # Sources
    slack_token: SecretStr = Field(
        default=SecretStr(""),
        description="token of a Slack app, for `cortex ingest slack https://slack.com/api/`",
    )
    slack_signing_secret: SecretStr = Field(
        default=SecretStr(""), description="signing secret of a Slack app; without it every push is refused"
    )

    # Slack bot
    slack_bot_token: SecretStr = Field(
        default=SecretStr(""),
        description="bot token (xoxb-…) of the Slack app through which `cortex slack` answers",
    )
    slack_app_token: SecretStr = Field(
        default=SecretStr(""),
        description="app-level token (xapp-…) for Socket Mode; empty: Slack delivers over HTTP, signed",
    )
    slack_service_token: SecretStr = Field(
        default=SecretStr(""),
        description="token with the scope `act` that the bot shows Cortex; empty: signed with this home's key",
    )
    slack_api_url: str = Field(default="https://slack.com/api/", description="where Slack's Web API is")
    slack_bot_host: str = Field(
        default="127.0.0.1", description="where the bot listens without Socket Mode, behind a proxy with TLS"
    )
    slack_bot_port: int = Field(default=8643, ge=0, le=65535, description="its port; 0 takes a free one")

    # Chunking
    chunk_target_tokens: int = Field(
        default=200,
        description="a chunk closes at the first boundary past this; the model's window holds it whole",
    )
    chunk_max_tokens: int = Field(
        default=240, description="a chunk never grows past this; leaves room for title and headings"
    )
    atomic_note_tokens: int = Field(default=240, description="a document up to this size stays one chunk")

    # Parsing
    parse_timeout_s: float = Field(
        default=60.0, description="a file that takes longer is a failure with a reason"
    )
    parse_memory_bytes: int = Field(default=1_500_000_000, description="address-space cap of a parser child")
    max_file_bytes: int = Field(default=200_000_000, description="larger files are refused with a reason")

    # Retrieval
    lane_limit: int = Field(default=100, ge=1, description="candidates per lane: RRF consumes the top 100")
    fusion_k: int = Field(
        default=10, ge=0, description="RRF constant (Cormack et al. 2009); orders the pool, not the result"
    )
    weight_dense: float = Field(
        default=1.5, ge=0, description="weight of the dense lane, in RRF and in the final score"
    )
    weight_bm25: float = Field(
        default=1.0, ge=0, description="weight of the BM25 lane, in RRF and in the final score"
    )
    cosine_floor: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="cosine of unrelated texts: 0 for MiniLM, about 0.7 for E5 models",
    )
    bm25_k1: float = Field(default=0.9, description="term saturation, Lin's Anserini defaults")
    bm25_b: float = Field(default=0.4, description="length normalisation, Lin's Anserini defaults")
    bm25_average_tokens: float = Field(
        default=80.0,
        description="terms without stop words in a chunk of 200 tokens; a constant, so that forbidden documents cannot "
        "move a score",
    )
    exact_search_below: int = Field(
        default=50_000,
        description="points up to which dense search is exact, so results cannot depend on the unseen",
    )
    recheck_round: int = Field(
        default=100,
        ge=1,
        description="documents per SpiceDB bulk check; a call costs much more than a document in it",
    )
    rerank_model: str = Field(
        default="", description="folder of an ONNX cross-encoder; empty: no rerank stage"
    )
    rerank_depth: int = Field(default=100, description="candidates that the cross-encoder scores")
    abstain_below: float = Field(
        default=0.35, ge=0, le=1, description="calibrated probability under which Cortex abstains"
    )

    # Generation
    llm_url: str = Field(
        default="", description="OpenAI-compatible base URL ending in /v1; empty: extractive answers"
    )
    llm_model: str = Field(default="", description="model name sent to it")
    llm_api_key: SecretStr = Field(default=SecretStr(""), description="bearer key sent to it")
    llm_max_tokens: int = Field(default=512, description="answer budget")
    llm_timeout_s: float = Field(
        default=60.0, description="silence after which the answer falls back to extracts"
    )

    # Telemetry
    otlp_endpoint: str = Field(
        default="", description="OTLP/HTTP collector that spans are sent to as well; empty: none"
    )
    trace_bytes: int = Field(
        default=50_000_000,
        ge=0,
        description="spans kept on this machine for `cortex trace`, about 8 KB a question, the oldest dropped first; 0: "
        "none",
    )
    trace_ratio: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="share of requests whose spans are made; one that comes with a traceparent is decided by its caller",
    )
    trace_rate: float = Field(
        default=5.0,
        ge=0,
        description="requests a second at most whose spans are made, beside those that come with a traceparent; 0: all",
    )
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @field_validator("home", mode="after")
    @classmethod
    def _absolute(cls, home: Path) -> Path:
        return home.expanduser().absolute()

    @property
    def state_path(self) -> Path:
        """The supervisor's record of running engines: pids, start times, URLs."""
        return self.home / "run" / "state.json"

    @property
    def keys_path(self) -> Path:
        """Folder of the operator's keys (mode 0700)."""
        return self.home / "keys"

    @property
    def traces_path(self) -> Path:
        """Folder of this machine's spans, one file after another for each process."""
        return self.home / "run" / "traces"

    @property
    def logs_path(self) -> Path:
        """Folder of the engines' log files."""
        return self.home / "logs"


def read_settings() -> Settings:
    """Read settings: the environment wins, then `$CORTEX_HOME/settings.env`, then what `cortex up` recorded of its engines."""
    try:
        home = Path(os.environ.get("CORTEX_HOME") or Path.home() / ".cortex").expanduser()
        env_file = home / "settings.env"
        given = Settings(_env_file=env_file if env_file.is_file() else None)  # type: ignore[call-arg]
        running = _running_engines(given.state_path)
        return Settings(**{**running, **given.model_dump(exclude_unset=True)})
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = "CORTEX_" + str(first["loc"][0]).upper() if first["loc"] else "CORTEX_*"
        raise Misconfigured(f"{name}: {first['msg']}", hint=f"correct or unset {name}") from error


def _running_engines(state_path: Path) -> dict[str, str]:
    """Read the engine settings that the supervisor recorded under `env` (names as in the environment)."""
    try:
        env = json.loads(state_path.read_text()).get("env", {})
    except (OSError, ValueError):
        return {}
    return {name.removeprefix("CORTEX_").lower(): str(value) for name, value in env.items()}


_given: Settings | None = None


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The process's settings, read once. Subprocesses get engine URLs through their environment."""
    return _given or read_settings()


def adopt(given: Settings) -> None:
    """Make these the process's settings: a worker elsewhere goes by those of the program that sent it."""
    global _given
    _given = given
    settings.cache_clear()
