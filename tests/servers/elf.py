"""Changes the version of a library that an ELF binary asks for.

The name stands in the table of strings once, and its hash in the entry of the needed version (`vna_hash`).
Old and new name have the same length, so that nothing moves.
"""

import struct

SHT_GNU_VERNEED = 0x6FFFFFFE


def elf_hash(name):
    """The hash function of the ELF specification."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value


def rename_needed_version(path, old, new):
    """Makes the binary ask for the version `new` where it asked for `old`."""
    if len(old) != len(new):
        raise ValueError("the names have different lengths")
    image = bytearray(path.read_bytes())
    if image[:6] != b"\x7fELF\x02\x01":
        raise ValueError(f"{path} is not a 64-bit little-endian ELF file")
    renamed = 0
    for needed, strings in _needed_versions(image):
        name_at = strings + struct.unpack_from("<I", image, needed + 8)[0]
        if image[name_at:name_at + len(old) + 1] == old + b"\0":
            image[name_at:name_at + len(new)] = new
            struct.pack_into("<I", image, needed, elf_hash(new))
            renamed += 1
    if renamed != 1:
        raise ValueError(f"{path} asks for {old.decode()} {renamed} times, and not once")
    path.write_bytes(image)


def _needed_versions(image):
    """Yields the offset of each entry of a needed version (Elf64_Vernaux), and that of its strings."""
    sections, = struct.unpack_from("<Q", image, 40)
    size, count = struct.unpack_from("<HH", image, 58)
    # Of a section header: its type, the offset of its content, and the section that it is linked to.
    headers = [struct.unpack_from("<4xI16xQ8xI", image, sections + size * n) for n in range(count)]
    for kind, library, strings in headers:
        if kind != SHT_GNU_VERNEED:
            continue
        strings = headers[strings][1]
        while True:
            _version, versions, _file, first, next_library = struct.unpack_from("<HHIII", image, library)
            needed = library + first
            for _ in range(versions):
                yield needed, strings
                needed += struct.unpack_from("<I", image, needed + 12)[0]
            if next_library == 0:
                break
            library += next_library
