"""Random changes of valid files, each from a seed."""

import gzip
import io
import zipfile

import numpy as np

from tests.faults.valid_files import valid_files

# Bytes with a meaning in one of the formats, or for terminals.
SPECIAL = [
    b"\x00", b"\xff", b"\x1b[31m", b'"', b"'", b"\n", b"\r", b",", b";", b"\t", b"[", b"{", b"}",
    b"<", b">", b"&", b"\\", b"\\ud800", b"\xed\xa0\x80", "\u202e".encode(), b"-", b".", b"e999",
    b"9" * 400, b"NaN", b"null", b"=", b"%", b"\x80",
]  # fmt: skip


def mutated(name, seed):
    """A valid file, by the name of its format, with one to four random changes."""
    content, rng = valid_files()[name], np.random.default_rng([seed, *name.encode()])
    # Half of the changes are made inside the compressed parts, which are then sound by themselves.
    if name == "workbook" and rng.random() < 0.8:
        return in_a_part(content, rng)
    if name.endswith(".gz") and rng.random() < 0.5:
        return gzip.compress(changed(gzip.decompress(content), rng))
    return changed(content, rng)


def in_a_part(content, rng):
    """A zip file with changes in one of its parts."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as before,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as after,
    ):
        names = before.namelist()
        sheet = next(name for name in names if "sheet" in name)
        part = sheet if rng.random() < 0.5 else names[rng.integers(len(names))]
        for name in names:
            text = before.read(name)
            after.writestr(name, changed(text, rng) if name == part else text)
    return buffer.getvalue()


def changed(content, rng):
    for _ in range(rng.integers(1, 5)):
        i, j = sorted(rng.integers(0, len(content) + 1, 2))
        j = min(j, i + int(rng.integers(1, 40)))
        piece = content[i:j]
        match rng.integers(7):
            case 0:
                piece = bytes(rng.integers(0, 256, len(piece), dtype=np.uint8))
            case 1:
                piece = b""
            case 2:
                piece = piece * int(rng.integers(2, 5))
            case 3:
                piece = SPECIAL[rng.integers(len(SPECIAL))]
            case 4:
                piece += SPECIAL[rng.integers(len(SPECIAL))]
            case 5:
                piece = bytes(byte ^ (1 << int(rng.integers(8))) for byte in piece[:1]) + piece[1:]
            case 6 if rng.random() < 0.3:
                content, i, j, piece = content[:i], i, i, b""
        content = content[:i] + piece + content[j:]
    return content
