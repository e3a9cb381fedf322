"""The first program in a sandbox: it reads the request, sets its limits, calls the skill and reports.

A bare interpreter runs this file, which imports nothing of skillwire and little of Python, since each start waits for
that. The request is one object on standard input, in Python's marshal form, which only the server writes. The report
goes to a descriptor of its own: a ``+`` when the skill's code is about to begin, one JSON object, and, with output
files, a line feed and their bytes. A skill could forge only its own report. The skill runs in a child of the runner,
under the same limits and filter. When the child ends, the runner ends, and the kernel kills what is left.
"""
# ruff: noqa: PLC0415  # imports that a skill does not need would slow each start

import _thread
import marshal
import os
import resource
import sys
from typing import Any

_parts_of_json: Any = None
try:  # noqa: SIM105  # contextlib would cost a start 2 ms
    import _json as _parts_of_json  # json itself costs a start 8 ms
except ImportError:  # an interpreter that is made otherwise
    pass

_FRAMES = 12
_PIECE = 64 * 1024
_STACK = 8 * 1024 * 1024  # bytes of a thread, as usual; 64 of the server's could exceed the address space
_MESSAGE_LENGTH = 64 * 1024  # cut shorter outside, when secrets have been taken out


def main() -> None:
    """Run the skill; never return."""
    greeting, channel = map(int, sys.argv[1:])
    os.write(greeting, b"?")  # the server learns from the kernel which process this is
    request = marshal.loads(sys.stdin.buffer.read())  # noqa: S302  # it is from the server
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    _close_all_but(channel)
    for name, bound in request["limits"].items():
        resource.setrlimit(getattr(resource, name), tuple(bound))
    if request["proxy"]:
        request["environment"] |= _start_forwarder(request["proxy"], channel)
    os.environ.update(request["environment"])
    if child := os.fork():
        os.close(channel)
        process = 0
        while process != child:  # other processes may end before
            process, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        os._exit(code if code >= 0 else 128 - code)
    _thread.stack_size(_STACK)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a file; what is killed has still printed
    os.write(channel, b"+")
    report, files = _call(request, channel)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # the skill has closed or replaced it
            continue
    _write(channel, report)
    for path, size in files:
        _send(channel, path, size)
    os._exit(0)


def _call(request: dict[str, Any], channel: int) -> tuple[bytes, list[tuple[str, int]]]:
    """Return the report, and the files whose bytes follow it."""
    files: list[tuple[str, int]] = []
    try:
        function = _load(request["folder"], request["entrypoint"], request["export"])
        output = function(request["inputs"])
    except SystemExit as error:
        return _encode({"exit": str(error.code)[:_MESSAGE_LENGTH]}), files
    except BaseException as error:  # noqa: BLE001  # whatever a skill raises is reported
        _close_all_but(channel)  # it may have used up its descriptors
        return _encode(_describe(error)), files
    return _report(request, output, files), files


def _report(request: dict[str, Any], output: Any, files: list[tuple[str, int]]) -> bytes:
    """Return the report about a result, and add the files that the skill hands out to ``files``."""
    if type(output).__name__ in ("coroutine", "async_generator"):
        getattr(output, "close", bool)()  # or Python prints that it was never awaited
        return _encode({"asynchronous": request["export"]})
    try:
        report = _encode({"output": output})
    except (TypeError, ValueError, RecursionError) as error:
        return _encode({"unfit": str(error)[:_MESSAGE_LENGTH]})
    if len(report) > request["output_bytes"]:
        return _encode({"large": len(report)})
    if request["outputs"] and (exceeded := _find_files(files, *request["outputs"])):
        files.clear()
        return _encode({"exceeded": exceeded})
    if not files:
        return report
    begin = len(request["outputs"][0]) + 1
    return _encode({"output": output, "files": [[path[begin:], size] for path, size in files]}) + b"\n"


def _find_files(files: list[tuple[str, int]], folder: str, most: int, most_bytes: int) -> str | None:
    """Add to ``files`` what the skill hands out, with sizes; return the bound that they pass, if one.

    Only plain files and folders count: nothing is read through a link, a pipe or a device.
    """
    folders, total = [] if os.path.islink(folder) else [folder], 0  # noqa: PTH114  # pathlib would cost every start 5 ms
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        size = entry.stat(follow_symlinks=False).st_size
                        files.append((entry.path, size))
                        total += size
                        if len(files) > most:
                            return "blobs"
                        if total > most_bytes:
                            return "blob_bytes"
        except OSError:  # the skill has removed it, or closed it to itself
            continue
    files.sort()
    return None


def _send(channel: int, path: str, size: int) -> None:
    """Write exactly ``size`` bytes of a file; end, so that nothing counts, where it has no more as many."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    while size:
        piece = os.read(file, min(_PIECE, size))
        if not piece:
            os._exit(1)
        _write(channel, piece)
        size -= len(piece)
    os.close(file)


def _close_all_but(channel: int) -> None:
    os.closerange(3, channel)
    os.closerange(channel + 1, 1024)


def _load(folder: str, entrypoint: str, export: str) -> Any:
    path = f"{folder}/{entrypoint}"
    sys.argv = [path]
    sys.path[:0] = dict.fromkeys((os.path.dirname(path), folder))  # noqa: PTH120  # pathlib would cost every start 5 ms
    module = type(sys)(os.path.basename(path).removesuffix(".py"))  # noqa: PTH119  # same
    module.__file__ = path
    sys.modules[module.__name__] = module
    with open(path, "rb") as file:  # noqa: PTH123  # same
        code = compile(file.read(), path, "exec", dont_inherit=True)
    exec(code, module.__dict__)  # noqa: S102  # that is what a sandbox is for; importlib would cost every start 4 ms
    try:
        return getattr(module, export)
    except AttributeError:
        raise AttributeError(f"{entrypoint} has no function {export}") from None


def _describe(error: BaseException) -> dict[str, Any]:
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001  # a skill's exception may have a broken __str__
        message = ""
    trace: Any = error.__traceback__
    while trace and (trace.tb_frame.f_code.co_filename == __file__ or "importlib" in trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    try:
        import traceback

        lines = traceback.format_exception(type(error), error, trace, limit=-_FRAMES)
    except BaseException:  # noqa: BLE001  # same; or there is no memory left
        lines = []
    return {
        "exception": type(error).__name__,
        "message": message[:_MESSAGE_LENGTH],
        "errno": error.errno if isinstance(error, OSError) else None,
        "memory": isinstance(error, MemoryError),
        "traceback": "".join(lines)[-2 * _MESSAGE_LENGTH :],
    }


def _encode(report: dict[str, Any]) -> bytes:
    """Return ``report`` as JSON."""
    if _parts_of_json is None:
        import json

        return json.dumps(report, allow_nan=False).encode()
    encode = _parts_of_json.make_encoder(
        {}, _refuse, _parts_of_json.encode_basestring_ascii, None, ":", ",", False, False, False
    )
    return "".join(encode(report, 0)).encode()


def _refuse(value: Any) -> Any:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _write(channel: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(channel, rest) :]


def _start_forwarder(proxy: str, channel: int) -> dict[str, str]:
    """Start the process that carries connections to a port of this sandbox to the proxy outside."""
    import socket

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    if os.fork() == 0:
        os.close(channel)
        for descriptor in (1, 2):
            os.dup2(0, descriptor)
        try:
            _forward(listener, lambda: socket.socket(socket.AF_UNIX), proxy)
        finally:
            os._exit(1)
    listener.close()
    address = f"http://127.0.0.1:{port}"
    return {"HTTPS_PROXY": address, "https_proxy": address}


def _forward(listener: Any, make_socket: Any, proxy: str) -> None:
    """Carry bytes both ways, in two threads for each connection."""
    while True:
        near, _ = listener.accept()
        far = make_socket()
        try:
            far.connect(proxy)
            _thread.start_new_thread(_carry, (near, far))
            _thread.start_new_thread(_carry, (far, near))
        except (OSError, RuntimeError):  # the proxy, or the limit of threads, wants no more
            near.close()
            far.close()


def _carry(source: Any, target: Any) -> None:
    try:
        while data := source.recv(_PIECE):
            target.sendall(data)
    except OSError:
        target.close()
        return
    try:
        target.shutdown(1)  # what comes the other way may go on
    except OSError:
        return


if __name__ == "__main__":
    main()
