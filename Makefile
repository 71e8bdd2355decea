# Chores are words. `make` lists them; `make setup` takes PYTHON=, and pip's own variables (PIP_EXTRA_INDEX_URL, …).
SHELL := /bin/bash
BIN := .venv/bin
FUZZ_CASES ?= 1000000
.DEFAULT_GOAL := help
.PHONY: help setup demo check test fuzz bench docs clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' Makefile

setup: ## makes .venv, with Reticent and its tools in it
	@scripts/setup.sh dev

demo: ## a bank and three guests learn who will not pay: four processes, a table, a report
	@scripts/setup.sh
	@$(BIN)/python -m reticent.cli.demo

check: setup ## ruff, mypy --strict, import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict reticent
	@$(BIN)/lint-imports --no-logo

test: setup ## the whole suite (ARGS="tests/test_house.py -x": a part of it)
	@$(BIN)/python -m pytest $(ARGS)

fuzz: ## a million letters that nobody wrote
	@scripts/setup.sh dev,fuzz
	@$(BIN)/python tests/fuzz_message.py -runs=$(FUZZ_CASES)

bench: setup ## a table of a paper, ours beside theirs (NAME=phishing); without a name: which there are
	@$(BIN)/reticent bench $(NAME)

docs: ## the pages, in site/
	@scripts/setup.sh docs
	@$(BIN)/python -m mkdocs build --strict

clean: ## takes away .venv and what tools left
	@rm -rf .venv build dist site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
