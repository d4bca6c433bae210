# Two commands: `make demo` shows Cortex, `make test` proves it. Both can be repeated and say what is missing.
PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo down test lint docs lock clean

demo: $(STAMP)
	@$(BIN)/python -m cluster.demo

down:
	@CORTEX_HOME="$${CORTEX_HOME:-$(CURDIR)/.demo}" $(BIN)/cortex down

test: $(STAMP) lint
	$(BIN)/python -m pytest

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

docs: $(STAMP)
	@$(BIN)/python -m docs.build_reference
	@$(BIN)/python -m kuberay.build

lock:
	uv pip compile pyproject.toml --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" --extra dev -o locks/dev.txt
	uv pip compile pyproject.toml --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" -c locks/dev.txt -o locks/base.txt
	uv pip compile locks/weights.in --python-version 3.11 --generate-hashes --no-deps --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" -o locks/weights.txt

$(STAMP): locks/dev.txt locks/weights.txt locks/engines.txt pyproject.toml install.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) sh install.sh
	@touch $(STAMP)

clean:
	rm -rf $(VENV)
