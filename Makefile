# The two commands of the README are `make qualify` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN ?= qualify-$(shell date +%Y%m%dT%H%M%S)

.PHONY: qualify test lint cluster-test soak-test fuzz bench validate circle messages clean

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
	$(BIN)/python -m pytest -n 2 --no-loadscope-reorder --durations=15

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src/assay
	$(BIN)/lint-imports

# Every real fault on four hosts made of network namespaces, under torchrun, ssh and Slurm; needs root.
# `make test` runs the most of them.
cluster-test: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not soak" tests/cluster tests/testbed

soak-test: $(VENV)/.dev
	$(BIN)/python -m pytest -s -m soak

# An occasional job: coverage-guided fuzzing of what the doctor reads, FUZZ_S seconds long.
FUZZ_S ?= 600
fuzz: $(VENV)/.dev
	@if $(BIN)/pip install --quiet --disable-pip-version-check atheris; then \
	  $(BIN)/python fuzz/doctor.py -max_total_time=$(FUZZ_S); \
	else echo "optional: atheris cannot be installed for this Python; nothing was fuzzed"; fi

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# How wrong the predictor is, against the measured figures of others; each source left out in turn.
validate: $(VENV)/.measure
	$(BIN)/assay validate kernels validation/kernels/*.csv.gz
	$(BIN)/assay validate choices validation/nccl_choices/*.json validation/nccl_choices/*.xml
	$(BIN)/assay validate collectives --cross source validation/collectives/measured.csv validation/collectives/single_node.csv \
		validation/collectives/p2p.csv
	$(BIN)/assay validate training --cross source validation/training/*.csv.gz

# Predicted against measured training steps of this machine and of four hosts made of network namespaces (root),
# five runs each, and of two ranks from a trace of one; a quiet machine, about 20 minutes.
circle: $(VENV)/.measure
	$(BIN)/python validation/circle.py
	$(BIN)/python validation/traced.py --runs 3

messages: $(VENV)/.dev
	$(BIN)/python -m assay.catalog.messages

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
