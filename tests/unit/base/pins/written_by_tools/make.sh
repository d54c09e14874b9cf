#!/bin/sh
# Write the locks of this folder: what tools wrote for one small project, as a bot lets them.
# Needs uv, and Pipenv for Pipfile.lock; the dates choose what the index offered then.
set -eu

lock() { # folder, version of jinja2, day
    mkdir -p "$1" && cd "$1"
    cat > pyproject.toml <<TOML
[project]
name = "converter"
version = "0.1.0"
requires-python = "==3.11.*"
dependencies = ["jinja2==$2", "pyyaml==6.0"]
TOML
    uv lock -q --exclude-newer "$3"
    uv export -q --format pylock.toml --exclude-newer "$3" -o pylock.toml
    uv pip compile -q --universal --python-version 3.11 --generate-hashes --exclude-newer "$3" \
        pyproject.toml -o requirements.txt
    cd ..
}

pipfile() { # folder, version of jinja2
    cd "$1"
    cat > Pipfile <<TOML
[[source]]
url = "https://pypi.org/simple"
verify_ssl = true
name = "pypi"

[packages]
jinja2 = "==$2"

[requires]
python_version = "3.11"
TOML
    pipenv lock
    cd ..
}

cd "$(dirname "$0")"
lock earlier 3.1.1 2022-09-01
lock base 3.1.1 2023-01-10
lock transitive 3.1.1 2023-01-25
lock direct 3.1.2 2023-01-25
pipfile base 3.1.1
pipfile direct 3.1.2
