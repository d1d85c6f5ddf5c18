"""Write generated MARC-8 strings beside the Unicode that pymarc decodes them to."""

import argparse
import contextlib
import io
import json
import random

from pymarc.marc8 import marc8_to_unicode
from pymarc.marc8_mapping import CODESETS

# pymarc reads each set in one half of the code space only and knows neither EACC
# in G1 nor the final "!E". So a string is spelled twice: in any documented form,
# which is written out, and in the plain form that pymarc decodes. With --direct
# only the strings are written that pymarc decodes alike from both.

ASCII, ANSEL, EACC = 0x42, 0x45, 0x31
SYMBOLS = (0x67, 0x62, 0x70)  # Greek symbols, subscripts, superscripts
LATIN_MARKS = {ASCII, ANSEL, 0x4E, 0x51}  # sets that borrow ANSEL's diacritics
HIGH = {ANSEL, 0x51, 0x34}  # sets that pymarc keys by their G1 codes
SPACE = (ASCII, 0x20)
LIGATURES = ((0xEB, 0xEC), (0xFA, 0xFB))
HALVES = {code for pair in LIGATURES for code in pair}

# The bytes between ESC and a set's name, by (multibyte, G1).
INTERMEDIATES = {
    (False, False): (b"(", b","),
    (False, True): (b")", b"-"),
    (True, False): (b"$", b"$,"),
    (True, True): (b"$)", b"$-"),
}

# EACC characters that the current tables map elsewhere than pymarc does.
OUTDATED = {0x217559, 0x222A34, 0x223339, 0x6F7625, 0x6F773C}


def characters(final, combining):
    """Return the codes of a set's graphic characters, base or combining."""
    first = 0xA1 if final in HIGH else 0x21
    table = CODESETS[final]
    codes = [c for c, (_, mark) in table.items() if c >= first and mark == combining]
    return sorted(set(codes) - OUTDATED - HALVES)


BASES = {final: characters(final, 0) for final in CODESETS}
MARKS = {final: characters(final, 1) for final in CODESETS}


def text(rng):
    """Return a random text as a list of (set, code), marks before their base."""
    units = []
    for _ in range(rng.randint(1, 6)):
        final = rng.choice([ASCII, ASCII, *CODESETS])
        mark_set = ANSEL if final in LATIN_MARKS else final
        for _ in range(rng.randint(1, 6)):
            if final in LATIN_MARKS and rng.random() < 0.1:
                for half in rng.choice(LIGATURES):
                    units += [(ANSEL, half), (final, rng.choice(BASES[final]))]
                continue
            if MARKS[mark_set] and rng.random() < 0.3:
                for _ in range(rng.randint(1, 2)):
                    units.append((mark_set, rng.choice(MARKS[mark_set])))
            units.append((final, rng.choice(BASES[final])))
        if rng.random() < 0.3:
            units.append(SPACE)
    return units


def code_bytes(final, code, high):
    raw = code.to_bytes(3 if final == EACC else 1, "big")
    return bytes(b | 0x80 if high else b & 0x7F for b in raw)


def plain(units):
    """Spell a text in the forms that pymarc decodes."""
    out = b""
    g0, g1 = ASCII, ANSEL
    for final, code in units:
        if final in HIGH:
            if g0 == EACC:
                out, g0 = out + b"\x1b(B", ASCII
            if g1 != final:
                out, g1 = out + b"\x1b)" + bytes([final]), final
        elif g0 != final:
            intermediate = b"$" if final == EACC else b"("
            out, g0 = out + b"\x1b" + intermediate + bytes([final]), final
        out += code_bytes(final, code, final in HIGH)
    return out


def designate(rng, final, high, current):
    """Return an escape sequence that brings a set into G0 or G1."""
    leave = b"\x1bs" if not high and current in SYMBOLS else b""
    if final in SYMBOLS:
        return b"\x1b" + bytes([final])
    if final == ASCII and leave:
        return leave
    intermediate = rng.choice(INTERMEDIATES[final == EACC, high])
    name = b"!E" if final == ANSEL else bytes([final])
    return leave + b"\x1b" + intermediate + name


def spelled(rng, units):
    """Spell a text in any of the documented forms."""
    out = b""
    halves = [ASCII, ANSEL]
    for final, code in units:
        if (final, code) == SPACE and halves[0] != EACC:
            out += b" "  # the space belongs to every set
            continue
        if final not in halves or (final, code) == SPACE:
            high = (final in HIGH) != (rng.random() < 0.2)
            # A code with 20 in it has no G1 form, and the symbols have none at all.
            if final in SYMBOLS or 0x20 in code_bytes(final, code, False):
                high = False
            out += designate(rng, final, high, halves[high])
            halves[high] = final
        high = halves[0] != final
        if high and 0x20 in code_bytes(final, code, False):
            out += designate(rng, final, False, halves[0])
            halves[0], high = final, False
        out += code_bytes(final, code, high)
    if halves[0] != ASCII:
        out += designate(rng, ASCII, False, halves[0])
    return out


def direct(marc8, expected):
    """Tell whether pymarc decodes these very bytes to the expected text."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            return marc8_to_unicode(marc8, True) == expected
    except UnicodeDecodeError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("out")
    parser.add_argument("--direct", action="store_true")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    written = 0
    with open(args.out, "w", encoding="utf-8", newline="\n") as out:
        while written < args.count:
            units = text(rng)
            marc8 = spelled(rng, units)
            unicode = marc8_to_unicode(plain(units), True)
            if args.direct and not direct(marc8, unicode):
                continue
            line = {"marc8": marc8.hex(), "unicode": unicode}
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
            written += 1


if __name__ == "__main__":
    main()
