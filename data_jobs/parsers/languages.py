"""Which grammar reads a source file, told by its name."""

from __future__ import annotations

from pathlib import PurePosixPath

_BY_SUFFIX = {
    suffix: language
    for language, suffixes in {
        "python": ".py .pyi .pyw",
        "javascript": ".js .mjs .cjs .jsx",
        "typescript": ".ts .mts .cts",
        "tsx": ".tsx",
        "java": ".java",
        "kotlin": ".kt .kts",
        "scala": ".scala .sc",
        "go": ".go",
        "rust": ".rs",
        "c": ".c .h",
        "cpp": ".cc .cpp .cxx .hpp .hh .hxx .ipp",
        "csharp": ".cs",
        "objc": ".m .mm",
        "swift": ".swift",
        "ruby": ".rb .rake .gemspec",
        "php": ".php",
        "perl": ".pl .pm",
        "lua": ".lua",
        "r": ".r",
        "julia": ".jl",
        "elixir": ".ex .exs",
        "erlang": ".erl .hrl",
        "haskell": ".hs",
        "ocaml": ".ml",
        "clojure": ".clj .cljs .cljc",
        "bash": ".sh .bash .zsh",
        "powershell": ".ps1 .psm1",
        "sql": ".sql",
        "dart": ".dart",
        "groovy": ".groovy .gradle",
        "zig": ".zig",
        "nix": ".nix",
        "proto": ".proto",
        "graphql": ".graphql .gql",
        "terraform": ".tf",
        "css": ".css .scss .less",
        "vue": ".vue",
        "svelte": ".svelte",
        "make": ".mk",
        "cmake": ".cmake",
        "fortran": ".f .f90 .f95",
        "pascal": ".pas",
        "solidity": ".sol",
        "verilog": ".v .sv",
        "vhdl": ".vhd .vhdl",
    }.items()
    for suffix in suffixes.split()
}
_BY_NAME = {"makefile": "make", "dockerfile": "dockerfile", "cmakelists.txt": "cmake", "rakefile": "ruby"}


def language_of(name: str) -> str:
    """Name the tree-sitter grammar for a file name; empty if it is no source code that we know."""
    path = PurePosixPath(name.lower())
    return _BY_NAME.get(path.name) or _BY_SUFFIX.get(path.suffix, "")
