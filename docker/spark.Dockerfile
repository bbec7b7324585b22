# The toolkit with the Python and the Java that its Spark needs. The context is the repository:
#   docker build --file docker/spark.Dockerfile .
ARG PYTHON_VERSION=3.11-slim-bookworm

FROM python:${PYTHON_VERSION} AS wheel
COPY . /src
RUN --mount=type=cache,target=/root/.cache/pip \
    pip wheel --no-deps --wheel-dir /wheel /src

FROM python:${PYTHON_VERSION}
# ps: Spark's scripts ask for it. Debian keeps one version of a package, so there is none to pin.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless procps \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=cache,target=/root/.cache/pip \
    --mount=type=bind,from=wheel,source=/wheel,target=/wheel \
    pip install /wheel/*.whl

# Hadoop wants a name for its user, so the one whose files are mounted is made here.
ARG CDC_UID=1000
ARG CDC_GID=1000
RUN groupadd --non-unique --gid "${CDC_GID}" cdc \
    && useradd --non-unique --no-log-init --create-home --uid "${CDC_UID}" --gid "${CDC_GID}" cdc \
    && install --directory --owner=cdc --group=cdc /work /var/cache/cdc
USER ${CDC_UID}:${CDC_GID}
ENV CDC_CACHE=/var/cache/cdc
WORKDIR /work
ENTRYPOINT ["cdc"]
CMD ["--help"]
