# Debian only: a runtime from the package index needs glibc, git reads the baseline commit.
ARG BASE_IMAGE=debian:trixie-slim
FROM ${BASE_IMAGE}

RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt

COPY requirements/runtime.txt /opt/ci-parity/requirements.txt
RUN python3 -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --no-compile --require-hashes --no-deps \
        --requirement /opt/ci-parity/requirements.txt

COPY entrypoint.py /opt/ci-parity/entrypoint.py
COPY ci_parity /opt/ci-parity/ci_parity

# Environments and uv's cache live in the container: nothing of root's is left in the runner's folders.
# uv trusts what the system trusts. onnxruntime 1.29 and later would report on the model.
ENV CI_PARITY_CACHE=/var/cache/ci-parity \
    UV_CACHE_DIR=/var/cache/ci-parity/uv \
    UV_SYSTEM_CERTS=1 \
    ORT_DISABLE_TELEMETRY=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

ENTRYPOINT ["/opt/venv/bin/python", "/opt/ci-parity/entrypoint.py"]
