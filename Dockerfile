# Debian only: a runtime from the package index needs glibc, git reads the baseline commit.
ARG BASE_IMAGE=debian:trixie-slim
FROM ${BASE_IMAGE} AS build

RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils ca-certificates python3 python3-venv

COPY requirements/runtime.txt /opt/requirements.txt
RUN python3 -m venv /opt/pip \
    && python3 -m venv --without-pip /opt/venv \
    && ln -s "$(/opt/venv/bin/python -c 'import site; print(site.getsitepackages()[0])')" /opt/packages \
    && /opt/pip/bin/pip --python /opt/venv/bin/python install --no-cache-dir --no-compile \
        --require-hashes --no-deps --requirement /opt/requirements.txt

# Neither what only tests, compilers and debuggers read is needed to run, nor what packages bring
# that nothing here uses: tokenizers' way to download, rich's to highlight code, Pillow's to draw
# text and to read AVIF, and the services that botocore speaks beside S3 and what gives credentials.
# onnx's node tests stay, as operator coverage runs them: 1.4 MB of source, read once.
WORKDIR /opt/packages
RUN /opt/pip/bin/pip --python /opt/venv/bin/python uninstall --yes --quiet \
        huggingface-hub hf-xet httpx2 httpcore2 h11 anyio truststore tqdm \
        pygments markdown-it-py mdurl \
    && find botocore/data -mindepth 1 -maxdepth 1 -type d \
        ! -name s3 ! -name sts ! -name sso ! -name sso-oidc ! -name signin -exec rm -rf {} + \
    && rm -f PIL/_avif.*.so PIL/_imagingft.*.so PIL/_imagingtk.*.so \
        pillow.libs/libavif-* pillow.libs/libfreetype-* pillow.libs/libharfbuzz-* pillow.libs/libbrotli* \
    && find . -depth -type d \
        \( -name tests -o -path '*/onnx/backend/test/data' -o -path '*/onnx/backend/test/case/model' \
        -o -path '*/onnx/test' \) -exec rm -rf {} + \
    && find . -type f -regextype posix-extended \
        -regex '.*\.(pyi|pyx|pxd|c|h|a)' -delete \
    && find . -type f -name '*.so' ! -path './*.libs/*' -exec strip --strip-unneeded {} +

COPY entrypoint.py /opt/ci-parity/entrypoint.py
COPY ci_parity /opt/ci-parity/ci_parity
RUN echo /opt/ci-parity > /opt/packages/ci-parity.pth \
    && /opt/venv/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash \
        -x 'onnxruntime/(transformers|tools|quantization)|numpy/(f2py|distutils)|onnx/backend/test' \
        /opt/venv/lib /opt/ci-parity

FROM ${BASE_IMAGE}

RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates git python3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt

COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/ci-parity /opt/ci-parity

# Environments and uv's cache live in the container, or in a volume of the daemon that the action
# asks for: nothing of root's is left in the runner's folders.
# uv trusts what the system trusts. onnxruntime 1.29 and later would report on the model.
ENV CI_PARITY_CACHE=/var/cache/ci-parity \
    CI_PARITY_CACHE_VOLUME=ci-parity-cache \
    UV_CACHE_DIR=/var/cache/ci-parity/uv \
    UV_SYSTEM_CERTS=1 \
    ORT_DISABLE_TELEMETRY=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

ENTRYPOINT ["/opt/venv/bin/python", "/opt/ci-parity/entrypoint.py"]
