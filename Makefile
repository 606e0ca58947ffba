# `make` alone prints this help.
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python

.PHONY: help proto
help: ## Print this help
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

proto: ## Generate the Python code of the contracts into protos/gen
	find protos/gen -type f -name '*_pb2*' -delete
	$(PYTHON) -m grpc_tools.protoc -I protos --python_out=protos/gen --mypy_out=quiet:protos/gen \
	  $$(find protos/podium -name '*.proto' | sort)
	$(PYTHON) -m grpc_tools.protoc -I protos --grpc_python_out=protos/gen --mypy_grpc_out=quiet:protos/gen \
	  $$(find protos/podium -name '*_service.proto' | sort)
