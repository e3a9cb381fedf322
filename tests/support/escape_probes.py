"""A hostile skill: each function tries one way out of the sandbox, and returns what it could do.

This file is published as it is and called in the sandbox; ``world`` is what the attacker would have to guess: paths,
ports and numbers of processes outside. An empty list means that nothing worked. What ends by a limit does not return.
"""
# ruff: noqa: ARG001, B023, C901, PERF401, PLC0415, PLW1510, PTH101, PTH102, PTH103, PTH111, PTH113, PTH115, PTH116, PTH118
# ruff: noqa: PTH104, PTH106, SIM905, PTH120, PTH123, PTH208, PTH211, S103, S104, S108, S310, SIM105, SIM115, T201
# mypy: ignore-errors

import ctypes
import errno
import marshal
import os
import signal
import socket
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"
CLONE = {
    "ns": 0x20000,
    "cgroup": 0x2000000,
    "uts": 0x4000000,
    "ipc": 0x8000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "time": 0x80,
}


#: What worked; each probe runs in a process of its own.
found = []


def attempt(name, function, *arguments):
    """Call ``function``; what it returns goes to ``found`` unless it failed."""
    try:
        result = function(*arguments)
    except (OSError, ValueError, ImportError, AttributeError, RuntimeError, UnicodeError):
        return None
    found.append(f"{name}: {str(result)[:200]}")
    return result


def call(function, *arguments):
    result = getattr(libc, function)(*arguments)
    if result == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(x86, generic, *arguments):
    return call("syscall", ctypes.c_long(x86 if X86 else generic), *arguments)


def read(path):
    with open(path, "rb") as file:
        return file.read(4096)


def reads_files_of_the_machine(world):
    for path in (
        "/etc/shadow /etc/machine-id /etc/ssh/ssh_host_ed25519_key /etc/sudoers /etc/hostname /etc/ssl/private "
        "/var/log/syslog /var/lib/dpkg/status /boot /sys/class/dmi/id/product_uuid"
    ).split():
        attempt(path, read, path)
        attempt(path, os.listdir, path)
    if b"root" in read("/etc/passwd"):
        found.append("the machine's /etc/passwd")
    return found


def reads_the_state_directory(world):
    for path in (world["state"], world["state_file"], os.path.dirname(world["state"])):
        attempt(path, os.listdir, path)
        attempt(path, read, path)
        attempt(path, os.stat, path)
    return found


def reads_homes(world):
    for path in (
        world["home"],
        world["home_file"],
        "/home",
        os.path.expanduser("~root"),
        "/root" + "/.ssh",
        "/root" + "/.bashrc",
    ):
        attempt(path, read, path)
    attempt("home", os.listdir, world["home"])
    attempt("/home", os.listdir, "/home")
    return found


def reads_a_file_that_everybody_may_read(world):
    for path in (world["public_file"], "/proc/self/cwd/.." + world["public_file"], "/skill/../" + world["public_file"]):
        attempt(path, read, path)
    return found


def finds_the_canary_anywhere(world):
    for root, folders, files in os.walk("/"):
        if root.startswith(("/proc/", "/usr/lib/x86", "/usr/share")):
            folders.clear()
            continue
        for name in files:
            if "canary" in name:
                found.append(os.path.join(root, name))
            elif root.startswith(("/work", "/tmp", "/run", "/etc", "/dev")) and os.path.isfile(
                os.path.join(root, name)
            ):
                try:
                    data = read(os.path.join(root, name)) if root != "/dev" else b""
                except OSError:
                    continue
                if world["marker"].encode() in data:
                    found.append(os.path.join(root, name))
    return found


def follows_symlinks(world):
    for number, target in enumerate(
        (
            world["state_file"],
            "/proc/1/root" + world["home_file"],
            "../" * 20 + world["public_file"],
            "/proc/self/root" + "/.." + world["state_file"],
            "/dev/fd/../../etc/shadow",
        )
    ):
        os.symlink(target, f"link{number}")
        attempt(target, read, f"link{number}")
        attempt(target, os.link, target, f"hard{number}")
    for folder in ("/", "/skill", "/work", "/proc/self"):
        descriptor = os.open(folder, os.O_RDONLY)
        for path in ("../" * 10 + world["state_file"], "../../.." + world["public_file"]):
            attempt(path, lambda: os.read(os.open(path, os.O_RDONLY, dir_fd=descriptor), 100))
    return found


def climbs_through_roots_of_processes(world):
    for process in ("1", "self", "thread-self", *(name for name in os.listdir("/proc") if name.isdigit())):
        for way in ("root", "cwd", "map_files"):
            for path in (world["state_file"], world["public_file"], "/etc/shadow"):
                attempt(f"{process} {way}", read, f"/proc/{process}/{way}{path}")
    return found


def sees_other_processes(world):
    for name in os.listdir("/proc"):
        if name.isdigit():
            line = read(f"/proc/{name}/cmdline").replace(b"\0", b" ").decode()
            if "runner.py" not in line and line:
                found.append(line)
    for process in world["processes"]:
        attempt(str(process), read, f"/proc/{process}/cmdline") if process > 50 else None
    return found


def reads_environments(world):
    for name in ["self", *(name for name in os.listdir("/proc") if name.isdigit())]:
        try:
            if world["marker"].encode() in read(f"/proc/{name}/environ"):
                found.append(name)
        except OSError:
            continue
    found.extend([name for name, value in os.environ.items() if world["marker"] in value])
    found.extend([name for name in os.environ if name.startswith(("PYTEST", "SKILLWIRE_HOME", "SSH", "XDG"))])
    return found


def reads_command_lines(world):
    """No path of the machine, and no secret, stands on a command line."""
    lines = [read(f"/proc/{name}/cmdline") for name in os.listdir("/proc") if name.isdigit()]
    return [repr(line) for line in lines if world["marker"].encode() in line or world["home"].encode() in line]


def changes_the_skill(world):
    path = "/skill/main.py"
    attempt("write", lambda: open(path, "a").write("#"))
    attempt("create", lambda: open("/skill/new", "w").write("#"))
    attempt("chmod", os.chmod, path, 0o777)
    attempt("unlink", os.unlink, path)
    attempt("rename", os.rename, path, "/skill/other")
    attempt("utime", os.utime, path)
    attempt("mkdir", os.mkdir, "/skill/folder")
    attempt("truncate", os.truncate, path, 0)
    attempt("setxattr", os.setxattr, path, "user.x", b"1")
    attempt("through proc", lambda: open("/proc/self/root" + __file__, "r+b").write(b"#"))
    return found


def changes_what_it_is_given(world):
    (blob,) = (f"/blobs/{name}" for name in os.listdir("/blobs"))
    for path in (blob, "/skills/tests.hostile/main.py", "/skills/tests.hostile", "/blobs", "/skills"):
        attempt(f"chmod {path}", os.chmod, path, 0o777)
        attempt(f"utime {path}", os.utime, path, (1, 1))
        attempt(f"rename {path}", os.rename, path, "taken")
        attempt(f"replace {path}", os.replace, "/skill/main.py", path)
        attempt(f"link {path}", os.link, path, "linked")
        attempt(f"remove {path}", os.remove, path)
        attempt(f"rmdir {path}", os.rmdir, path)
        for flags in (os.O_WRONLY, os.O_RDWR | os.O_TRUNC, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_TMPFILE):
            attempt(f"open {path}", os.open, path, flags)
        attempt(f"new {path}", os.open, f"{path}/new", os.O_WRONLY | os.O_CREAT)
        handle = os.open(path, os.O_RDONLY)
        attempt(f"again {path}", os.open, f"/proc/self/fd/{handle}", os.O_RDWR)
        attempt(f"remount {path}", call, "mount", b"none", path.encode(), b"none", 0x1020, None)
        attempt(f"unmount {path}", call, "umount2", path.encode(), 2)
    return found


def finds_what_others_are_given(world):
    if len(os.listdir("/blobs")) != 1 or os.listdir("/skills") != ["tests.hostile"]:
        found.append(f"{os.listdir('/blobs')} {os.listdir('/skills')}")
    for path in (f"{world['state']}/run-blobs", f"/blobs/..{world['state']}", "/blobs/../skills/..//cache", ".new"):
        attempt(path, os.listdir, path)
    with open("/proc/self/mountinfo") as mounts:
        sources = [line.split()[3] for line in mounts if " /blobs/" in line]
    for source in sources:
        attempt(source, os.listdir, os.path.dirname(os.path.dirname(source)))
        attempt(source, read, source)
    return found


def hands_out_what_is_not_its_own(world):
    out = os.environ["SKILLS_OUTPUT"]
    targets = ("/etc/passwd /proc/1/environ /proc/self/mem /blobs /dev/zero /skill/main.py /proc/1/root").split()
    for number, path in enumerate(targets):
        os.symlink(path, f"{out}/link-{number}")
        attempt(path, os.link, path, f"{out}/hard-{number}")
    os.mkfifo(f"{out}/pipe")
    socket.socket(socket.AF_UNIX).bind(f"{out}/socket")
    attempt("device", os.mknod, f"{out}/device", 0o020666, os.makedev(1, 5))
    attempt("mount", call, "mount", b"/etc", out.encode(), None, 0x1000, None)
    return []


def hands_out_another_folder(world):
    out = os.environ["SKILLS_OUTPUT"]
    os.rmdir(out)
    os.symlink("/etc", out)
    return []


def changes_what_it_hands_out_while_it_is_read(world):
    """Swap a file for a link, and its length, as fast as that goes, while the runner reads."""
    out = os.environ["SKILLS_OUTPUT"]
    with open(f"{out}/a", "wb") as file:
        file.truncate(3_000_000)
    if os.fork() == 0:
        while True:
            for act in (
                lambda: os.truncate(f"{out}/a", 3_000_000),
                lambda: os.truncate(f"{out}/a", 10),
                lambda: os.rename(f"{out}/a", f"{out}/b"),
                lambda: os.symlink("/etc/passwd", f"{out}/a"),
                lambda: os.rename(f"{out}/b", f"{out}/a"),
            ):
                try:
                    act()
                except OSError:
                    continue
    time.sleep(0.05)
    return []


def hands_out_names_that_lead_elsewhere(world):
    for channel in _channels():
        try:
            os.write(channel, b'{"output":[],"files":[["../../../../tmp/canary",1]]}\nx')
        except OSError:
            continue
    os._exit(0)


def hands_out_much(world):
    for number in range(3):
        with open(f"{os.environ['SKILLS_OUTPUT']}/{number}", "wb") as file:
            file.truncate(40 * 1024 * 1024)


def hands_out_many(world):
    for number in range(65):
        with open(f"{os.environ['SKILLS_OUTPUT']}/{number}", "wb"):
            pass


def changes_the_interpreter(world):
    import json

    for folder in {
        os.path.dirname(os.__file__),
        os.path.dirname(json.__file__),
        os.path.dirname(sys.executable),
        "/usr/lib",
        "/usr/lib/x86_64-linux-gnu",
        os.path.dirname(os.__file__) + "/site-packages",
    }:
        attempt(folder, lambda: open(f"{folder}/evil.py", "w"))
    attempt("os.py", lambda: open(os.__file__, "a"))
    attempt("python", lambda: open(sys.executable, "r+b"))
    return found


def changes_the_root(world):
    for path in (
        "/evil /etc/evil /etc/passwd /run/evil /run/skillwire/runner.py /dev/evil /usr/evil /proc/evil"
    ).split():
        attempt(path, lambda: open(path, "a"))
    attempt("mkdir", os.mkdir, "/evil")
    attempt("swap", os.rename, "/work", "/other")
    return found


def writes_kernel_settings(world):
    for path, value in {
        "sys/kernel/core_pattern": "|/skill/main.py",
        "sysrq-trigger": "h",
        "sys/vm/drop_caches": "1",
        "sys/kernel/hostname": "evil",
        "sys/user/max_user_namespaces": "1000",
        "self/uid_map": "0 0 1",
        "self/oom_score_adj": "-1000",
        "sys/net/ipv4/ip_forward": "1",
        "self/setgroups": "allow",
        "sys/kernel/yama/ptrace_scope": "0",
        "sys/kernel/modprobe": "/skill/main.py",
        "1/oom_score_adj": "-1000",
    }.items():

        def write():
            with open(f"/proc/{path}", "w") as file:
                file.write(value)

        attempt(path, write)
    return found


def mounts(world):
    os.makedirs("m", exist_ok=True)
    for source, target, kind, flags in (
        (b"tmpfs", b"m", b"tmpfs", 0),
        (b"/", b"m", None, 4096),
        (b"proc", b"m", b"proc", 0),
        (None, b"/skill", None, 32),
        (None, b"/skill", None, 32 | 4096),
        (b"/dev/vda", b"m", b"ext4", 0),
        (b"sysfs", b"m", b"sysfs", 0),
        (b"cgroup2", b"m", b"cgroup2", 0),
        (b"overlay", b"m", b"overlay", 0),
    ):
        attempt(str((source, target)), call, "mount", source, target, kind, flags, None)
    for target in (b"/proc", b"/skill", b"/work", b"/"):
        attempt(f"umount {target}", call, "umount2", target, 2)
    for name, number in {
        "open_tree": 428,
        "move_mount": 429,
        "fsopen": 430,
        "fspick": 433,
        "mount_setattr": 442,
    }.items():
        attempt(name, syscall, number, number, -100, b"/", 1, 0, 0)
    return found


def makes_namespaces(world):
    for name, flag in CLONE.items():
        attempt(f"unshare {name}", call, "unshare", flag)
        if name != "time":
            attempt(f"clone {name}", syscall, 56, 220, flag | signal.SIGCHLD, 0, 0, 0, 0)
    attempt("clone3", syscall, 435, 435, ctypes.create_string_buffer(b"\0\0\0\x10" + b"\0" * 84), 88)
    for kind in os.listdir("/proc/1/ns"):
        attempt(f"setns {kind}", lambda: call("setns", os.open(f"/proc/1/ns/{kind}", os.O_RDONLY), 0))
    return found


def changes_its_root(world):
    os.makedirs("jail", exist_ok=True)
    attempt("chroot", os.chroot, "jail")
    attempt("pivot_root", syscall, 155, 41, b"jail", b"jail")
    attempt("open_by_handle_at", syscall, 304, 265, 3, b"\0" * 16, 0)
    attempt("name_to_handle_at", syscall, 303, 264, -100, b"/", b"\x80" + b"\0" * 140, ctypes.byref(ctypes.c_int()), 0)
    return found


def traces_processes(world):
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    for process in (1, child, os.getppid(), *world["processes"]):
        for name, request in {"attach": 16, "seize": 0x4206}.items():
            attempt(f"{name} {process}", syscall, 101, 117, request, process, 0, 0)
        buffer = ctypes.create_string_buffer(64)
        vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 64)
        attempt(f"vm_readv {process}", syscall, 310, 270, process, vector, 1, vector, 1, 0)
        attempt(f"pidfd_getfd {process}", lambda: syscall(438, 438, os.pidfd_open(process), 0, 0))
    os.kill(child, signal.SIGKILL)
    return found


def kills_processes_outside(world):
    for process in (*world["processes"], -1):
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                if process > 3:
                    os.kill(process, number)
            except OSError:
                pass
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for group in world["processes"]:
        try:
            if group > 3:
                os.killpg(group, signal.SIGKILL)
        except OSError:
            pass
    return []


def kills_its_parents(world):
    """Ends the sandbox, and nothing beyond it."""
    for process in (os.getppid(), 1, 0, -1):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP):
            try:
                if process != 0:
                    os.kill(process, number)
            except OSError:
                pass
    return []


def opens_raw_sockets(world):
    for name, family, kind, protocol in (
        ("raw", 2, 3, 1),
        ("raw tcp", 2, 3, 6),
        ("raw v6", 10, 3, 58),
        ("packet", 17, 3, 3),
        ("packet datagram", 17, 2, 3),
        ("netlink", 16, 3, 0),
        ("netlink audit", 16, 3, 9),
        ("vsock", 40, 1, 0),
        ("alg", 38, 5, 0),
        ("bluetooth", 31, 3, 1),
        ("sctp", 2, 1, 132),
        ("can", 29, 3, 1),
        ("xdp", 44, 3, 0),
        ("tipc", 30, 1, 0),
        ("key", 15, 3, 2),
        ("mptcp", 2, 1, 262),
    ):
        attempt(name, socket.socket, family, kind, protocol)
    return found


def _connects(addresses, timeout=0.3):
    for host, port in addresses:

        def connect():
            with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
                sock.settimeout(timeout)
                sock.connect((host, port))

        attempt(f"{host}:{port}", connect)


def connects_to_the_machine(world):
    _connects([(host, world["port"]) for host in ("127.0.0.1", "127.0.1.1", "::1", "0.0.0.0", *world["addresses"])])
    _connects([("::ffff:127.0.0.1", world["port"])])
    return found


def connects_to_the_internet(world):
    _connects(
        found,
        [("1.1.1.1", 443), ("93.184.215.14", 80), ("2606:4700:4700::1111", 443), ("10.0.0.1", 80), ("192.168.1.1", 80)],
    )
    return found


def asks_metadata_services(world):
    _connects([("169.254.169.254", 80), ("169.254.170.2", 80), ("fd00:ec2::254", 80), ("100.100.100.200", 80)])
    return found


def looks_names_up(world):
    for name in ("example.com", "metadata.google.internal", world["hostname"], "host.docker.internal"):
        attempt(name, socket.getaddrinfo, name, 443)
    for server in ("127.0.0.53", "1.1.1.1", "127.0.0.1"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(0.2)
            attempt(
                server,
                lambda: (
                    sock.sendto(b"\1\1\1\0\0\1\0\0\0\0\0\0\7example\3com\0\0\1\0\1", (server, 53)),
                    sock.recv(100),
                ),
            )
    return found


def sends_datagrams(world):
    for host in ("127.0.0.1", *world["addresses"], "255.255.255.255", "224.0.0.251"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            try:
                sock.sendto(world["marker"].encode(), (host, world["udp_port"]))
            except OSError:
                continue
    return found


def connects_to_abstract_sockets(world):
    for name in ("\0" + world["abstract"], "\0/tmp/.X11-unix/X0", "\0dbus"):
        attempt(name, socket.socket(socket.AF_UNIX).connect, name)
    if world["marker"].encode() in read("/proc/net/unix"):
        found.append("listed")
    return found


def connects_to_sockets_in_files(world):
    for path in (
        world["unix"],
        "/run/dbus/system_bus_socket",
        "/var/run/docker.sock",
        "/run/containerd/containerd.sock",
        "/run/systemd/notify",
        "/run/skillwire/proxy.sock",
        "/tmp/.X11-unix/X0",
    ):
        attempt(path, socket.socket(socket.AF_UNIX).connect, path)
    return found


def forks_without_end(world):
    count = 0
    while True:
        try:
            if os.fork() == 0:
                count = 0
            else:
                count += 1
        except OSError:
            time.sleep(0.001)


def fills_memory(world):
    kept = []
    while True:
        kept.append(bytearray(1 << 20))


def fills_memory_at_once(world):
    return len(bytearray(4 << 30))


def fills_memory_in_many_processes(world):
    for _ in range(8):
        if os.fork() == 0:
            break
    kept = []
    while True:
        try:
            kept.append(bytearray(1 << 20))
        except MemoryError:
            time.sleep(1)


def fills_shared_memory(world):
    import mmap

    kept = []
    for _ in range(16):
        if os.fork() == 0:
            while True:
                try:
                    area = mmap.mmap(-1, 32 << 20)
                except OSError:
                    break
                for offset in range(0, 32 << 20, 4096):
                    area[offset] = 1
                area.madvise(mmap.MADV_DONTNEED)  # the pages stay, and are nobody's
                kept.append(area)
    time.sleep(30)


def fills_memory_without_a_name(world):
    attempt("memfd", os.memfd_create, "x")
    attempt("memfd secret", syscall, 447, 447, 0)
    attempt("shmget", syscall, 29, 194, 0, 1 << 30, 0o1600)
    attempt("msgget", syscall, 68, 186, 0, 0o1600)
    attempt("semget", syscall, 64, 190, 0, 1000, 0o1600)
    attempt("mq_open", syscall, 240, 180, b"x", 0o102, 0o600, None)
    attempt("mlock", lambda: call("mlock", ctypes.create_string_buffer(1 << 20), 1 << 20))
    return found


def _fill(folder):
    written = 0
    try:
        for number in range(1000):
            with open(f"{folder}/{number}", "wb") as file:
                for _ in range(8):
                    written += file.write(b"1" * (1 << 20))
    except OSError as error:
        return [written >> 20, errno.errorcode[error.errno]]
    return [written >> 20, "never"]


def fills_the_work_folder(world):
    return {folder: _fill(folder) for folder in ("/work", "/tmp", "/dev/shm")}


def writes_one_large_file(world):
    with open("large", "wb") as file:
        while True:
            file.write(b"1" * (1 << 20))


def makes_files_without_end(world):
    number = 0
    while True:
        number += 1
        os.mkdir(str(number))


def opens_files_without_end(world):
    kept = []
    while True:
        kept.append(os.open("/dev/null", os.O_RDONLY))


def holds_kernel_memory_in_pipes(world):
    """Make pipes as large as allowed; the kernel bounds what a user holds in them."""
    import fcntl

    total = 0
    try:
        for _ in range(200):
            _, end = os.pipe()
            try:
                fcntl.fcntl(end, 1031, 1 << 20)
            except OSError:
                pass
            os.set_blocking(end, False)
            try:
                while True:
                    total += os.write(end, b"1" * 65536)
            except BlockingIOError:
                continue
    except OSError:
        pass
    return total >> 20


def spins(world):
    while True:
        pass


def spins_in_many_processes(world):
    for _ in range(4):
        if os.fork() == 0:
            break
    while True:
        pass


def spins_in_short_lived_processes(world):
    while True:
        if os.fork() == 0:
            end = time.process_time() + 0.2
            while time.process_time() < end:
                pass
            os._exit(0)
        os.wait()


def ignores_the_end(world):
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            continue
    while True:
        time.sleep(1)


def stops_itself(world):
    os.kill(os.getpid(), signal.SIGSTOP)
    os.kill(0, signal.SIGSTOP)
    while True:
        time.sleep(1)


def leaves_daemons(world):
    for _ in range(5):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                call("prctl", 36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
                os.closerange(0, 256)
                while True:
                    time.sleep(1)
            os._exit(0)
    threading.Thread(target=time.sleep, args=(60,)).start()
    return []


def finds_open_files(world):
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                target = os.readlink(f"/proc/self/fd/{name}")
            except OSError:
                continue  # the one that listed
            if not target.startswith("pipe:"):
                found.append(target)
    for number in range(3, 256):
        attempt(f"read {number}", os.pread, number, 100, 0)
        attempt(f"change to {number}", os.fchdir, number)
    return found


def opens_devices(world):
    for name in (
        "mem kmem kmsg port kvm fuse net/tun sda vda loop0 loop-control tty tty0 console ptmx pts/ptmx input/event0 "
        "dri/card0 vsock userfaultfd snapshot cpu/0/msr"
    ).split():
        attempt(name, lambda: os.open(f"/dev/{name}", os.O_RDWR | os.O_NONBLOCK))
    for kind, major, minor in ((0o060000, 254, 0), (0o020000, 1, 1), (0o020000, 1, 11)):
        attempt(f"mknod {major} {minor}", os.mknod, f"node{major}{minor}", kind | 0o600, os.makedev(major, minor))
    return found


def reads_keyrings(world):
    attempt("session", syscall, 250, 219, 0, -3, 1)
    attempt("describe", syscall, 250, 219, 6, -3, None, 0)
    attempt("read user's", syscall, 250, 219, 11, -4, ctypes.create_string_buffer(64), 64)
    attempt("add", syscall, 248, 217, b"user", b"x", b"y", 1, -3)
    attempt("request", syscall, 249, 218, b"user", world["marker"].encode(), None, -3)
    return found


def becomes_somebody_else(world):
    for name in ("setuid", "setgid", "seteuid", "setegid", "setfsuid", "setfsgid"):
        try:
            getattr(libc, name)(0)
        except AttributeError:
            continue
    if 0 in (*os.getresuid(), *os.getresgid()):
        found.append("root")
    attempt("setgroups", os.setgroups, [0])
    status = read("/proc/self/status").decode()
    for line in status.splitlines():
        if line.startswith("Cap") and int(line.split()[1], 16):
            found.append(line)
    for name, value in (("NoNewPrivs", "1"), ("Seccomp", "2")):
        if f"{name}:\t{value}" not in status:
            found.append(f"{name} is not {value}")
    for process in (
        name for name in os.listdir("/proc") if name.isdigit()
    ):  # nobody here whom to take over is worth it
        try:
            status, limits = read(f"/proc/{process}/status"), read(f"/proc/{process}/limits")
        except (FileNotFoundError, ProcessLookupError):  # it has ended since
            continue
        if not all(
            line in status
            for line in (b"NoNewPrivs:\t1", b"Seccomp:\t2", b"CapEff:\t" + b"0" * 16, b"CapBnd:\t" + b"0" * 16)
        ):
            found.append(f"process {process} may do more")
        if limits != read("/proc/self/limits"):
            found.append(f"process {process} may use more")
    attempt(
        "capset",
        lambda: call(
            "capset",
            ctypes.create_string_buffer(b"\x22\x05\x08\x20" + b"\0" * 4),
            ctypes.create_string_buffer(b"\xff" * 24),
        ),
    )
    if read("/proc/self/uid_map").split()[1] == b"0" and world["uid_map_shows_root"]:
        found.append("uid 0 of the machine")
    return found


def runs_setuid_programs(world):
    import stat
    import subprocess

    for root, folders, files in os.walk("/"):
        if root == "/proc":
            folders.clear()
            continue
        for name in files:
            path = os.path.join(root, name)
            try:
                mode = os.stat(path, follow_symlinks=False).st_mode
            except OSError:
                continue
            if stat.S_ISREG(mode) and mode & 0o6000:
                try:
                    done = subprocess.run([path], capture_output=True, timeout=1, stdin=subprocess.DEVNULL)
                except (OSError, subprocess.TimeoutExpired):
                    continue
                if b"uid=0" in done.stdout:
                    found.append(path)
    os.chmod("/work", 0o700)
    with open(sys.executable, "rb") as source, open("python", "wb") as copy:
        copy.write(source.read())
    attempt("a setuid program of its own", _setuid_copy)
    return found


def _setuid_copy():
    import subprocess

    os.chmod("python", 0o6755)
    code = "import os,sys; sys.exit(0 if 0 in os.getresuid() else 1)"
    try:
        done = subprocess.run(["./python", "-I", "-S", "-c", code], capture_output=True, timeout=5)
    except subprocess.SubprocessError as error:
        raise OSError(str(error)) from None
    if done.returncode:
        raise OSError("not root")
    return "root"


def runs_other_programs(world):
    import subprocess

    for program in (
        "/bin/sh sh /usr/bin/env /bin/busybox /usr/bin/bwrap /usr/bin/setpriv curl gcc /sbin/modprobe"
    ).split():
        attempt(program, lambda: subprocess.run([program, "--version"], capture_output=True, timeout=2))
    return found


def types_into_terminals(world):
    import fcntl

    for descriptor in range(3):
        attempt(f"TIOCSTI {descriptor}", fcntl.ioctl, descriptor, 0x5412, b"x")
        attempt(f"TIOCLINUX {descriptor}", fcntl.ioctl, descriptor, 0x541C, b"\3")
        attempt(f"TIOCSCTTY {descriptor}", fcntl.ioctl, descriptor, 0x540E, 1)
    attempt("a terminal", os.open, "/dev/tty", os.O_RDWR)
    attempt("a new terminal", os.openpty)
    return found


def makes_core_files(world):
    child = os.fork()
    if child == 0:
        os.abort()
    os.waitpid(child, 0)
    return [name for name in os.listdir("/work") if "core" in name]


def changes_the_machine(world):
    moment = (ctypes.c_long * 2)(0, 0)
    attempt("clock", syscall, 227, 112, 0, moment)
    attempt("settimeofday", syscall, 164, 170, moment, None)
    attempt("hostname", socket.sethostname, "evil")
    attempt("domain", syscall, 171, 162, b"evil", 4)
    attempt("reboot", syscall, 169, 142, 0xFEE1DEAD, 672274793, 0x1234567, None)
    attempt("swap", syscall, 167, 224, b"x", 0)
    attempt("syslog", syscall, 103, 116, 3, ctypes.create_string_buffer(100), 100)
    attempt("kexec", syscall, 246, 104, 0, 0, None, 0)
    attempt("module", syscall, 175, 105, b"x", 1, b"")
    attempt("accounting", syscall, 163, 89, b"x")
    attempt("quota", syscall, 179, 60, 0x80000100, None, 0, None)
    return found


def asks_the_kernel_for_much(world):
    attempt("bpf", syscall, 321, 280, 0, ctypes.create_string_buffer(128), 128)
    attempt("perf", syscall, 298, 241, ctypes.create_string_buffer(b"\1\0\0\0\x70\0\0\0" + b"\0" * 120), 0, -1, -1, 0)
    attempt("io_uring", syscall, 425, 425, 8, ctypes.create_string_buffer(120))
    attempt("userfaultfd", syscall, 323, 282, 1)
    attempt("fanotify", syscall, 300, 262, 0, 0)
    attempt("personality", syscall, 135, 92, 0x0040000)
    attempt("a call of the future", syscall, 470, 470, 0)
    if X86:
        attempt("the other calling convention", call, "syscall", ctypes.c_long(0x40000000 + 39))
    return found


def speaks_the_old_calling_convention(world):
    """Asks for getpid as 32-bit programs do, whose numbers the filter does not know."""
    import mmap

    if not X86:
        os.kill(os.getpid(), signal.SIGSYS)
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(area)))
    return [function()]


def raises_its_limits(world):
    import resource

    for name in ("RLIMIT_NPROC RLIMIT_AS RLIMIT_CPU RLIMIT_NOFILE RLIMIT_FSIZE RLIMIT_CORE RLIMIT_MEMLOCK").split():
        number = getattr(resource, name)
        hard = resource.getrlimit(number)[1]
        attempt(name, resource.setrlimit, number, (hard + 1, hard + 1))
        attempt(f"{name} of the first process", resource.prlimit, 1, number, (hard + 1, hard + 1))
    attempt("nice", os.nice, -5)
    attempt("real time", lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
    return found


def leaves_its_group(world):
    attempt("/sys", os.listdir, "/sys")
    for path in ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/kernel/debug"):
        attempt(path, lambda: open(path, "a"))
    return found


def prints_without_end(world):
    while True:
        os.write(1, b"x" * 65536)


def prints_control_characters(world):
    print("\x1b]0;owned\x07\x1b[2J\u202e\0 done")
    raise ValueError("\x1b[31mred\u202e")


def returns_much(world):
    return "x" * (64 << 20)


def returns_no_json(world):
    return {1, 2}


def returns_not_a_number(world):
    return float("nan")


def returns_itself(world):
    result = []
    result.append(result)
    return result


def returns_much_depth(world):
    result = []
    for _ in range(900):
        result = [result]
    return result


def _channels():
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            yield int(name)


def writes_a_false_result(world):
    """Its own result it may write; nothing else passes for one."""
    for channel in _channels():
        try:
            os.write(channel, b'{"exception": "Fake", "message": "one"}{"output": "two"}')
        except OSError:
            continue
    print('{"output": "printed"}')
    os._exit(0)


def writes_a_result_without_end(world):
    for channel in list(_channels()):
        try:
            while True:
                os.write(channel, b"[" * 65536)
        except OSError:
            continue


def writes_a_strange_result(world):
    for channel in _channels():
        try:
            os.write(channel, b'{"exception": {"a": []}, "message": 7, "errno": "x", "traceback": [1]}')
        except OSError:
            continue
    os._exit(0)


def ends_without_a_result(world):
    os._exit(3)


def closes_everything(world):
    os.closerange(0, 256)
    return []


def raises_what_cannot_be_told(world):
    class Strange(BaseException):
        def __str__(self):
            raise RuntimeError

        __repr__ = __str__

    raise Strange


def raises_with_a_secret(world):
    import base64

    secret = os.environ["GRANTED_KEY"]
    print("printed", secret, base64.b64encode(secret.encode()).decode())
    raise ValueError(f"key {secret} was refused")


def returns_its_environment(world):
    return {name: value for name, value in os.environ.items() if name.startswith(("SKILLWIRE", "GRANTED", "OTHER"))}


def holds_the_processor_lock(world):
    """Keeps every signal handler of Python from running."""
    ctypes.PyDLL(None).usleep.argtypes = [ctypes.c_uint]
    while True:
        ctypes.PyDLL(None).usleep(1_000_000)


def _ask_proxy(data, wait=5.0, path=None):
    """Send bytes to the proxy; return what comes until it closes, or falls silent."""
    if path:
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
    else:
        host, port = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
        sock = socket.create_connection((host, int(port)))
    with sock:
        sock.settimeout(wait)
        answer = b""
        try:
            sock.sendall(data)
            while piece := sock.recv(65536):
                answer += piece
                if b"200 Connected" in answer and answer.partition(b"\r\n\r\n")[2]:
                    break
        except OSError:
            pass
    return answer.decode("latin-1")


def asks_the_proxy(world):
    """Say each of ``requests`` to the proxy, once through the forwarder and once to its socket."""
    return [
        _ask_proxy(request.encode("latin-1"), path=path)
        for request in world["requests"]
        for path in (None, "/run/skillwire/proxy.sock")
    ]


def fetches(world):
    """Use the proxy as programs do."""
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(world["url"], timeout=5) as answer:
            return answer.read().decode()
    except urllib.error.URLError as error:
        return f"failed: {error.reason}"


def opens_connections_without_end(world):
    """Hold connections to the proxy that say nothing."""
    kept, closed = [], 0
    for _ in range(60):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect("/run/skillwire/proxy.sock")
        kept.append(sock)
    time.sleep(0.3)
    for sock in kept:
        sock.setblocking(False)
        try:
            closed += sock.recv(1) == b""
        except BlockingIOError:
            continue
        except OSError:
            closed += 1
    return closed


def keeps_the_proxy_for_daemons(world):
    """Leave a process behind that has a connection through the proxy."""
    if os.fork() == 0:
        os.setsid()
        sock = socket.socket(socket.AF_UNIX)
        sock.connect("/run/skillwire/proxy.sock")
        sock.sendall(world["requests"][0].encode())
        while True:
            time.sleep(0.1)
            sock.sendall(b"x")
    time.sleep(0.3)
    return []


def tries_everything(inputs):
    """Run each probe in a process of its own; return what each could do."""
    return {name: _in_a_process(globals()[name], inputs) for name in inputs["probes"]}


def _in_a_process(probe, inputs):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, marshal.dumps(probe(inputs)))
        except BaseException as error:  # noqa: BLE001  # reported, as what a probe could do is
            os.write(writing, marshal.dumps(repr(error)))
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.set_blocking(reading, False)  # a daemon may hold the other end
    try:
        return marshal.loads(os.read(reading, 65_536))  # noqa: S302  # of our own child
    finally:
        os.close(reading)
        os.close(writing)
