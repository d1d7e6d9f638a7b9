# Bare `make` prints help. Every target makes what it needs first; nothing is installed outside .venv.
SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
PYTHON_IN_VENV := .venv/bin/python
MANAGE := $(PYTHON_IN_VENV) manage.py
# Extra words for demo, up, bench, smoke and the tests: make demo ARGS=--exit
ARGS ?=
LOCK := .venv/bin/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes \
	--no-annotate --custom-compile-command "make lock" --quiet

.PHONY: help setup setup-dev compile demo up dev test test-fast test-long test-later test-gpu check fmt lint types arch \
	smoke bench gallery agent migrations audit sbom clean lock

help: ## print this help
	@echo "Trainyard: train on shared GPUs. Begin with: make demo"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup: ## make .venv with what the product needs
	@PYTHON="$(PYTHON)" sh deploy/setup.sh base

setup-dev: ## the same, with what the tests and tools need
	@PYTHON="$(PYTHON)" sh deploy/setup.sh dev

compile: setup ## bytecode, for an installation whose programs may not write beside their code
	@$(PYTHON_IN_VENV) -m compileall -q -j 0 .venv/lib/python3*/site-packages accounts scheduler portal

demo: setup ## start everything, with people, a pool and a first training job (ARGS=--exit stops after it)
	@exec $(MANAGE) up --demo $(ARGS)

up: setup ## start everything, empty on the first start
	@exec $(MANAGE) up $(ARGS)

dev: setup-dev ## as up, with Django's debug pages and reloading of changed code
	@DJANGO_SETTINGS_MODULE=portal.settings.dev exec $(MANAGE) up --demo --reload $(ARGS)

test: setup-dev ## every test: lint, types, both databases, the browser, smoke
	@exec $(PYTHON_IN_VENV) deploy/checks.py all $(ARGS)

test-fast: setup-dev ## pure tests only, in seconds
	@exec $(PYTHON_IN_VENV) deploy/checks.py pure $(ARGS)

test-long: setup-dev ## tests that take minutes, and properties with examples nobody has seen
	@exec $(PYTHON_IN_VENV) deploy/checks.py long $(ARGS)

test-later: setup-dev ## as on other days: leap day, new year, ... (TRAINYARD_TEST_NOW=2030-06-01T23:55 ARGS=tests/accounts)
	@exec $(PYTHON_IN_VENV) deploy/checks.py later $(ARGS)

test-gpu: setup-dev ## tests that need an NVIDIA device
	@exec $(PYTHON_IN_VENV) deploy/checks.py gpu $(ARGS)

check: setup-dev ## as test, without the browser and PostgreSQL
	@exec $(PYTHON_IN_VENV) deploy/checks.py check $(ARGS)

fmt: setup-dev ## format all Python
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix --select I .

lint: setup-dev ## ruff: style and likely mistakes
	@exec $(PYTHON_IN_VENV) deploy/checks.py lint

types: setup-dev ## mypy; strict on the pure floors
	@exec $(PYTHON_IN_VENV) deploy/checks.py types

arch: setup-dev ## who may import whom, sizes, doors, names
	@exec $(PYTHON_IN_VENV) deploy/checks.py arch

smoke: setup ## the main job, once, for real; prints one JSON line
	@exec $(MANAGE) smoke $(ARGS)

bench: setup ## a benchmark: make bench ARGS="latency --jobs 20"
	@exec $(MANAGE) bench $(ARGS)

gallery: setup-dev ## pictures of every page, both themes, two widths, into .gallery
	@exec $(PYTHON_IN_VENV) deploy/checks.py gallery $(ARGS)

agent: setup-dev ## build trainyard-agent.pyz, the one file a GPU node needs
	@exec $(PYTHON_IN_VENV) deploy/build_agent.py $(ARGS)

migrations: setup-dev ## write the migrations that the models ask for
	@exec $(MANAGE) makemigrations accounts scheduler

audit: setup-dev ## known weaknesses of the locked packages (asks PyPI; test leaves it out where nobody answers)
	@exec $(PYTHON_IN_VENV) deploy/weaknesses.py $(ARGS)

sbom: setup ## the locked packages with hashes and licences, as CycloneDX 1.6, into trainyard.cdx.json
	@exec $(PYTHON_IN_VENV) deploy/packages/sbom.py $(ARGS)

lock: setup-dev ## resolve pyproject.toml into the two lock files
	@$(LOCK) --extra server --extra postgres --extra agent --extra cli --extra samples --extra reports \
		--output-file requirements.lock >/dev/null
	@$(LOCK) --all-extras --output-file requirements-dev.lock >/dev/null
	@! grep -n "://" requirements.lock requirements-dev.lock

clean: ## remove what tools left behind; .venv and .trainyard stay
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist .gallery \
		trainyard-agent.pyz trainyard.cdx.json
	@find . -name __pycache__ -type d -not -path "./.venv/*" -not -path "./node_modules/*" -prune -exec rm -rf {} +
