"""Events and streams: one event, what is known about its columns, and many events in order."""

from cepviz.events.event import Event
from cepviz.events.schema import Schema
from cepviz.events.stream import Stream

__all__ = ["Event", "Schema", "Stream"]
