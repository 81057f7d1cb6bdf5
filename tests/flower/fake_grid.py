"""A grid in this process: nodes are functions from packet to packet."""

from __future__ import annotations

from types import SimpleNamespace

from flwr.app import Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from protofed.flower.codec import decode, encode


class FakeGrid:
    """`nodes[id]` answers with a packet, the content of a message, an exception (Flower's error) or None."""

    def __init__(self, nodes, names=None, keys=None):
        TaskIdentity.task_id = TaskIdentity.run_id = TaskIdentity.node_id = 1
        self.nodes = dict(nodes)
        self.names = names or {}
        self.keys = keys or {}
        self.waiting = {}
        self.sent = []

    def get_node_ids(self):
        return list(self.nodes)

    def get_nodes(self):
        return [
            SimpleNamespace(
                node_id=node,
                name=self.names.get(node, ""),
                public_key=self.keys.get(node, b""),
                last_activated_at="",
            )
            for node in self.nodes
        ]

    def push_messages(self, messages):
        ids = []
        for number, message in enumerate(messages, start=len(self.sent)):
            message.metadata.__dict__["_message_id"] = f"m{number}"
            ids.append(f"m{number}")
            self.waiting[f"m{number}"] = message
            self.sent.append(message)
        return ids

    def pull_messages(self, ids):
        found = []
        for number in ids:
            message = self.waiting.pop(number, None)
            if message is not None:
                found += self._answers(message)
        return found

    def _answers(self, message):
        answer = self.nodes[message.metadata.dst_node_id](decode(message.content))
        answers = answer if isinstance(answer, list) else [answer]
        return [self._reply(message, one) for one in answers if one is not None]

    def _reply(self, message, answer):
        if isinstance(answer, Error):
            return Message(answer, reply_to=message)
        if isinstance(answer, Exception):
            return Message(Error(code=2, reason=str(answer)), reply_to=message)
        content = answer if isinstance(answer, RecordDict) else encode(answer)
        return Message(content, reply_to=message)
