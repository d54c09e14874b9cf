# Two commands on a fresh machine: `make demo` and `make test`; both install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO := build/demo
WORKFLOWS := workflows/*.yml .github/workflows/*.yml

.PHONY: demo test unit lint docs lock dist clean

$(VENV)/.runtime: requirements/runtime.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes --no-deps --requirement requirements/runtime.txt
	touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.runtime
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes --no-deps \
	    --requirement requirements/dev.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	touch $@

# The whole path on our own fixtures: an older runtime is validated, then a bump is judged.
demo: $(VENV)/.runtime
	rm -rf $(DEMO)
	mkdir -p build
	cp -R fixtures/digits $(DEMO)
	sed -i.bak 's/onnxruntime==1.32.0/onnxruntime==1.31.1/' $(DEMO)/ci-parity.yml
	@echo "== the state production runs: onnxruntime 1.31.1 =="
	$(BIN)/python -m ci_parity check --root $(DEMO) --report-dir $(DEMO)/report --record always
	mv $(DEMO)/ci-parity.yml.bak $(DEMO)/ci-parity.yml
	@echo "== the bump: onnxruntime 1.32.0 =="
	$(BIN)/python -m ci_parity check --root $(DEMO) --report-dir $(DEMO)/report --record always
	@echo "== the comment a pull request gets =="
	@cat $(DEMO)/report/comment.md
	$(BIN)/python -m ci_parity log verify --root $(DEMO) --checkpoint none

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --durations 40

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n auto tests/unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/check-jsonschema --check-metaschema ci_parity/config/schema.json \
	    ci_parity/fixtures/fixtures.schema.json ci_parity/preprocess/preprocess.schema.json \
	    ci_parity/report/schemas/*.json
	$(BIN)/check-jsonschema --schemafile ci_parity/config/schema.json fixtures/*/ci-parity.yml
	$(BIN)/check-jsonschema --schemafile ci_parity/fixtures/fixtures.schema.json \
	    fixtures/*/fixtures.yml
	$(BIN)/check-jsonschema --schemafile ci_parity/preprocess/preprocess.schema.json \
	    fixtures/*/preprocess.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows $(WORKFLOWS)
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/actionlint -config-file .github/actionlint.yaml -shellcheck $(BIN)/shellcheck $(WORKFLOWS)
	$(BIN)/zizmor --offline --quiet --persona pedantic --config .github/zizmor.yml \
	    $(WORKFLOWS) action.yml .github/dependabot.yml

# Rewrite what is generated from the code: the config reference and the command reference.
docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py

# Resolve the locks again; hashes for every wheel of every platform. The image can sign,
# keep bundles in S3 and rebuild inputs.
lock: $(VENV)/.dev
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	    --upgrade pyproject.toml --extra sign --extra attest --extra s3 --extra preprocess \
	    --output-file requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	    --upgrade pyproject.toml --extra sign --extra attest --extra s3 --extra preprocess \
	    --extra sigstore --extra history --extra generators --group dev \
	    --constraints requirements/runtime.txt --output-file requirements/dev.txt

# The wheel and the source archive, built by what the lock names.
dist: $(VENV)/.runtime
	rm -rf dist
	$(BIN)/uv build --quiet --build-constraints requirements/dev.txt --require-hashes

clean:
	rm -rf build $(VENV) .mypy_cache .pytest_cache .ruff_cache
