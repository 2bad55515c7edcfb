"""The messages that go to a node as one request, by their class."""

from pylog.protocol.wire.questions import records
from pylog.protocol.wire.questions.question import Question

QUESTIONS: dict[type, Question] = records.QUESTIONS
