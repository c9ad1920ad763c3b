# Faults planted into verify attention: sim reports each, with the template's
# line, and the proof fails.
# shellcheck source=tests/tap.sh
. tests/tap.sh

# planted NAME KIND SED: a copy of the templates with one config and one fault.
planted() {
    local home=$TMP/$1 name=$1 kind=$2
    mkdir -p "$home"
    cp -r archs templates profiles "$home"
    sed -i 's/values = { 8, 16, 24.*},$/values = { 8 },/
            s/values = { 2, 3, 4, 5 }/values = { 3 }/' \
        "$home/templates/verify_attention.lua"
    sed -i "$3" "$home/templates/verify_attention.cu"
    ! cmp -s templates/verify_attention.cu "$home/templates/verify_attention.cu"
    ok "$name is planted"
    SPECTUNE_HOME=$home try prove --arch sm90 --heads 2/2 --draft-length 1 \
        --context 300 --chunk 256 --device sim
    is "$name fails its proof" "$status" 1
    has "$name is reported" "$out" "$kind"
    has "$name names the template" "$out" "templates/"
    printf '%s\n' "$out" | grep -qE 'templates/[a-z_]+\.cu:[0-9]+'
    ok "$name names the line"
}

planted no-wait "asynchronous copy before its wait" \
    's/^        cp_async_wait<STAGES - 2>();$//'
planted no-barrier "asynchronous copy before its wait" \
    '/cp_async_wait<STAGES - 2>();/{n;s/__syncthreads();//}'
planted out-of-bounds "out of bounds" \
    's/cp_async16(dst, args.k + offset, take);$/cp_async16(dst, args.k + offset + (take ? 1ll << 32 : 0), take);/'
planted unwritten "never written" \
    's/^        cp_async16(dst + STEP \* ROW_BYTES, args.v + offset, take);$//'
planted divergent-barrier "barrier" \
    's/^    cp_async_wait<STAGES - 1>();$/    cp_async_wait<STAGES - 1>(); if (threadIdx.x % 32 < 16) __syncthreads();/'
planted deadlock "deadlock" \
    's/^    cp_async_wait<STAGES - 1>();$/    cp_async_wait<STAGES - 1>(); if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");/'
tap_done
