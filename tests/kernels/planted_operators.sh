# Faults planted into operators: their proofs fail and say where.
# shellcheck source=tests/tap.sh
. tests/tap.sh

# planted NAME TEXT FILE SED PROOF...: a copy of the templates with one fault.
planted() {
    local home=$TMP/$1 name=$1 text=$2 file=$3
    mkdir -p "$home"
    cp -r archs templates profiles "$home"
    sed -i "$4" "$home/templates/$file"
    ! cmp -s "templates/$file" "$home/templates/$file"
    ok "$name is planted"
    shift 4
    SPECTUNE_HOME=$home try prove "$@" --arch sm90 --device sim
    is "$name fails its proof" "$status" 1
    has "$name is told" "$out" "$text"
}

planted no-eps "expected" norm.cu 's/__fadd_rn(mean, eps)/mean/' \
    norm width=64
planted rows-beside "differs in its bits" norm.cu \
    's/float squares = 0.0f;/float squares = gridDim.x * 1e-6f;/' \
    norm width=64 out_type=fp32
planted past-the-row "written outside of its rows" norm.cu \
    's/args.out, out + vector/args.out, out + (row == 4 ? 8 : 0) + vector/' \
    norm width=64
planted reads-the-gap "never written" norm.cu \
    's/args.in, in + vector/args.in, in + 8 + vector/' norm width=64
planted sums-shared "race" norm.cu 's/args.eps, warps\[1\]/args.eps, warps[0]/' \
    norm width=640 add=true out_type=fp32 next_type=bf16
planted slot-for-position "q_out of row 2 is" rotary.cu \
    's/int position = position_of.*/int position = sequence.context + token;/' \
    rotary head_dim=64 tree=true tokens=9
planted wrong-page "read of global memory never written" slot.cu \
    's/args.page_table_stride + slot/args.page_table_stride + 1 + slot/' \
    rotary head_dim=64 page_size=256
planted no-cube "expected" gate.cu 's/0.044715f, cube, x/0.044715f, x, x/' \
    activation gate=gelu
planted no-zeros "out of bounds" gather.cu 's/if (from >= 0)//' \
    gather rows=30
planted no-nothing "out of bounds" gather.cu 's/ || to < 0//' \
    gather rows=30 scatter=1
planted backwards "k_cache of row" kv_compact.cu \
    's/int j = 0; j < length; j++/int j = length - 1; j >= 0; j--/' \
    kv_compact tokens=31
planted first-stretch "of row" ngram.cu \
    's/if (__syncthreads_or(size >= args.max_match))/if (true)/' \
    ngram length=3000 vocabulary=40 longest=1 min_match=1
planted twice-the-same "draft of row" ngram.cu \
    's/size && !has_successor(.*;/size;/' \
    ngram matches=3 rows=12
planted any-id "templates/weight_decode.cu" embedding.cu 's/id >= 0 && id < args.vocabulary/true/' \
    embedding weight=q8_0 rows=90
planted fifth-bits "out of row" weight_decode.cu 's/at \/ 8\] >> i/at \/ 8] >> (7 - i)/' \
    embedding weight=q5_1
planted no-first-warp "out of row" linear.cu 's/^\( *\)float sum = at\[0\];/\1float sum = 0.0f;/' \
    linear weight=q8_0 k_warps=4 panels=2 stages=4
planted no-offset "expected" linear.cu '/__fmaf_rn(block.offset/d' \
    linear weight=q6_k k_warps=8 panels=4 stages=4 rows=3 outputs=40
planted early-wait "asynchronous copy before its wait" linear.cu \
    's/cp_async_wait<STAGES - 2>/cp_async_wait<STAGES - 1>/' \
    linear weight=q6_k k_warps=8 panels=4 stages=4 rows=3 inputs=2560
planted wrong-field "expected" linear_unit.cu \
    's/8 \* half + 2 \* place - 4/8 * half + 2 * place - 2/' \
    linear weight=q6_k k_warps=8 panels=4 stages=4 rows=3 outputs=40
planted past-the-other "read of" translate.cu 's/ && from < args.in_width//' \
    translate rows=1 pad=0
planted last-of-ties "token of row" logit_row.cu \
    's/best = max(best, \(.*\) | ~static_cast<unsigned>(i))/best = max(best, \1 | ~static_cast<unsigned>(i \& ~1))/' \
    sample rows=40 threads=256
planted always-kept "token of row" sample.cu 's/draft_parts\[1\]) < draft_parts\[0\]/0) < 1/' \
    sample rows=40 threads=256
planted whole-of-p "token of row" sample.cu 's/return in_p > in_q ? in_p - in_q : 0;/return in_p;/' \
    sample rows=200 vocabulary=31 threads=256
planted all-ties "token of row" logit_row.cu 's/ && rank < limit//' \
    sample rows=70 threads=256
planted no-infinities "out of row" logprobs.cu 's/ && x > MINUS_INFINITY//' \
    logprobs rows=40 vocabulary=31 threads=256
planted any-order "out of row" logprobs.cu 's/rank += .*/rank = threadIdx.x;/' \
    logprobs rows=40 vocabulary=31 threads=256
planted no-drafts "logits of row" adjust.cu 's/for (int j = 0; j < n; j++)/for (int j = 0; j < n \&\& false; j++)/' \
    adjust rows=20 threads=64
planted whoever-came "logits of row" adjust.cu 's/if (count <= 0)/if (false)/' \
    adjust rows=20 threads=64
planted halves-swapped "out of row" packed_decode.cu 's/n\[i\] |= (word_at(unit, 128 + lane) >> (half/n[i] |= (word_at(unit, 128 + lane) >> (16 - half/' \
    embedding weight=q5_1 packed=true rows=20
planted any-child "of row" accept.cu 's/ && parent == at//' \
    accept tree=true tokens=32 rows=200
planted nothing-equals-nothing "of row" accept.cu 's/draft >= 0 && //' \
    accept rows=200
tap_done
