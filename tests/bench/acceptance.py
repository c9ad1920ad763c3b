#!/usr/bin/env python3
"""Acceptance and speedup of drafts by kind of prompt, drafter and length.

    python3 tests/bench/acceptance.py BENCH MODEL.gguf OUT.jsonl [NAME=VALUE...]

BENCH is build/release/bench/bench_accept. The prompts are those of
tests/data/prompts.jsonl, as chat messages. Answers that OUT lacks are written
and appended to it, so that a killed run goes on; with run=0 what it has is
reported. Names, with their defaults:

    prompts=8       of each kind
    tokens=96       of an answer, or fewer where the model ends it
    temperature=0
    lengths=4,8,-1  draft lengths; -1 = as long as pays, up to longest
    longest=8
    model_lengths=  of draft models, where not as lengths
    drafts=         files of draft models, beside n-gram; their names are
                    those of the files, but for .gguf
    accept=match    or rejection, for draft models
    sessions=8      written side by side; with 1 sim's speed is reported too
    tables=         file for acceptance tables, of each drafter's longest length
                    with four answers of a kind or more

Counts are the engine's own on sim. The text does not depend on drafts: n-gram
drafts are replayed over it, and every answer is compared. Times per token are
modelled for one sequence; sim/s are tokens per core second of sim. In brackets:
5 % to 95 % of 2000 resamplings of the prompts.
"""
import json
import os
import random
import re
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROMPTS = FOLDER + "/../data/prompts.jsonl"
BOARDS = ["h200_sxm", "h100_sxm"]
RESAMPLINGS = 2000
FEWEST = 4  # answers of a table
DEFAULTS = {"prompts": "8", "tokens": "96", "temperature": "0",
            "lengths": "4,8,-1", "longest": "8", "model_lengths": "",
            "drafts": "", "accept": "match", "sessions": "8", "tables": "",
            "run": "1"}
# How the kinds of prompts are called in acceptance tables, and their words.
WORKLOADS = {"code": ("code", "HumanEval"),
             "chat": ("chat", "MT-bench of Spec-Bench"),
             "mathematics": ("mathematics", "GSM8K of Spec-Bench"),
             "translation": ("translation", "WMT14 of Spec-Bench"),
             "editing": ("editing", "own editing tasks")}


def write_answers(bench, model, out, names):
    """Everything that the report needs, in the order of its need."""
    same = ["%s=%s" % (name, names[name]) for name in
            ("prompts", "tokens", "temperature", "longest", "sessions")]
    command = [bench, model, PROMPTS, out, *same]
    lengths = "lengths=" + names["lengths"]
    subprocess.run(command, check=True)
    subprocess.run([*command, "draft=ngram", lengths,
                    "replay=%d" % (names["sessions"] != "1")], check=True)
    for draft in filter(None, names["drafts"].split(",")):
        subprocess.run([*command, "draft=" + draft, "name=" + name_of(draft),
                        "lengths=" + names["model_lengths"],
                        "accept=" + names["accept"]], check=True)


def name_of(path):
    return os.path.basename(path).removesuffix(".gguf")


def accept_of(row, names):
    own = row["drafter"] in ("none", "ngram")
    return "match" if own else names["accept"]


def read_answers(out, names):
    """{(kind, drafter, length): answers}, those that names ask for."""
    wanted, kinds = set(), {}
    with open(PROMPTS, encoding="utf-8") as file:
        for row in map(json.loads, file):
            kinds.setdefault(row["kind"], []).append(row["source"])
    for sources in kinds.values():
        wanted.update(sources[:int(names["prompts"])])
    drafters = {"none", "ngram"} | {name_of(d)
                                    for d in names["drafts"].split(",")}
    lengths = {0} | {int(length) for name in ("lengths", "model_lengths")
                     for length in names[name].split(",")}
    answers = {}
    with open(out, encoding="utf-8") as file:
        for line in file:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # of a run that was killed
            if (row["source"] in wanted and row["drafter"] in drafters and
                    row["draft_length"] in lengths and
                    row["key"].split()[2] == names["tokens"] and
                    row["key"].split()[5] == "%d" % (names["sessions"] == "1")
                    and row["accept"] == accept_of(row, names) and
                    row["temperature"] == float(names["temperature"])):
                key = row["kind"], row["drafter"], row["draft_length"]
                answers.setdefault(key, []).append(row)
    return answers


def differing(answers):
    """Answers that are not the one without drafts; rejection draws anew."""
    plain = {row["source"]: row["tokens"]
             for (_, drafter, _), rows in answers.items()
             for row in rows if drafter == "none"}
    return sum(row["tokens"] != plain[row["source"]]
               for rows in answers.values() for row in rows
               if row["accept"] == "match" and row["source"] in plain)


def survival(rows):
    """The chance that drafts 1 to i are all kept, of steps with drafts."""
    drafts = sum(row["drafts"] for row in rows)
    longest = max(len(row["accepted"]) for row in rows) if drafts else 0
    return [sum(row["accepted"][i] for row in rows if len(row["accepted"]) > i)
            / drafts for i in range(longest)]


def expected(rows):
    drafts = sum(row["drafts"] for row in rows)
    return 1 + sum(sum(row["accepted"]) for row in rows) / max(drafts, 1)


def speedup(rows, board):
    def total(which):
        return sum(row["modelled_us_per_token"][board][which] *
                   len(row["tokens"]) for row in rows)
    return total("without") / total("with")


def spread(rows, value):
    """5 % and 95 % of a value over resamplings of the answers."""
    draw = random.Random(1)
    values = sorted(value(draw.choices(rows, k=len(rows)))
                    for _ in range(RESAMPLINGS))
    return values[RESAMPLINGS // 20], values[-RESAMPLINGS // 20 - 1]


def modelled(rows, board):
    """Time per token, speedup and its spread, in a cell of the report."""
    us = sum(row["modelled_us_per_token"][board]["with"] * len(row["tokens"])
             for row in rows) / sum(len(row["tokens"]) for row in rows)
    return "%6.1f us   %.2f (%.2f to %.2f)" % (
        us, speedup(rows, board),
        *spread(rows, lambda part: speedup(part, board)))


def sim_rate(rows):
    """Tokens after the first per core second of sim, where that was timed."""
    if not all("core_seconds" in row for row in rows):
        return "-"
    return "%.1f" % (sum(len(row["tokens"]) - 1 for row in rows) /
                     sum(row["core_seconds"] for row in rows))


def report(answers):
    print("%-12s %-22s %3s %7s %6s %6s %-20s" % (
        "kind", "drafter", "D", "tokens", "steps", "match", "E[L]"),
          *("%-11s %-19s" % (board, "speedup") for board in BOARDS),
          "sim/s survival")
    for (kind, drafter, length), rows in sorted(answers.items()):
        steps = sum(row["steps"] for row in rows)
        print("%-12s %-22s %3s %7d %6d %6.2f %5.2f (%.2f to %.2f)" % (
            kind, drafter, length if length >= 0 else "-",
            sum(len(row["tokens"]) for row in rows), steps,
            sum(row["drafts"] for row in rows) / steps, expected(rows),
            *spread(rows, expected)), *(modelled(rows, b) for b in BOARDS),
              "%5s" % sim_rate(rows),
              " ".join("%.2f" % s for s in survival(rows)))
    print("answers: %d, of which %d differ from the one without drafts" % (
        sum(map(len, answers.values())), differing(answers)))


def write_tables(answers, model, names):
    """What the answers say, as profiles/acceptance/ has it."""
    tables = []
    for (kind, drafter, length), rows in sorted(answers.items()):
        longer = [n for k, d, n in answers
                  if (k, d) == (kind, drafter) and n > length]
        if longer or len(rows) < FEWEST or not any(row["drafts"]
                                                   for row in rows):
            continue
        workload, words = WORKLOADS[kind]
        ngram = drafter == "ngram"
        table = {"method": "ngram" if ngram else "external",
                 "drafter": "n-gram lookup" if ngram else drafter,
                 "target": model, "workload": workload, "words": words,
                 "temperature": json.loads(names["temperature"]),
                 "thinking": False, "borrow": False,
                 "survival": [round(s, 4) for s in survival(rows)]}
        if ngram:
            table["match_rate"] = round(sum(row["drafts"] for row in rows) /
                                        sum(row["steps"] for row in rows), 4)
        table["note"] = "%d answers, %d tokens" % (
            len(rows), sum(len(row["tokens"]) for row in rows))
        tables.append(table)
    source = ("this repository's bench on sim, SmolLM2-135M-Instruct in Q4_1: "
              "tests/bench/acceptance.py tokens=%s" % names["tokens"])
    text = json.dumps({"schema": "spectune.acceptance/1", "source": source,
                       "tables": tables}, indent=2)
    # Lists of numbers stand in one line.
    text = re.sub(r"\[[\d.,\s]+\]", lambda m: " ".join(m[0].split()), text)
    with open(names["tables"], "w", encoding="utf-8") as file:
        file.write(text.replace("[ ", "[").replace(" ]", "]") + "\n")


def main():
    bench, model, out = sys.argv[1:4]
    names = dict(DEFAULTS)
    for text in sys.argv[4:]:
        name, _, value = text.partition("=")
        if name not in names:
            sys.exit("acceptance.py: %s: expected one of: %s" % (
                text, " ".join(names)))
        names[name] = value
    names["model_lengths"] = names["model_lengths"] or names["lengths"]
    if names["run"] != "0":
        write_answers(bench, model, out, names)
    answers = read_answers(out, names)
    report(answers)
    if names["tables"]:
        write_tables(answers, "smollm2-135m", names)


main()
