"""The messages that go to a node as one request, by their class."""

from pylog.protocol.wire.questions import groups, records, transactions
from pylog.protocol.wire.questions.question import Question

QUESTIONS: dict[type, Question] = {
    kind: question for room in (records, groups, transactions) for kind, question in room.QUESTIONS.items()
}
