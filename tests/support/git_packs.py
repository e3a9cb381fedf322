"""Packs of Git, as a hostile server or a test of the reader writes them. Spec: gitformat-pack."""

KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4, "ofs": 6, "ref": 7}


def head(kind, size):
    """Return how an object of this kind and size begins."""
    data = bytearray([KINDS[kind] << 4 | size & 15])
    size >>= 4
    while size:
        data[-1] |= 0x80
        data.append(size & 0x7F)
        size >>= 7
    return bytes(data)
