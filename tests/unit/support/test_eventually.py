import fcntl
import os
import resource

from tests.support.eventually import readable


def test_a_descriptor_of_any_number_can_be_waited_for():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 2_000), before[1]))
    ours, theirs = os.pipe()
    high = fcntl.fcntl(ours, fcntl.F_DUPFD_CLOEXEC, 1_500)
    try:
        assert readable(high, seconds=0) == []
        os.write(theirs, b"x")
        assert readable(high, seconds=0) == [high]
    finally:
        for one in (ours, theirs, high):
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
