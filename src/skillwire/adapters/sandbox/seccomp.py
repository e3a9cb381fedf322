"""Which system calls a skill's code may make, as a program for the kernel.

Namespaces hide what a skill must not reach; the filter also makes the kernel itself smaller. It refuses calls that
reach the machine past the namespaces (keyrings, ``AF_VSOCK``, performance counters), that hold memory which is not
counted (``memfd_create``, System V shared memory), that make new namespaces, that inspect other processes, and that
only an administrator needs. A call newer than this table does not exist inside. The program reads the kernel's
``struct seccomp_data``: the call's number, the architecture and six arguments.

Spec: Linux, ``Documentation/userspace-api/seccomp_filter.rst``.
"""

from __future__ import annotations

import errno
import struct
from typing import Final

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _GREATER, _ANY_BIT = 0x15, 0x25, 0x45
_ALLOW, _KILL, _FAIL = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND, _THIRD = 0, 4, 16, 24, 32  # offsets; low halves on little-endian machines


#: ``os.uname().machine`` → its constant in the kernel's audit interface, and its column of the tables below.
MACHINES: Final = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}

_HIGHEST: Final = 452  # the newest call that this table has judged
_CLONE, _IOCTL, _SOCKET = (56, 220), (16, 29), (41, 198)

#: Refused as if the kernel did not have them, so that programs do without.
_ABSENT: Final = {
    "clone3": (435, 435),  # its flags lie in memory, where a filter cannot look; glibc then calls clone
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "userfaultfd": (323, 282),
}
_REFUSED: Final[dict[str, tuple[int | None, int | None]]] = {
    "_sysctl": (156, None), "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171), "bpf": (321, 280),
    "chroot": (161, 51), "clock_adjtime": (305, 266), "clock_settime": (227, 112), "create_module": (174, None),
    "delete_module": (176, 106), "fanotify_init": (300, 262), "finit_module": (313, 273), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433), "get_kernel_syms": (177, None),
    "init_module": (175, 105), "ioperm": (173, None), "iopl": (172, None), "kcmp": (312, 272),
    "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219), "lookup_dcookie": (212, 18),
    "mbind": (237, 235), "migrate_pages": (256, 238), "modify_ldt": (154, None), "mount": (165, 40),
    "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239), "mq_open": (240, 180),
    "msgget": (68, 186), "name_to_handle_at": (303, 264), "nfsservctl": (180, 42), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "ptrace": (101, 117),
    "query_module": (178, None), "quotactl": (179, 60), "quotactl_fd": (443, 443), "reboot": (169, 142),
    "request_key": (249, 218), "semget": (64, 190), "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450), "setdomainname": (171, 162), "sethostname": (170, 161),
    "setns": (308, 268), "settimeofday": (164, 170), "shmat": (30, 196), "shmget": (29, 194), "swapoff": (168, 225),
    "swapon": (167, 224), "sysfs": (139, None), "syslog": (103, 116), "umount2": (166, 39), "unshare": (272, 97),
    "uselib": (134, None), "ustat": (136, None), "vhangup": (153, 58),
}  # fmt: skip
_NEW_NAMESPACES: Final = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_FAMILIES: Final = (1, 2, 10)  # AF_UNIX, AF_INET, AF_INET6
_SOCKET_TYPES: Final = (1, 2, 5)  # stream, datagram, sequenced packets
_PROTOCOLS: Final = (0, 6, 17)  # the usual one, TCP, UDP: no module is loaded for any other
_TERMINAL_INPUT: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into another program's terminal


def filter_program(machine: str) -> bytes:
    """Return the filter for ``machine``, a key of :data:`MACHINES`, as ``struct sock_filter`` array."""
    audit, column = MACHINES[machine]
    absent = sorted(numbers[column] for numbers in _ABSENT.values())
    refused = sorted(number for numbers in _REFUSED.values() if (number := numbers[column]) is not None)
    steps = [
        _step(_LOAD, _ARCHITECTURE),
        _step(_EQUAL, audit, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _NUMBER),
        _step(_GREATER, _HIGHEST, 0, 1),  # the other calling convention of x86_64 has numbers beyond, too
        _step(_RETURN, _FAIL | errno.ENOSYS),
        *_fail_for(absent, errno.ENOSYS),
        *_fail_for(refused, errno.EPERM),
        *_judged(_CLONE[column], [_step(_LOAD, _FIRST), _step(_ANY_BIT, _NEW_NAMESPACES, 0, 1), _fail(errno.EPERM)]),
        *_judged(_IOCTL[column], [_step(_LOAD, _SECOND), *_fail_for(_TERMINAL_INPUT, errno.EPERM)]),
        *_judged(
            _SOCKET[column],
            [
                *[_step(_LOAD, _FIRST), *_fail_unless(_FAMILIES, errno.EAFNOSUPPORT)],
                # Above the type are SOCK_NONBLOCK and SOCK_CLOEXEC.
                *[_step(_LOAD, _SECOND), _step(_AND, 0xF), *_fail_unless(_SOCKET_TYPES, errno.EPERM)],
                *[_step(_LOAD, _THIRD), *_fail_unless(_PROTOCOLS, errno.EPROTONOSUPPORT)],
            ],
        ),
        _step(_RETURN, _ALLOW),
    ]
    return b"".join(steps)


def _judged(number: int, rules: list[bytes]) -> list[bytes]:
    """Return the steps that hold a call against ``rules``, and allow it where none refuses it."""
    return [_step(_EQUAL, number, 0, len(rules) + 1), *rules, _step(_RETURN, _ALLOW)]


def _fail_for(values: tuple[int, ...] | list[int], number: int) -> list[bytes]:
    return [step for value in values for step in (_step(_EQUAL, value, 0, 1), _fail(number))]


def _fail_unless(values: tuple[int, ...], number: int) -> list[bytes]:
    return [*(_step(_EQUAL, value, len(values) - index, 0) for index, value in enumerate(values)), _fail(number)]


def _fail(number: int) -> bytes:
    return _step(_RETURN, _FAIL | number)


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    """Return one instruction; ``then`` and ``otherwise`` are how many instructions a jump leaves out."""
    return struct.pack("=HBBI", code, then, otherwise, value)
