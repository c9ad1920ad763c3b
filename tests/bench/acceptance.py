#!/usr/bin/env python3
"""Acceptance of drafts by kind of prompt.

    python3 tests/bench/acceptance.py PROGRAM MODEL.gguf [TOKENS [PROMPTS]]

Prompts are those of tests/data/prompts.jsonl, PROMPTS of each kind, as a chat
message; TOKENS are written, greedily. Drafters: n-gram, and the model with
some of its layers (fewer_layers.py), at a fixed length and as the engine
chooses. Counts are the engine's own; times per token are modelled.
"""
import json
import os
import subprocess
import sys
import tempfile

LAYERS = "0-12,19-29"  # of SmolLM2's 30; fewer agree too rarely untrained
FOLDER = os.path.dirname(os.path.abspath(__file__))


def run(program, model, prompt, tokens, drafter):
    out = subprocess.run(
        [program, "run", "-m", model, "-c", "512", "-n", str(tokens), "--chat",
         "-p", prompt, "--device", "sim", "--json", *drafter],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return json.loads(out)


def line(kind, name, answers):
    tokens = sum(len(a["tokens"]) for a in answers)
    steps = sum(a["steps"] for a in answers)
    drafts = [a.get("drafts", {}) for a in answers]
    drafted = sum(d.get("num_draft_tokens", 0) for d in drafts)
    accepted = sum(d.get("num_accepted_tokens", 0) for d in drafts)
    used = sum(d.get("num_drafts", 0) for d in drafts)
    us = sum(a["gpu_time"]["us_per_token"] * len(a["tokens"]) for a in answers)
    plain = sum(a["gpu_time"]["us_per_token"] * a["gpu_time"]["speedup"] *
                len(a["tokens"]) for a in answers)
    print("%-12s %-20s %6d %6d %5.0f %% %8d %8d %6.3f %6.2f %8.2f x" % (
        kind, name, tokens, steps, 100 * (1 - steps / tokens), drafted,
        accepted, accepted / drafted if drafted else 0,
        1 + accepted / used if used else 1, plain / us), flush=True)


def main():
    program, model = sys.argv[1:3]
    tokens = int(sys.argv[3]) if len(sys.argv) > 3 else 24
    most = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    kinds = {}
    with open(FOLDER + "/../data/prompts.jsonl", encoding="utf-8") as file:
        for row in map(json.loads, file):
            kinds.setdefault(row["kind"], []).append(row["prompt"])
    print("%-12s %-20s %6s %6s %7s %8s %8s %6s %6s %10s" % (
        "kind", "drafter", "tokens", "steps", "saved", "drafted", "accepted",
        "rate", "E[L]", "modelled"))
    with tempfile.TemporaryDirectory() as folder:
        draft = folder + "/draft.gguf"
        subprocess.run([sys.executable, FOLDER + "/fewer_layers.py", model,
                        LAYERS, draft], check=True)
        ngram, external = ["--spec-type", "ngram"], ["-md", draft]
        drafters = {"n-gram, D = 4": ngram + ["--draft-length", "4"],
                    "n-gram, adaptive": ngram,
                    "24 layers, D = 4": external + ["--draft-length", "4"],
                    "24 layers, adaptive": external}
        for kind, prompts in kinds.items():
            for name, drafter in drafters.items():
                line(kind, name, [run(program, model, p, tokens, drafter)
                                  for p in prompts[:most]])


main()
