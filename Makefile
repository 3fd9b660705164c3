# The two commands of the README are `make qualify` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN ?= qualify-$(shell date +%Y%m%dT%H%M%S)

.PHONY: qualify test lint soak-test bench messages clean

$(VENV)/.measure: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "assay needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[measure,report]'
	touch $@

$(VENV)/.dev: $(VENV)/.measure
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# Measure this machine with 2 ranks, judge it against itself, print the verdict and write a report.
# 0, 1 and 3 are answers (pass, fail, undecided); anything else is an error.
qualify: $(VENV)/.measure
	@$(BIN)/assay qualify --ranks 2 --suite quick --out $(RUN); code=$$?; \
	case $$code in 0|1|3) echo "verdict exit code: $$code";; *) exit $$code;; esac

test: lint
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src/assay
	$(BIN)/lint-imports

soak-test: $(VENV)/.dev
	$(BIN)/python -m pytest -m soak --timeout 3600

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

messages: $(VENV)/.dev
	$(BIN)/python -m assay.catalog.messages

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
