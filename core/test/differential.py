#!/usr/bin/env python3
"""differential.py CANONICAL [VALUES]: the core's canonical JSON against independent references, over random values.

CANONICAL is the program of canonical.c. The expected bytes are made here, number by number, from Python's repr (the shortest
text that reads back) in ECMAScript's form; where node is installed, its JSON.stringify must agree on every double. SEED=n
replays a run.
"""
import decimal
import json
import os
import random
import shutil
import struct
import subprocess
import sys

INT64 = range(-(2**63), 2**63)
ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def ecmascript(number: float) -> str:
    """Number::toString of ECMAScript."""
    if number == 0:
        return "0"
    sign, digits, exponent = decimal.Decimal(repr(number)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + int(exponent)
    if len(text) <= point <= 21:
        out = text + "0" * (point - len(text))
    elif 0 < point <= 21:
        out = text[:point] + "." + text[point:]
    elif -6 < point <= 0:
        out = "0." + "0" * -point + text
    else:
        out = text[0] + ("." + text[1:] if len(text) > 1 else "") + f"e{point - 1:+d}"
    return "-" * sign + out


def canonical_number(text: str) -> "str | None":
    """What the number of this text is written as: integers of 64 bits exactly, the others as doubles; None: refused."""
    exact = decimal.Decimal(text)
    if exact.adjusted() < 40 and exact == exact.to_integral_value() and int(exact) in INT64:
        return str(int(exact))
    number = float(text)
    if number in (float("inf"), float("-inf")):
        return None
    if number.is_integer() and int(number) in INT64 and exact != exact.to_integral_value():
        return str(int(number))
    return ecmascript(number)


def canonical_string(text: str) -> str:
    return '"' + "".join(ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text) + '"'


class Values:
    """Random values: each is a JSON text as anybody may write it, and its canonical form (None: refused)."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.doubles: "list[float]" = []

    def double(self) -> float:
        r = self.random
        kind = r.randrange(6)
        if kind == 0:
            return r.choice([0.0, -0.0, 5e-324, 1.7976931348623157e308, 2.2250738585072014e-308, 1e21, 1e-6, 1e-7, 9007199254740993.0,
                             1e20, 123456789012345680000.0, 0.1, 1 / 3, 2.0**63, -(2.0**63), 2.0**62 + 1024])
        if kind == 1:
            return r.randrange(-10**6, 10**6) / r.choice([1, 2, 10, 100, 1000, 3])
        if kind == 2:
            return float(f"{r.randrange(1, 10**r.randrange(1, 18))}e{r.randrange(-30, 30)}")
        while True:
            (number,) = struct.unpack("<d", struct.pack("<Q", r.getrandbits(64)))
            if number == number and abs(number) != float("inf"):
                return float(number)

    def number(self) -> "tuple[str, str | None]":
        r = self.random
        kind = r.randrange(5)
        if kind == 0:
            text = str(r.choice([0, 1, 10, 2**31, 2**53, 2**63 - 1, 2**63, 10**19, 10**25]) * r.choice([1, -1]) + r.randrange(-2, 3))
        elif kind == 1:
            text = f"{r.randrange(10**r.randrange(1, 25))}.{r.randrange(10**9)}e{r.randrange(-340, 330)}"
        else:
            number = self.double()
            self.doubles.append(number)
            text = repr(number) if kind == 2 else f"{number:.{r.randrange(1, 30)}e}" if kind == 3 else f"{number:.17g}"
        return text, canonical_number(text)

    def string(self) -> "tuple[str, str]":
        r = self.random
        alphabet = ['"', "\\", "/", "\b", "\n", "\0", "\x1f", "\x7f", "a", "é", "€", "\u2028", "\ud7ff", "\ue000", "\uffff", "𝄞", "\U0010ffff"]
        text = "".join(r.choice(alphabet) for _ in range(r.randrange(8)))
        return json.dumps(text, ensure_ascii=bool(r.randrange(2))), canonical_string(text)

    def value(self, depth: int) -> "tuple[str, str | None]":
        r = self.random
        kind = r.randrange(8)
        if kind < 4:
            return self.number()
        if kind == 4:
            return self.string()
        if kind == 5 or depth == 0:
            return (word := r.choice(["true", "false", "null"])), word
        items = [self.value(depth - 1) for _ in range(r.randrange(5))]
        space = r.choice(["", " ", "\t", "  \r"])
        if kind == 6:
            return f"[{f'{space},'.join(text for text, _ in items)}{space}]", joined("[", [form for _, form in items], "]")
        members = {}
        for item in items:
            text, form = self.string()
            members[json.loads(text)] = (text, form, item)
        text = f"{space},".join(f"{key}{space}:{space}{item[0]}" for key, _, item in members.values())
        ordered = sorted(members, key=lambda key: key.encode("utf-16-be"))
        forms = [None if members[k][2][1] is None else f"{members[k][1]}:{members[k][2][1]}" for k in ordered]
        return f"{{{space}{text}}}", joined("{", forms, "}")


def joined(opening: str, forms: "list[str | None]", closing: str) -> "str | None":
    return None if None in forms else opening + ",".join(form for form in forms if form is not None) + closing


def filtered(command: "list[str]", lines: "list[str]") -> "list[str]":
    done = subprocess.run(command, input=("\n".join(lines) + "\n").encode(), stdout=subprocess.PIPE, check=True)
    return done.stdout.decode().split("\n")[:-1]


NODE = """for (const line of require('fs').readFileSync(0, 'latin1').split('\\n').slice(0, -1))
  console.log(JSON.stringify(new DataView(Uint8Array.from(Buffer.from(line, 'hex')).buffer).getFloat64(0)))"""


def check_reference(doubles: "list[float]") -> None:
    """Node writes every double as `ecmascript` does."""
    node = shutil.which("node") or shutil.which("nodejs")
    if node is None:
        print("no node here: the doubles' reference is Python's repr alone")
        return
    for number, text in zip(doubles, filtered([node, "-e", NODE], [struct.pack(">d", n).hex() for n in doubles])):
        if text != ecmascript(number):
            sys.exit(f"the references disagree on {number!r}: node {text}, Python {ecmascript(number)}")


def main() -> None:
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 40000
    seed = int(os.environ.get("SEED") or random.randrange(2**32))
    print(f"SEED={seed}")
    values = Values(seed)
    pairs = [values.value(4) for _ in range(count)]
    check_reference(values.doubles)
    wrong = 0
    for (text, form), got in zip(pairs, filtered([sys.argv[1]], [text for text, _ in pairs]), strict=True):
        if got.startswith("!") if form is None else got == form:
            continue
        wrong += 1
        if wrong <= 10:
            print(f"{text}\n  wanted {form}\n  got    {got}")
    print(f"{count} values, {len(values.doubles)} doubles among them")
    print(f"[  {'FAILED' if wrong else 'PASSED'}  ] {wrong or 1} test(s).")
    sys.exit(wrong > 0)


main()
