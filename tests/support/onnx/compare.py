# Runs an exported network on records of a file, and compares its outputs with those of `paddle predict --output=jsonl`.
# usage: compare.py MODEL FORMAT RECORDS PREDICTED DESCRIPTION     FORMAT as in job.toml, or raw; DESCRIPTION: the folder
# model/ of the snapshot. Needs onnxruntime, or its stand-in beside this file, and ids.py of docs/model.md.
import json
import math
import sys

import numpy
import onnxruntime
from ids import text_id

model, form, records, predicted, description = sys.argv[1:]


def lines(path):
    return [line for line in open(path).read().split("\n") if line.strip()]


def column(ids):
    return numpy.array(ids, dtype=numpy.uint64).astype(numpy.int64)


def many(name, lists, weights=None):
    length = max(map(len, lists))
    fill = lambda each, kind: numpy.array([part + [0] * (length - len(part)) for part in each], dtype=kind)
    feeds = {name: fill(lists, numpy.uint64).astype(numpy.int64),
             name + ".mask": fill([[1] * len(part) for part in lists], numpy.float32)}
    if weights is not None:
        feeds[name + ".weights"] = fill(weights, numpy.float32)
    return feeds


def floats(rows):
    return numpy.array(rows, dtype=numpy.float32)


def criteo():
    fields = [line.split("\t") for line in lines(records)]
    feeds = {"dense": floats([[math.log(1 + max(int(x or 0), 0)) for x in row[1:14]] for row in fields])}
    for i in range(26):
        feeds[f"C{i + 1}"] = numpy.array([text_id(f"C{i + 1}", row[14 + i]) for row in fields])
    return feeds


def word_ids():
    words = {word: number for number, word in enumerate(lines(description + "/dictionary.txt"))}
    return lambda word: words.get(word, words["<unk>"])


def ngram():
    number, windows = word_ids(), []
    for line in lines(records):
        ids = [number(word) for word in ["<s>", *line.split(), "<e>"]]
        windows += [ids[i:i + 5] for i in range(len(ids) - 4)]
    return {f"word{i}": column([window[i] for window in windows]) for i in range(4)}


def bow():
    number = word_ids()
    return many("words", [[number(word) for word in line.split("\t")[1].split()] for line in lines(records)])


def recommender():
    rows = [line.split("\t") for line in lines(records)]
    return {"user": column([int(row[0]) for row in rows]), "item": column([int(row[1]) for row in rows])}


def digits():
    return {"pixels": floats([line.split(",")[:64] for line in lines(records)])}


def libsvm():
    rows = [[pair.split(":") for pair in line.split()[1:]] for line in lines(records)]
    return many("features", [[int(i) for i, _ in row] for row in rows], [[float(x) for _, x in row] for row in rows])


# "<count> <value> <value>" of each slot: user, tags, price, label.
def multislot():
    slots = []
    for line in lines(records):
        parts = line.split()
        slots.append([])
        while parts:
            count = int(parts[0])
            slots[-1].append(parts[1:1 + count])
            parts = parts[1 + count:]
    return {"user": column([int(row[0][0]) for row in slots]), "price": floats([row[2] for row in slots]),
            **many("tags", [[int(x) for x in row[1]] for row in slots])}


# The raw columns of a csv file: age, income, width, height, level, a, b, kind, click; an empty field is missing.
def raw():
    rows = [line.split(",") for line in lines(records)]
    part = lambda begin, end: floats([[float(x) if x else math.nan for x in row[begin:end]] for row in rows])
    slots = {slot["name"]: slot for slot in json.load(open(description + "/slots.json"))["slots"]}
    return {"age": part(0, 1), "income": part(1, 2), "size": part(2, 4), "level": part(4, 5), "pair": part(5, 7),
            "kind": column([slots["kind"]["labels"].index(row[7]) for row in rows])}


# The numbers of a record in its line of `paddle predict`.
def answer(line, row):
    line = json.loads(line)
    if "probabilities" in line:
        return list(line["probabilities"].values())[-len(row):]
    if "class" in line:
        assert row.argmax() == line["class"], (row, line)
        return [line["score"] if i == line["class"] else row[i] for i in range(len(row))]
    if "score" in line:
        return [*row[:-1], line["score"]]
    return line.get("values", line.get("scores"))


session = onnxruntime.InferenceSession(model)
feeds = globals()[form]()
wanted = {each.name for each in session.get_inputs()}
rows = session.run(None, {name: value for name, value in feeds.items() if name in wanted})[0]
answers = lines(predicted)
assert len(rows) == len(answers) > 0, (len(rows), len(answers))
wanted = floats([answer(line, row) for row, line in zip(rows, answers)])
off = numpy.abs(rows - wanted) / numpy.maximum(1, numpy.abs(wanted))
assert off.max() < (2e-6 if "values" in json.loads(answers[0]) else 1e-6), off.max()
print(f"equal: {len(rows)} records, {off.max():.1e}, onnxruntime {onnxruntime.__version__}")
