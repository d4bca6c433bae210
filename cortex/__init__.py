"""The words of Cortex: values, ports, errors, settings and telemetry names, with no network and no files but settings."""

__version__ = "0.1.0"
