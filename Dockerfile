# Every image of Podium. `make images` collects its wheels first: the build downloads nothing.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE} AS build
ARG WHEELS=build/wheels/services
COPY ${WHEELS} /wheels
# Exactly the collected set: some bounds are older than what runs (requirements/overrides.txt).
RUN python3 -m venv /opt/podium \
    && /opt/podium/bin/pip install --no-cache-dir --no-index --no-deps /wheels/*.whl

FROM ${BASE}
COPY --from=build /opt/podium /opt/podium
USER 65532:65532
ENV PATH=/opt/podium/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# Process 1 reaps what killed children leave. The arguments name what runs: `gateway`.
ENTRYPOINT ["dumb-init", "--", "python", "-m"]
