# For contributors. `make setup` once, then the others; PYTHON names another interpreter.
PYTHON ?= .venv/bin/python

.PHONY: setup lint test sweep bench optest

setup:
	python3 -m venv .venv && .venv/bin/pip install -c tests/constraints.txt -e '.[all,test]'

lint:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy

test:
	$(PYTHON) -m pytest

sweep:
	$(PYTHON) -m pytest tests/test_cases.py -m 'sweep or not sweep'

bench:
	$(PYTHON) benchmarks/bench.py

optest:
	$(PYTHON) tests/opinfo.py
