#!/usr/bin/env python3
"""A GGUF with some of the layers of another: a draft model that fits it.

    python3 tests/bench/fewer_layers.py MODEL.gguf LAYERS OUT.gguf

LAYERS are numbers and ranges, "0-11,24,29", in the order of the draft.
Tensors are copied as they are, keys too but for the count of layers.
"""
import re
import struct
import sys

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
TEXT, ARRAY, U32 = 8, 9, 4


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        self.at += size
        return self.data[self.at - size:self.at]

    def number(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize(form)))[0]

    def text(self):
        return self.take(self.number("Q"))

    def skip(self, kind):
        if kind == TEXT:
            self.text()
        elif kind == ARRAY:
            item, count = self.number("I"), self.number("Q")
            if item == TEXT:
                for _ in range(count):
                    self.text()
            else:
                self.take(SIZES[item] * count)
        else:
            self.take(SIZES[kind])


def with_size(text):
    return struct.pack("<Q", len(text)) + text


def read_keys(reader, count, layers):
    """The keys' bytes, and the alignment of tensors."""
    out, alignment = b"", 32
    for _ in range(count):
        key, kind = reader.text(), reader.number("I")
        begin = reader.at
        reader.skip(kind)
        value = reader.data[begin:reader.at]
        if key.endswith(b".block_count"):
            value = struct.pack("<I", layers)
        if key == b"general.alignment":
            alignment = struct.unpack("<I", value)[0]
        out += with_size(key) + struct.pack("<I", kind) + value
    return out, alignment


def read_tensors(reader, count, alignment):
    """{name: (shape and type, content)} in the file's order."""
    infos = {}
    for _ in range(count):
        name, dims = reader.text().decode(), reader.number("I")
        infos[name] = (struct.pack("<I", dims) + reader.take(8 * dims + 4),
                       reader.number("Q"))
    start = -(-reader.at // alignment) * alignment
    places = sorted(place for _, place in infos.values())
    ends = dict(zip(places, places[1:] + [len(reader.data) - start]))
    return {name: (shape, reader.data[start + place:start + ends[place]])
            for name, (shape, place) in infos.items()}


def kept(tensors, layers):
    """(new name, old name) of what the draft has."""
    for name in tensors:
        if not name.startswith("blk."):
            yield name, name
    for new, old in enumerate(layers):
        for name in tensors:
            if name.startswith(f"blk.{old}."):
                yield re.sub(r"\d+", str(new), name, count=1), name


def parse_layers(text):
    layers = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        layers += range(int(first), int(last or first) + 1)
    return layers


def read(path, layers):
    """(head, count of keys, their bytes, alignment, tensors)"""
    with open(path, "rb") as file:
        reader = Reader(file.read())
    head, n_tensors, n_keys = reader.take(8), reader.number("Q"), \
        reader.number("Q")
    keys, alignment = read_keys(reader, n_keys, layers)
    return head, n_keys, keys, alignment, \
        read_tensors(reader, n_tensors, alignment)


def rewrite(model, layers, out, replaced=None):
    """Writes `out`. replaced: {name in out: (shape and type, content)}, in
    place of the tensors of that name, or beside them.
    """
    head, n_keys, keys, alignment, tensors = read(model, len(layers))
    content = {new: tensors[old] for new, old in kept(tensors, layers)}
    content.update(replaced or {})
    infos, data = b"", b""
    for name, (shape, numbers) in content.items():
        infos += with_size(name.encode()) + shape + struct.pack("<Q", len(data))
        data += numbers + bytes(-(len(data) + len(numbers)) % alignment)
    text = head + struct.pack("<QQ", len(content), n_keys) + keys + infos
    with open(out, "wb") as file:
        file.write(text + bytes(-len(text) % alignment) + data)


if __name__ == "__main__":
    rewrite(sys.argv[1], parse_layers(sys.argv[2]), sys.argv[3])
