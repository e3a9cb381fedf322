"""The filter of system calls does what its table says: it is run here by a small interpreter of such programs."""

import errno
import struct

import pytest

from skillwire.adapters.sandbox import seccomp
from skillwire.adapters.sandbox.seccomp import MACHINES, filter_program

ALLOW, KILL, FAIL = 0x7FFF0000, 0x80000000, 0x00050000


def judge(machine, number, *arguments, audit=None):
    """Return what the filter answers to a call."""
    data = struct.pack("=IIQ6Q", number, audit or MACHINES[machine][0], 0, *[*arguments, 0, 0, 0, 0, 0, 0][:6])
    steps = list(struct.iter_unpack("=HBBI", filter_program(machine)))
    accumulator = index = 0
    while True:
        code, then, otherwise, value = steps[index]
        index += 1
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif code == 0x54:
            accumulator &= value
        elif code == 0x06:
            return value
        else:
            holds = {0x15: accumulator == value, 0x25: accumulator > value, 0x45: bool(accumulator & value)}[code]
            index += then if holds else otherwise


@pytest.mark.parametrize("machine", MACHINES)
def test_each_call_of_the_table_is_refused(machine):
    column = MACHINES[machine][1]
    for numbers in seccomp._REFUSED.values():
        if numbers[column] is not None:
            assert judge(machine, numbers[column]) == FAIL | errno.EPERM
    for numbers in seccomp._ABSENT.values():
        assert judge(machine, numbers[column]) == FAIL | errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_usual_calls_are_allowed(machine):
    refused = {*seccomp._REFUSED.values(), *seccomp._ABSENT.values()}
    column = MACHINES[machine][1]
    numbers = set(range(452)) - {row[column] for row in refused} - {seccomp._SOCKET[column]}
    assert {judge(machine, number) for number in numbers} == {ALLOW}


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_that_are_newer_or_of_another_convention_do_not_exist(machine):
    for number in (453, 500, 0x40000000, 0x40000000 + 39, 0xFFFFFFFF):
        assert judge(machine, number) == FAIL | errno.ENOSYS
    assert judge(machine, 20, audit=0x40000003) == KILL  # 32-bit programs


@pytest.mark.parametrize("machine", MACHINES)
def test_no_flag_of_a_namespace_passes_clone(machine):
    clone = seccomp._CLONE[MACHINES[machine][1]]
    assert judge(machine, clone, 17) == ALLOW
    assert judge(machine, clone, 0x3D0F00) == ALLOW  # a thread
    for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert judge(machine, clone, flag | 17) == FAIL | errno.EPERM


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("family", "kind", "protocol", "answer"),
    [
        (1, 1, 0, ALLOW),
        (2, 1, 0, ALLOW),
        (2, 1 | 0o2000000 | 0o4000, 6, ALLOW),
        (10, 2, 17, ALLOW),
        (1, 5, 0, ALLOW),
        (2, 3, 1, FAIL | errno.EPERM),
        (2, 1, 132, FAIL | errno.EPROTONOSUPPORT),
        (16, 3, 0, FAIL | errno.EAFNOSUPPORT),
        (17, 3, 3, FAIL | errno.EAFNOSUPPORT),
        (38, 5, 0, FAIL | errno.EAFNOSUPPORT),
        (40, 1, 0, FAIL | errno.EAFNOSUPPORT),
    ],
)
def test_sockets_are_of_usual_families_types_and_protocols(machine, family, kind, protocol, answer):
    assert judge(machine, seccomp._SOCKET[MACHINES[machine][1]], family, kind, protocol) == answer


@pytest.mark.parametrize("machine", MACHINES)
def test_nothing_is_typed_into_terminals(machine):
    ioctl = seccomp._IOCTL[MACHINES[machine][1]]
    assert judge(machine, ioctl, 0, 0x5413) == ALLOW
    for request in (0x5412, 0x541C, 0x5412 | 1 << 32):  # the kernel looks at 32 bits of it
        assert judge(machine, ioctl, 0, request) == FAIL | errno.EPERM
