# spectune serve: starts, answers over HTTP, ends with a signal.
# shellcheck source=tests/tap.sh
. tests/tap.sh

model=deps/models/SmolLM2-135M-Instruct.Q4_1.gguf

refused "serve without a model" 2 "--model: is missing" serve
refused "a port that is none" 2 "--port" serve -m x.gguf --port 70000
refused "a model that is not there" 1 "/nonexistent.gguf" \
    serve -m /nonexistent.gguf --port 0
refused "a host that is no address" 2 "--host: '1.2.3.4.5' is no address" \
    serve -m x.gguf --port 0 --host 1.2.3.4.5
refused "an address of another machine" 1 "192.0.2.1 port 0: cannot listen: " \
    serve -m x.gguf --port 0 --host 192.0.2.1

# get PATH [HEADER]: the reply of the server, head and body.
get() {
    exec 3<>"/dev/tcp/127.0.0.1/$port" &&
        printf 'GET %s HTTP/1.1\r\nHost: x\r\n%sConnection: close\r\n\r\n' \
            "$1" "${2-}" >&3 &&
        cat <&3
    exec 3>&-
}

# started OPTION...: a server in the background, when it listens.
started() {
    "$SPECTUNE" serve -m "$model" -c 64 --parallel 1 --device sim --port 0 \
        "$@" >"$TMP/out" 2>"$TMP/err" &
    pid=$!
    for _ in $(seq 1800); do
        port=$(sed -n 's/.*:\([0-9]*\)$/\1/p' "$TMP/out")
        [ -z "$port" ] || break
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
}

started --host localhost --api-key secret
has "a server says where it is" "$(cat "$TMP/out")" \
    "SmolLM2-135M-Instruct.Q4_1 is served at http://localhost:"
has "it is well" "$(get /health)" '{"status":"ok"}'
has "it wants its key" "$(get /v1/models)" "401 Unauthorized"
key=$'Authorization: Bearer secret\r\n'
has "it names its model" "$(get /v1/models "$key")" '"id":"SmolLM2-135M-Instruct.Q4_1"'
refused "a port that is taken" 1 "port $port: cannot listen: Address" \
    serve -m x.gguf --port "$port"
kill -TERM "$pid"
wait "$pid"
is "a signal ends it" "$?" 0

# post BODY: asks for a completion in the background; its answer is $TMP/post.
post() {
    (
        exec 3<>"/dev/tcp/127.0.0.1/$port"
        printf 'POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' \
            ${#1} "$1" >&3
        cat <&3 >"$TMP/post"
    ) &
    client=$!
    for _ in $(seq 600); do
        get /metrics | grep -q '^vllm:num_requests_running{.*} 1' && break
        sleep 0.1
    done
}

started
post '{"prompt": "Once", "max_tokens": 12, "ignore_eos": true}'
kill -TERM "$pid"
wait "$pid"
is "a signal waits for an answer" "$?" 0
wait "$client"
has "which is whole" "$(cat "$TMP/post")" '"completion_tokens":12'
started --grace 1000
post '{"prompt": "Once", "max_tokens": 60, "ignore_eos": true}'
kill -TERM "$pid"
sleep 0.2
kill -INT "$pid"
wait "$pid"
[ "$?" -ge 128 ]
ok "a second signal does not wait"
wait "$client"

# drafted OPTION...: how many tokens were drafted for one answer of twelve.
drafted() {
    started -md "$model" "$@"
    local body='{"prompt": "Once upon a time", "max_tokens": 12}'
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' \
        ${#body} "$body" >&3
    cat <&3 >"$TMP/answer"
    exec 3>&-
    get /metrics | sed -n 's/^vllm:spec_decode_num_draft_tokens_total{.*} //p'
    kill -TERM "$pid"
    wait "$pid"
}
fixed=$(drafted --draft-length 4)
[ "${fixed%.*}" -ge 8 ]
ok "a draft as large as its target drafts where it is told to ($fixed)"
free=$(drafted)
[ -n "$free" ] && [ "${free%.*}" -lt 4 ]
ok "and stops where the time model says that it cannot pay ($free)"

tap_done
