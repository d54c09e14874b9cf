# Debian only: a runtime from the package index needs glibc, git reads the baseline commit.
ARG BASE_IMAGE=debian:trixie-slim
FROM ${BASE_IMAGE} AS build

RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv

# Neither pip nor what only tests and compilers read is needed to run; bytecode is, to start fast.
COPY requirements/runtime.txt /opt/requirements.txt
RUN python3 -m venv /opt/pip \
    && python3 -m venv --without-pip /opt/venv \
    && /opt/pip/bin/pip --python /opt/venv/bin/python install --no-cache-dir --no-compile \
        --require-hashes --no-deps --requirement /opt/requirements.txt \
    && find /opt/venv/lib -depth -type d \
        \( -name tests -o -path '*/onnx/backend/test' -o -path '*/onnx/test' \) -exec rm -rf {} + \
    && find /opt/venv/lib -type f \( -name '*.pyi' -o -name '*.h' -o -name '*.a' \) -delete

COPY entrypoint.py /opt/ci-parity/entrypoint.py
COPY ci_parity /opt/ci-parity/ci_parity
RUN echo /opt/ci-parity > "$(/opt/venv/bin/python -c 'import site; print(site.getsitepackages()[0])')/ci-parity.pth" \
    && /opt/venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash \
        -x 'onnxruntime/(transformers|tools|quantization)|numpy/(f2py|distutils)|pygments/(lexers|styles)' \
        /opt/venv/lib /opt/ci-parity

FROM ${BASE_IMAGE}

RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt

COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/ci-parity /opt/ci-parity

# Environments and uv's cache live in the container: nothing of root's is left in the runner's folders.
# uv trusts what the system trusts. onnxruntime 1.29 and later would report on the model.
ENV CI_PARITY_CACHE=/var/cache/ci-parity \
    UV_CACHE_DIR=/var/cache/ci-parity/uv \
    UV_SYSTEM_CERTS=1 \
    ORT_DISABLE_TELEMETRY=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

ENTRYPOINT ["/opt/venv/bin/python", "/opt/ci-parity/entrypoint.py"]
