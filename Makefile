# `make` alone prints this help.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON := .venv/bin/python
# Installs with uv from pip's sources: its index, mirrors and folders of wheels.
PACKAGES := libs/podium_kit/embedded/packages.py
BUF := .venv/bin/buf
INSTALLED := .venv/.installed
GEN ?= protos/gen
# Tests start these programs hundreds of times: they are compiled once.
export PYTHONDONTWRITEBYTECODE :=
PROTO_CHECK := build/proto-check
SDK := $(PYTHON) -m scripts.sdk
RELEASED := protos/released.binpb
WORKERS ?= 3
SERVERS := cost_ledger.server, episodes.server, episodes.worker, gateway.server, orchestrator_inference.server, tool_adapters.server, tool_registry.server
SOURCES := libs bundled/functions services operations cli training evaluation tests scripts sdks/python
# mypy takes longest and starts first.
LINT := $(addprefix lint-,types sdk console style unused imports protos house dockerfile) proto-check proto-breaking
IMAGES := platform training engine
# Of the Python that collects the wheels.
BASE ?= python:$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')-slim-bookworm
PREFIX ?= localhost/podium/
TAG ?= $(shell sed -n 's/^appVersion: *"\?\([^"]*\)"\?/\1/p' charts/podium/Chart.yaml)
PYTHON_SOURCES = $(foreach dir,$(SOURCES),$(if $(shell find $(dir) -name '*.py' -print -quit 2>/dev/null),$(dir)))
# The plugin fails a run that skipped anything: a skipped test proves nothing.
PYTEST := PYTHONPATH=tests $(PYTHON) -m pytest -p no_skips $(SEED:%=--randomly-seed=%)
# A program of tests/. It starts processes beside open channels of gRPC, whose fork handlers can end those.
PROGRAM := GRPC_ENABLE_FORK_SUPPORT=false PYTHONPATH=tests $(PYTHON) -m
IN_PARALLEL := -n $(WORKERS) --dist loadscope -p not_run

.PHONY: help setup vllm pin proto proto-check proto-breaking proto-release sdk console lint $(LINT) format test test-all chaos chaos-all soak demo sealed up examples fuzz providers rest-search supply-chain bench-episodes bench-lists bench-ledger bench-gateway bench-tools bench-capacity bench-evaluations bench-neighbours bench-training bench-orchestrators bench-competence $(IMAGES:%=wheels-%) wheels-podium $(IMAGES:%=image-%) image image-archives image-earlier push cluster-test chart crds chart-docs chart-slow prometheus docs clean console-test pictures lighthouse clients evaluators otlp-backends openapi-documents

help: ## Print this help
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) vllm ## Install everything: .venv, and vLLM with its model into the cache

$(INSTALLED): requirements/dev.txt pyproject.toml scripts/hatch_dependencies.py
	@python=$$(scripts/prerequisites.sh) && { test -x $(PYTHON) || "$$python" -m venv .venv; }
	@echo "installing the pinned packages into .venv"
	@said=$$($(PYTHON) -m pip install -qq --disable-pip-version-check $$(grep ^uv== requirements/dev.txt) 2>&1) || \
	  { echo "could not install uv: $${said##*$$'\n'}; name an index in PIP_INDEX_URL"; exit 1; }
	@$(PYTHON) -I $(PACKAGES) requirements/dev.txt
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@# Writes their bytecode: to compile it takes longer than all that a service does at its start.
	@$(PYTHON) -c "import $(SERVERS)"
	@touch $@

vllm: $(INSTALLED) ## Install vLLM (in its own environment) and the default model into the cache
	@$(PYTHON) -m podium_kit.embedded

# triton, which xgrammar names, has no CPU backend; pycosat, which reasoning-gym names, no wheels.
RESOLVE = .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --fork-strategy fewest \
  --no-header --no-annotate --no-emit-index-url --no-emit-find-links $(UPGRADE)
PIN = $(RESOLVE) --no-emit-package triton --no-emit-package pycosat --override requirements/overrides.txt
VLLM := libs/podium_kit/embedded/vllm/requirements.txt
# What an image installs: its digests, too, and the versions that were tested.
LOCK = $(PIN) --generate-hashes -c requirements/dev.txt

pin: ## Resolve requirements/*.in again; UPGRADE=--upgrade takes the newest versions
	$(PIN) requirements/{base,tools,local,training,trackers,kserve,dev}.in -o requirements/dev.txt
	$(LOCK) --no-emit-package uv requirements/{base,tools,kserve,local}.in -o requirements/platform.txt
	$(LOCK) --no-emit-package torch requirements/{base,training,trackers}.in -o requirements/training.txt
	$(RESOLVE) --no-deps --generate-hashes --no-emit-package torch $(VLLM) -o requirements/engine.txt
	$(RESOLVE) requirements/docs.in -o requirements/docs.txt
	grep ^torch== requirements/training.in | \
	  $(RESOLVE) --no-config --generate-hashes -c requirements/dev.txt - -o requirements/training-cuda.txt

proto: $(INSTALLED) ## Generate the Python code of the contracts into protos/gen
	@mkdir -p $(GEN)
	find $(GEN) -type f -name '*_pb2*' -delete
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(PYTHON) -m grpc_tools.protoc -I protos --python_out=$(GEN) --mypy_out=quiet:$(GEN) \
	  $$(find protos/podium -name '*.proto' | sort)
	PATH="$(CURDIR)/.venv/bin:$$PATH" $(PYTHON) -m grpc_tools.protoc -I protos --grpc_python_out=$(GEN) --mypy_grpc_out=quiet:$(GEN) \
	  $$(find protos/podium -name '*_service.proto' | sort)

proto-check: $(INSTALLED) ## Fail when protos/gen is not what the contracts generate
	@rm -rf $(PROTO_CHECK)
	@$(MAKE) --silent proto GEN=$(PROTO_CHECK)
	@diff -r -x __pycache__ $(PROTO_CHECK)/podium protos/gen/podium || \
	  { echo "protos/gen is stale: run 'make proto' and commit it"; exit 1; }

proto-breaking: $(INSTALLED) ## Fail when a contract breaks clients of the last release
	@if test -f $(RELEASED); then $(BUF) breaking protos --against $(RELEASED); \
	  else echo "no release yet: 'make proto-release' stores the contracts to compare with"; fi

proto-release: proto-breaking ## Store the contracts of a release as what later ones must not break
	$(BUF) build protos -o $(RELEASED)

sdk: $(INSTALLED) ## Generate the clients' parts in sdks/ from the gateway's OpenAPI document
	$(SDK)

console: $(INSTALLED) ## Build the console from console/ into the gateway, with a Node of PyPI
	$(PYTHON) -m scripts.console

lint: $(INSTALLED) ## Style, types, import rules, contracts, house rules, Dockerfile
	@$(MAKE) --no-print-directory --jobs=$(WORKERS) --output-sync=target $(LINT)

# They import the packages, whose roots pyproject.toml names.
$(filter lint-%,$(LINT)): $(INSTALLED)

lint-types:
	$(PYTHON) -m mypy $(PYTHON_SOURCES)

lint-style:
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .

lint-unused:
	$(PYTHON) -m vulture

lint-imports:
	.venv/bin/lint-imports

lint-protos:
	$(BUF) lint protos
	$(BUF) format protos --diff --exit-code

lint-sdk:
	$(SDK) --check

lint-console:
	$(PYTHON) -m scripts.console --check

lint-house:
	$(PYTEST) -q tests/unit/house

lint-dockerfile:
	.venv/bin/hadolint Dockerfile Dockerfile.engine

format: $(INSTALLED) ## Put Python and contracts into the house format
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .
	$(BUF) format protos --write

# The house rules are part of lint.
test: setup ## Every service for real; WORKERS=n in parallel, SEED=n repeats an order
	@if command -v chromium >/dev/null; then $(DRIVER); fi
	$(PYTEST) $(IN_PARALLEL) --ignore=tests/unit/house -m "not chaos and not vllm and not training and not npm and not leaderboards and (quick or not browser)"

test-all: setup lint ## Besides: lint, killed servers, vLLM, training, the supply chain, and with root the images
	$(PYTEST) $(IN_PARALLEL) --hypothesis-profile=thorough --ignore=tests/unit/house -m "not chaos and not vllm and not browser"
	$(PYTEST) -m "chaos or vllm"
	@if command -v chromium >/dev/null; then $(MAKE) --no-print-directory console-test; \
	  else echo "not run: tests/browser opens the console: apt-get install chromium, make console-test"; fi
	$(MAKE) --no-print-directory rest-search supply-chain
	@$(MAKE) --no-print-directory examples
	@if command -v promtool >/dev/null; then $(MAKE) --no-print-directory prometheus; \
	  else echo "not run: tests/prometheus fires every alert: apt-get install prometheus, make prometheus"; fi
	@if test "$$(id -u)" = 0 && $(CONTAINER_TOOLS) && $(REGISTRY_PROGRAM); then $(MAKE) chart-slow; \
	  else echo "not run: tests/chart/slow builds and runs images, as root with buildah, podman," \
	  "runc, catatonit, debootstrap and docker-registry: make chart-slow"; fi

chaos: setup ## Kill PostgreSQL, the ledger and its callers at named points; KILLS=n SEED=n
	KILLS=$(or $(KILLS),100) $(PYTEST) tests/integration/cost_ledger/kills

chaos-all: setup ## Every fault of every part of a whole platform, while episodes run; SEED=n ROUNDS=n ONLY=victim:fault STALL=seconds
	$(PROGRAM) chaos $(SEED:%=--seed %) $(ROUNDS:%=--rounds %) $(ONLY:%=--only %) $(STALL:%=--stall-s %)

soak: setup ## Random faults and poison for HOURS=n, then what was lost, doubled, left behind or grew; SEED=n
	$(PROGRAM) chaos.soak $(SEED:%=--seed %) $(HOURS:%=--hours %)

fuzz: setup ## Search for inputs that a parser cannot take; RUNS=n for each parser
	for target in $(notdir $(wildcard tests/fuzz/corpus/*)); do \
	  echo "$$target"; $(PROGRAM) fuzz $$target --runs $(or $(RUNS),100000) || exit 1; done

rest-search: setup ## Search for requests that the REST API answers with 5xx or what it does not document; EXAMPLES=n
	$(PROGRAM) rest_search --examples $(or $(EXAMPLES),8)

# Debian's browser, from apt-get install chromium; its driver is needed nowhere else.
DRIVER := .venv/bin/uv pip install --quiet --python $(PYTHON) playwright==1.65.2 axe-playwright-python==0.1.8

console-test: setup ## What people of every role do in the console, in Debian's Chromium
	$(DRIVER)
	$(PYTEST) -m browser tests/browser

lighthouse: setup ## Measure pages of the console with Lighthouse from npm: performance, accessibility
	$(DRIVER)
	$(PROGRAM) browser.lighthouse

pictures: setup ## Take the pictures of README and docs of the running platform
	$(DRIVER)
	$(PROGRAM) browser.pictures

clients: setup ## Try published client libraries against a whole platform, each in an environment of its own
	$(PROGRAM) clients $(CLIENTS)

evaluators: setup ## Run tau2, inspect_ai and lm-eval, unmodified, on a few tasks against a whole platform
	$(PROGRAM) clients.evaluators $(EVALUATORS)

otlp-backends: setup ## Send an episode's trace to a real Phoenix, in an environment of its own, and read it back
	$(PROGRAM) otlp_backends

examples: setup ## Run every program of examples/ against a whole platform, each in an environment of its own
	$(PROGRAM) sdks.examples $(EXAMPLES)

openapi-documents: setup ## Read OpenAPI documents of real APIs, as published packages carry them
	$(PROGRAM) openapi_documents

supply-chain: $(INSTALLED) ## Bills of materials of the images, known vulnerabilities, secrets in the code
	$(PYTHON) scripts/supply_chain.py

demo: setup ## Solve real tasks with everything started for real, and show the result
	$(PYTHON) -m podium_cli demo

sealed: setup ## The default policy on tasks that no one reads, once a release; prints a row of tests/sealed/README.md
	@$(PROGRAM) sealed

up: setup ## Start the platform on this machine (Ctrl-C stops it)
	$(PYTHON) -m podium_cli up

bench-episodes: setup ## Per-turn overhead and throughput against a bare Temporal floor
	$(PROGRAM) bench.episodes

bench-lists: setup ## Lists, filters, orders and counts over a million episodes; EPISODES=n
	$(PROGRAM) bench.lists $(if $(EPISODES),--episodes $(EPISODES))

providers: setup ## Replies of every provider of language models, case by case, and their meaning
	$(PYTEST) -q -s tests/integration/tool_adapters/providers

bench-gateway: setup ## A request through the gateway beside LiteLLM's proxy: rate, processor time, added latency
	$(PROGRAM) bench.gateway $(if $(REQUESTS),--requests $(REQUESTS))

bench-tools: setup ## ResolveToolset against a bare server, and policy decisions
	$(PROGRAM) bench.tools

bench-capacity: setup ## What an episode costs each part, and what more workers and ledgers bring; PARTS="flat scaling profile"
	$(PROGRAM) bench.capacity $(PARTS)

bench-evaluations: setup ## 10,000 trials of an evaluation, 256 in flight: rate, memory, database size; COUNT=n AT_ONCE=n
	$(PROGRAM) bench.evaluations $(if $(COUNT),--count $(COUNT)) $(if $(AT_ONCE),--at-once $(AT_ONCE))

bench-neighbours: setup ## How long a tenant's calls take beside another tenant's flood of each service; ONLY=service:flood
	$(PROGRAM) bench.neighbours $(if $(ONLY),--only "$(ONLY)")

bench-training: setup ## A training step beside TRL's, drift, and time to a version's first token
	$(PROGRAM) bench.training

bench-orchestrators: setup ## Every expert alone, rules, the untrained model and the trained orchestrator: reward under seven preference vectors; STUDY=unseen-prices and others, COUNT=80 SEED="2 3 4" START=folder of the version before, CONTROL=NAME=folder of another
	$(PROGRAM) bench.orchestrators $(if $(STUDY),--study $(STUDY)) $(if $(COUNT),--count $(COUNT)) $(if $(SEED),--seed $(SEED)) $(if $(START),--start $(START)) $(if $(CONTROL),--control $(CONTROL))

bench-competence: setup ## How well the record in similar tasks predicts which expert is right, by ways to find such tasks
	$(PROGRAM) bench.competence

bench-ledger: setup ## Pairs, batches and posts of the ledger against the least SQL there is
	$(PROGRAM) bench.ledger $(PARTS)

# The digests are checked here: what an image installs is exactly what was collected.
COLLECT = $(PYTHON) -m pip wheel --quiet --disable-pip-version-check --no-deps -w build/wheels/$(@:wheels-%=%)
TORCH_CPU = $$(grep ^torch== requirements/training.in)+cpu
TORCH_WHEELS = $(if $(filter cpu,$(TORCH)),$(TORCH_CPU),--require-hashes -r requirements/training-cuda.txt)

$(IMAGES:%=wheels-%): wheels-%: $(INSTALLED)
	rm -rf build/wheels/$*
	$(COLLECT) --require-hashes -r requirements/$*.txt
	$(if $(filter training,$*),$(COLLECT) $(TORCH_WHEELS))
	$(if $(filter engine,$*),$(COLLECT) $(TORCH_CPU))

wheels-podium: $(INSTALLED)
	rm -rf build/wheels/podium
	$(COLLECT) --no-build-isolation .

$(IMAGES:%=image-%): image-%: wheels-% wheels-podium
	BASE=$(BASE) scripts/images.sh build $(PREFIX)$*:$(TAG) $(if $(filter engine,$*),-f Dockerfile.engine,--build-arg WHEELS=build/wheels/$*)

image: image-platform image-engine ## Build the images of the platform and of the engine for CPUs, with docker, buildah or podman
image-training: ## Build the image of training; TORCH=cpu for machines without a GPU

image-archives: image ## Build the images and write them to build/images/*.tar, for kind, k3d, ctr or a machine behind an air gap
	for name in $(or $(ARCHIVES),platform engine); do scripts/images.sh save $(PREFIX)$$name:$(TAG) build/images/$$name.tar || exit 1; done

EARLIER := $(CURDIR)/build/earlier
image-earlier: $(INSTALLED) ## Build REF=TAG's platform image, podium/platform:earlier, for cluster-test to upgrade from; its archive and chart too
	@test -n "$(REF)" || { echo "name the version: make image-earlier REF=v0.1.0"; exit 1; }
	rm -rf $(EARLIER) && mkdir -p $(EARLIER) && git archive $(REF) | tar -x -C $(EARLIER)
	@# With this checkout's tools, which stay as they are.
	PODIUM_CONTAINERS=$(CURDIR)/build/containers $(MAKE) -C $(EARLIER) image-platform TAG=earlier \
	  PYTHON=$(CURDIR)/$(PYTHON) INSTALLED=$(CURDIR)/$(INSTALLED) -o $(CURDIR)/$(INSTALLED)
	scripts/images.sh save $(PREFIX)platform:earlier build/images/earlier.tar

push: $(INSTALLED) ## Push images and charts (OCI) to REGISTRY=host/path; PUSHED="training" for other images; PLAIN_HTTP=1 for one without TLS; SIGN_AS=name KEYRING=secret.gpg signs charts
	@test -n "$(REGISTRY)" || { echo "name the registry: make push REGISTRY=registry.example.com/team"; exit 1; }
	@test -z "$(SIGN_AS)" -o -r "$(KEYRING)" || { echo "SIGN_AS needs KEYRING, a readable file: gpg --export-secret-keys NAME > secret.gpg"; exit 1; }
	for name in $(or $(PUSHED),platform engine); do scripts/images.sh push $(PREFIX)$$name:$(TAG) $(REGISTRY)/podium/$$name:$(TAG) || exit 1; done
	SIGN_AS="$(SIGN_AS)" KEYRING="$(KEYRING)" $(PYTHON) scripts/push_charts.py $(REGISTRY) $(CHARTS)

CHARTS := charts/podium charts/podium-tenant charts/podium-crds
CHECKOV := build/checkov

chart: setup ## Lint the charts and prove every profile and pair of switches, in process
	$(PYTHON) scripts/chart_docs.py $(CHARTS) --check
	$(PYTEST) -q tests/chart

cluster-test: $(INSTALLED) ## Install the evaluation profile on the cluster of KUBECONFIG and check it; CLUSTER_TEST="--keep --set ..."
	$(PROGRAM) cluster $(CLUSTER_TEST)

crds: $(INSTALLED) ## Fetch the operators' CRDs, which the charts are tested with where they are
	$(PROGRAM) chart.fetch_crds

chart-docs: setup ## Make the charts' schemas and README tables from their commented values; write down the profiles
	$(PYTHON) scripts/trainer_schema.py charts/podium/schema/trainer.json
	$(PYTHON) scripts/chart_docs.py $(CHARTS)
	$(PROGRAM) chart.golden

# The images are run by podman; charts are pushed to a real registry.
CONTAINER_TOOLS := { command -v buildah podman runc catatonit debootstrap >/dev/null || { echo "missing: apt-get install buildah podman runc catatonit debootstrap" >&2; false; }; }
REGISTRY_PROGRAM := { command -v docker-registry >/dev/null || { echo "missing: apt-get install docker-registry" >&2; false; }; }

chart-slow: chart ## checkov over every profile; a real OCI registry; the images run an episode, isolate code
	@$(CONTAINER_TOOLS) && $(REGISTRY_PROGRAM)
	$(MAKE) image image-training TORCH=cpu BUILDER=buildah
	@# Its pins are older than ours, so it lives in an environment of its own.
	@test -x $(CHECKOV)/bin/checkov || { $(PYTHON) -m venv $(CHECKOV) && $(CHECKOV)/bin/pip install --quiet --disable-pip-version-check checkov; }
	$(PYTEST) -q tests/chart/slow/checkov_findings.py tests/chart/slow/oci_registry.py
	$(PYTEST) -q tests/chart/slow/minimal_cpu.py tests/chart/slow/sandbox_on_runc.py tests/chart/slow/training_image.py tests/chart/slow/engines_image.py

prometheus: $(INSTALLED) ## Fire every alert, with Debian's promtool and prometheus
	@command -v promtool prometheus >/dev/null || { echo "missing: apt-get install prometheus" >&2; exit 1; }
	$(PYTEST) -q tests/prometheus/*.py

# The site is built by an environment of its own, its reference by ours.
DOCS := build/docs

docs: $(INSTALLED) ## Build the documentation site in build/docs/site; fails on a broken link
	@test $(DOCS)/env -nt requirements/docs.txt || { $(PYTHON) -m venv --clear $(DOCS)/env && \
	  $(PYTHON) -I $(PACKAGES) requirements/docs.txt $(DOCS)/env/bin/python && touch $(DOCS)/env; }
	$(PYTHON) -m scripts.docs_site $(DOCS)/pages
	NO_MKDOCS_2_WARNING=1 $(DOCS)/env/bin/mkdocs build --strict
	@echo "open $(DOCS)/site/index.html, or serve it: $(PYTHON) -m http.server -d $(DOCS)/site"

clean: ## Remove what was built and cached, but not .venv
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
