#!/usr/bin/env python3
"""A draft model of the first layers of a llama-like GGUF, its end fitted.

    python3 -m pip install torch gguf
    python3 tests/bench/fit_draft.py MODEL.gguf LAYERS TEXTS.jsonl OUT.gguf

TEXTS are lines {"prompt": [ids], "tokens": [ids]}, answers of the model itself
(bench_accept writes such lines). LAYERS first layers are kept as they are, but
that the last one's down projection and the head are new: with x what the last
kept layer has after its attention and h what its feed-forward part would
project down, both over the size of x, and z the model's own last state over
its size, the maps A and B with least |z - A x - B h|^2 + ridge are one linear
solve. The new down projection is A^-1 B, the new head the old one after A.
Nothing is trained by steps. A tenth of the texts is left out; how often draft
and text agree on these is printed.
"""
import json
import struct
import sys

import gguf
import numpy
import torch

sys.dont_write_bytecode = True
import fewer_layers  # noqa: E402

torch.set_grad_enabled(False)
HELD = 10  # each tenth text is left out
BATCH = 16  # texts of one pass
RIDGE = 0.003  # of each feature's mean square
RIDGE_OF_FOLD = 0.03  # of what A makes of each number


class Model:
    """A llama: weights, shapes, and a pass over whole texts."""

    def __init__(self, path):
        reader = gguf.GGUFReader(path)

        def key(name):
            return reader.fields["llama." + name].contents()
        self.layers = key("block_count")
        self.heads = key("attention.head_count")
        self.kv_heads = key("attention.head_count_kv")
        self.base = key("rope.freq_base")
        self.epsilon = key("attention.layer_norm_rms_epsilon")
        self.weights = {
            t.name: torch.from_numpy(numpy.array(gguf.quants.dequantize(
                t.data, t.tensor_type), dtype=numpy.float32)).reshape(
                    tuple(int(n) for n in reversed(t.shape)))
            for t in reader.tensors}

    def head(self):
        """(vocabulary, hidden), the last norm's weights included."""
        w = self.weights
        return w.get("output.weight", w["token_embd.weight"]) * \
            w["output_norm.weight"]

    def of(self, layer, name, like):
        return self.weights["blk.%d.%s.weight" % (layer, name)].to(like.dtype)

    def norm(self, x, weight=None):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (y if weight is None else y * weight.float()).to(x.dtype)

    def rotate(self, x):
        """x: (text, position, head, dim), dims in pairs."""
        dim = x.shape[-1]
        angle = torch.arange(x.shape[1])[:, None, None] * \
            self.base ** (-torch.arange(0, dim, 2) / dim)
        even, odd = x[..., 0::2].float(), x[..., 1::2].float()
        turned = torch.stack([even * angle.cos() - odd * angle.sin(),
                              even * angle.sin() + odd * angle.cos()], -1)
        return turned.flatten(-2).to(x.dtype)

    def attend(self, layer, x):
        """x after the layer's attention."""
        y = self.norm(x, self.of(layer, "attn_norm", x))
        q, k, v = (torch.nn.functional.linear(y, self.of(layer, name, x))
                   .unflatten(-1, (heads, -1)) for name, heads in
                   (("attn_q", self.heads), ("attn_k", self.kv_heads),
                    ("attn_v", self.kv_heads)))
        q, k = self.rotate(q), self.rotate(k)
        each = self.heads // self.kv_heads
        out = torch.nn.functional.scaled_dot_product_attention(
            q.transpose(1, 2), k.repeat_interleave(each, 2).transpose(1, 2),
            v.repeat_interleave(each, 2).transpose(1, 2), is_causal=True)
        return x + torch.nn.functional.linear(
            out.transpose(1, 2).flatten(-2), self.of(layer, "attn_output", x))

    def inner(self, layer, x):
        """What the down projection of the feed-forward part gets."""
        y = self.norm(x, self.of(layer, "ffn_norm", x))
        return torch.nn.functional.silu(torch.nn.functional.linear(
            y, self.of(layer, "ffn_gate", x))) * torch.nn.functional.linear(
                y, self.of(layer, "ffn_up", x))

    def feed(self, layer, x):
        return x + torch.nn.functional.linear(
            self.inner(layer, x), self.of(layer, "ffn_down", x))

    def states(self, ids, kept):
        """Features of the first `kept` layers and the model's last state."""
        x = self.weights["token_embd.weight"][ids]
        for layer in range(kept):
            after = self.attend(layer, x)
            if layer == kept - 1:
                inner = self.inner(layer, after)
            x = self.feed(layer, after)
        scale = after.pow(2).mean(-1, keepdim=True).rsqrt()
        x = x.bfloat16()  # the rest: only its end is looked at
        for layer in range(kept, self.layers):
            x = self.feed(layer, self.attend(layer, x))
        return torch.cat([after, inner], -1) * scale, self.norm(x.float())


def batches(texts):
    """(ids, what follows each position of an answer or -1)"""
    texts = sorted(texts, key=lambda t: len(t["prompt"]) + len(t["tokens"]))
    for i in range(0, len(texts), BATCH):
        part = texts[i:i + BATCH]
        most = max(len(t["prompt"]) + len(t["tokens"]) for t in part) - 1
        ids = torch.zeros(len(part), most, dtype=torch.long)
        follows = torch.full((len(part), most), -1)
        for row, t in enumerate(part):
            whole, first = t["prompt"] + t["tokens"], len(t["prompt"])
            ids[row, :len(whole) - 1] = torch.tensor(whole[:-1])
            follows[row, first - 1:len(whole) - 1] = torch.tensor(
                whole[first:])
        yield ids, follows


def solve(gram, cross, ridge):
    gram = gram.clone()
    gram.diagonal().mul_(1 + ridge).add_(1e-6 * gram.diagonal().mean())
    return torch.linalg.solve(gram, cross).T


def fit(model, texts, kept):
    """(A, new down projection); the sums are over the answers."""
    hidden = model.weights["token_embd.weight"].shape[1]
    width = hidden + model.of(0, "ffn_down", torch.zeros(1)).shape[1]
    gram, cross = torch.zeros(width, width), torch.zeros(width, hidden)
    for ids, follows in batches(texts):
        features, state = model.states(ids, kept)
        features, state = features[follows >= 0], state[follows >= 0]
        gram += features.T @ features
        cross += features.T @ state
    both = solve(gram, cross, RIDGE)
    a, b = both[:, :hidden], both[:, hidden:]
    # A^-1 B, but small where A says little; then A for that very projection.
    down = solve(a.T @ a, a.T @ b, RIDGE_OF_FOLD).T
    joined = torch.cat([torch.eye(hidden), down], 1)
    return solve(joined @ gram @ joined.T, joined @ cross, RIDGE), down


def agreement(model, texts, kept, a, down):
    """How often the draft's first choice is the text's next token."""
    head, right, count = model.head() @ a, 0, 0
    for ids, follows in batches(texts):
        features, _ = model.states(ids, kept)
        answer = follows >= 0
        features = features[answer]
        x, h = features.split([len(a), features.shape[1] - len(a)], 1)
        choice = ((x + h @ down.T) @ head.T).argmax(-1)
        right += int((choice == follows[answer]).sum())
        count += len(choice)
    return right / count


def packed(weights, kind):
    """A tensor of fewer_layers.rewrite."""
    shape = struct.pack("<I%dQI" % weights.dim(), weights.dim(),
                        *reversed(weights.shape), kind)
    return shape, gguf.quants.quantize(weights.numpy(), kind).tobytes()


def main():
    path, kept, lines, out = sys.argv[1:]
    kept = int(kept)
    model = Model(path)
    with open(lines, encoding="utf-8") as file:
        texts = [json.loads(line) for line in file]
    texts = [t for t in texts if t.get("prompt") and t.get("tokens")]
    if len(texts) < HELD:
        sys.exit("%s: %d lines have prompt and tokens, expected at least %d" % (
            lines, len(texts), HELD))
    held = texts[::HELD]
    texts = [t for i, t in enumerate(texts) if i % HELD]
    a, down = fit(model, texts, kept)
    print("%d layers, %d texts: agreement %.3f on %d others" % (
        kept, len(texts), agreement(model, held, kept, a, down), len(held)))
    q8_0 = gguf.GGMLQuantizationType.Q8_0
    fewer_layers.rewrite(path, range(kept), out, {
        "blk.%d.ffn_down.weight" % (kept - 1): packed(down, q8_0),
        "output_norm.weight": packed(torch.ones(len(a)),
                                     gguf.GGMLQuantizationType.F32),
        "output.weight": packed(model.head() @ a, q8_0)})


main()
