"""Somebody who is told by webhooks."""

from tests.support.raw_server import RawServer, answer


class Receiver(RawServer):
    """Takes webhooks, and answers each with the next of ``answers``, the last one for ever."""

    def __init__(self, *answers):
        super().__init__(self._take)
        self.answers = list(answers) or [answer()]
        self.taken = []

    def _take(self, peer):
        while head := peer.request():
            fields = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head.decode().split("\r\n")[1:])
            }
            size = int(fields["content-length"])
            while len(peer._buffer) < size:
                peer._buffer += peer._socket.recv(65536)
            body, peer._buffer = peer._buffer[:size], peer._buffer[size:]
            self.taken.append((head, fields, body))
            given = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if callable(given):
                given(peer)
                return
            peer.send(given)
